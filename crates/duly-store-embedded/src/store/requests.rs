//! Calls that take the engine several steps: questions and lists that a later step completes, and
//! changes in slices.

use std::sync::Arc;

use duly_core::NamespaceName;
use duly_store::{Claimed, ListRequest, Page, Result, StoreFuture};
use tokio::sync::oneshot;

use crate::{
    engine::{Engine, async_count::CountQuestion, list::Listing},
    shell::{self, Inbox, Request, Slices},
};

use super::{EmbeddedStore, ReplyAt, StoreMode, after, received, run_inline, write_durably};

impl EmbeddedStore {
    /// Asks the engine a question about a namespace.
    pub(super) fn count<T: Send + 'static>(
        &self,
        namespace: NamespaceName,
        question: impl FnOnce(oneshot::Sender<Result<T>>) -> CountQuestion + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let (reply, mut answer) = oneshot::channel();
        match &self.mode {
            StoreMode::Inline { engine, wakeups } => {
                let requested = run_inline(&mut engine.lock(), wakeups, move |engine| {
                    engine.queue_count(&namespace, question(reply));
                    Ok(())
                });
                let ended_before_reply = |_| Err(shell::ended_before_reply());
                let answer =
                    requested.and_then(|()| answer.try_recv().unwrap_or_else(ended_before_reply));
                ReplyAt::Now.received(std::future::ready(answer))
            }
            StoreMode::Threads { shared, .. } => {
                let pushed =
                    shared.inbox.push(Request::call(move |engine| match engine.check_usable() {
                        Ok(()) => engine.queue_count(&namespace, question(reply)),
                        Err(error) => question(reply).refuse(error),
                    }));
                ReplyAt::Now.received(received(pushed, answer))
            }
        }
    }

    /// Reads a page of a list, slice by slice.
    pub(super) fn listed(&self, request: ListRequest) -> StoreFuture<'_, Page> {
        match &self.mode {
            StoreMode::Inline { .. } => self.call(ReplyAt::Now, move |engine| {
                let mut listing = Listing::new(engine, request)?;
                loop {
                    if let Some(page) = listing.slice(engine) {
                        return page;
                    }
                }
            }),
            StoreMode::Threads { shared, .. } => {
                let (reply, answer) = oneshot::channel();
                let inbox = Arc::clone(&shared.inbox);
                let pushed = shared.inbox.push(Request::call(move |engine| {
                    match Listing::new(engine, request) {
                        Ok(listing) => inbox.push_list(Box::new(listing), reply),
                        Err(error) => drop(reply.send(Err(error))),
                    }
                }));
                ReplyAt::Now.received(received(pushed, answer))
            }
        }
    }

    /// Makes changes slice by slice, each within a step; the result is durable.
    pub(super) fn in_slices<T: Send + 'static>(
        &self,
        mut slice: impl FnMut(&mut Engine) -> Option<Result<T>> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        match &self.mode {
            StoreMode::Inline { engine, wakeups } => {
                let mut engine = engine.lock();
                let answer = run_inline(&mut engine, wakeups, move |engine| {
                    loop {
                        match slice(engine) {
                            Some(answer) => return answer,
                            None => write_durably(engine)?,
                        }
                    }
                });
                Box::pin(std::future::ready(answer))
            }
            StoreMode::Threads { shared, .. } => {
                let (reply, answer) = oneshot::channel();
                let (mut reply, mut has_begun) = (Some(reply), false);
                let slices: Slices = Box::new(move |engine| {
                    // Once something was done, a failure leaves the whole call in doubt, which the
                    // commit reports.
                    let usable = if has_begun { Ok(()) } else { engine.check_usable() };
                    has_begun = true;
                    let result = match usable {
                        Ok(()) => slice(engine)?,
                        Err(error) => Err(error),
                    };
                    let reply = reply.take();
                    let waiter = move |done| {
                        drop(reply.map(|reply| reply.send(after(done, result))));
                    };
                    Some((ReplyAt::Durable, Box::new(waiter)))
                });
                received(shared.inbox.push(Request::Slices(slices)), answer)
            }
        }
    }
}

/// A claim that its caller has not received yet. If it is dropped, its firings are handed back. No
/// consumer has received them, so the attempt does not count.
pub(super) struct UnreceivedClaim {
    pub(super) claimed: Claimed,
    pub(super) inbox: Arc<Inbox>,
}

impl UnreceivedClaim {
    /// Hands the claim to its caller.
    pub(super) fn deliver(mut self) -> Claimed {
        std::mem::take(&mut self.claimed)
    }
}

impl Drop for UnreceivedClaim {
    fn drop(&mut self) {
        let firings = std::mem::take(&mut self.claimed.firings);
        if firings.is_empty() {
            return;
        }
        self.inbox.push_always(move |engine| {
            for firing in &firings {
                engine.release_unreceived(&firing.token);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use duly_store::Error;

    use super::*;

    #[test]
    fn a_call_that_changes_nothing_is_never_in_doubt() {
        for (when, may_be_in_doubt) in
            [(ReplyAt::Now, false), (ReplyAt::Written, true), (ReplyAt::Durable, true)]
        {
            let mut answer =
                when.received(std::future::ready(Err::<(), _>(shell::ended_before_reply())));
            let polled = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(Err(error)) = polled else { panic!("it is ready") };
            assert_eq!(
                matches!(error, Error::InDoubt { .. }),
                may_be_in_doubt,
                "{when:?}: {error}"
            );
            assert_eq!(matches!(error, Error::Unavailable { .. }), !may_be_in_doubt, "{error}");
        }
    }
}
