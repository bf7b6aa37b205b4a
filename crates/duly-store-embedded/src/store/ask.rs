//! What takes the engine several steps: questions that a later step answers, and changes that are made
//! in shares.

use duly_core::NamespaceName;
use duly_store::{Result, StoreFuture};
use tokio::sync::oneshot;

use crate::{
    engine::{Engine, survey::Question},
    shell::{self, Answer, Request, Shares},
};

use super::{EmbeddedStore, Mode, after, answered, run_inline, write_durably};

impl EmbeddedStore {
    /// Has a question about a namespace answered.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        namespace: NamespaceName,
        question: impl FnOnce(oneshot::Sender<Result<T>>) -> Question + Send + 'static,
    ) -> StoreFuture<'_, T> {
        let (reply, mut answer) = oneshot::channel();
        match &self.mode {
            Mode::Inline { engine, wakeups } => {
                let asked = run_inline(&mut engine.lock(), wakeups, move |engine| {
                    engine.ask(&namespace, question(reply));
                    Ok(())
                });
                let broken_off = |_| Err(shell::broken_off());
                let answer = asked.and_then(|()| answer.try_recv().unwrap_or_else(broken_off));
                Box::pin(std::future::ready(answer))
            }
            Mode::Threads { shared, .. } => {
                let pushed = shared.inbox.push(Request::Call(Box::new(move |engine| {
                    match engine.check_usable() {
                        Ok(()) => engine.ask(&namespace, question(reply)),
                        Err(error) => question(reply).refuse(error),
                    }
                    Answer::Now(Box::new(|_| {}))
                })));
                answered(pushed, answer)
            }
        }
    }

    /// Makes changes share by share, each within a step; the answer is durable.
    pub(super) fn in_shares<T: Send + 'static>(
        &self,
        mut share: impl FnMut(&mut Engine) -> Option<Result<T>> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        match &self.mode {
            Mode::Inline { engine, wakeups } => {
                let mut engine = engine.lock();
                let answer = run_inline(&mut engine, wakeups, move |engine| {
                    loop {
                        match share(engine) {
                            Some(answer) => return answer,
                            None => write_durably(engine)?,
                        }
                    }
                });
                Box::pin(std::future::ready(answer))
            }
            Mode::Threads { shared, .. } => {
                let (reply, answer) = oneshot::channel();
                let (mut reply, mut has_begun) = (Some(reply), false);
                let shares: Shares = Box::new(move |engine| {
                    // Once something was done a failure leaves the whole in doubt, as the commit says.
                    let usable = if has_begun { Ok(()) } else { engine.check_usable() };
                    has_begun = true;
                    let result = match usable {
                        Ok(()) => share(engine)?,
                        Err(error) => Err(error),
                    };
                    let reply = reply.take();
                    Some(Answer::Durable(Box::new(move |done| {
                        drop(reply.map(|reply| reply.send(after(done, result))));
                    })))
                });
                answered(shared.inbox.push(Request::Shares(shares)), answer)
            }
        }
    }
}
