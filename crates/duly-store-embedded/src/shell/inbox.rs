//! The inbox of the engine thread: requests of callers, and messages of the syncer.

use std::{collections::VecDeque, time::Duration};

use duly_core::Millis;
use duly_store::{Command, Error, Outcome, Page, Result};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::{
    engine::{Engine, list::Listing},
    journal::Position,
};

use super::Waiter;

/// Work that is done at once.
pub(crate) type Call = Box<dyn FnOnce(&mut Engine) -> EngineReply + Send>;

/// Work that is done in slices; `None` while there is more to do.
pub(crate) type Slices = Box<dyn FnMut(&mut Engine) -> Option<EngineReply> + Send>;

/// The time when a reply may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyAt {
    /// At once.
    Now,
    /// When the call's records have been written.
    Written,
    /// When everything that it may depend on is durable.
    Durable,
}

/// A reply, and the time when it may leave.
pub(crate) type EngineReply = (ReplyAt, Waiter);

/// A request to the engine thread.
pub(crate) enum Request {
    /// Work that is done at once.
    Call(Call),
    /// Work that is done in slices, one in each step, until it returns a reply.
    Slices(Slices),
    /// A batch, done in slices.
    Apply {
        commands: std::vec::IntoIter<Command>,
        outcomes: Vec<Outcome>,
        reply: oneshot::Sender<Result<Vec<Outcome>>>,
    },
    /// A list, done in slices.
    List { listing: Box<Listing>, reply: oneshot::Sender<Result<Page>> },
}

impl Request {
    /// Returns a call that has no caller to reply to, or replies itself.
    pub(crate) fn call(work: impl FnOnce(&mut Engine) + Send + 'static) -> Self {
        Self::Call(Box::new(move |engine| {
            work(engine);
            (ReplyAt::Now, Box::new(|_| {}))
        }))
    }
}

/// The contents of the inbox, taken at once by the engine thread.
#[derive(Default)]
pub(super) struct Intake {
    pub(super) requests: VecDeque<Request>,
    pub(super) synced: Option<(u64, Position)>,
    pub(super) failed: Option<crate::disk::Error>,
    pub(super) closed: bool,
    /// `true`: the engine thread knows that the inbox is closed.
    is_close_seen: bool,
    /// Requests that the engine thread holds.
    held: usize,
    abandoned: Option<Error>,
}

/// The bounded queue.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<Intake>,
    changed: Condvar,
    queue_max: usize,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}

impl Inbox {
    pub(crate) fn new(queue_max: usize) -> Self {
        Self { queue_max, ..Self::default() }
    }

    /// Queues a request.
    ///
    /// # Errors
    /// When the store is closed or has ended, or when too many requests wait.
    pub(crate) fn push(&self, request: Request) -> Result<()> {
        let mut state = self.state.lock();
        if let Some(error) = &state.abandoned {
            return Err(error.clone());
        }
        if state.closed {
            return Err(closed());
        }
        if state.held + state.requests.len() >= self.queue_max {
            return Err(Error::Overloaded {
                reason: format!("{} requests wait for the store", self.queue_max),
                retry_after: Millis::from_ms(100),
            });
        }
        state.requests.push_back(request);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Queues work without a reply, even if the queue is full: it releases capacity.
    pub(crate) fn push_always(&self, work: impl FnOnce(&mut Engine) + Send + 'static) {
        let mut state = self.state.lock();
        if state.abandoned.is_some() {
            return;
        }
        state.requests.push_back(Request::call(work));
        drop(state);
        self.changed.notify_one();
    }

    /// Queues the slices of a list that was begun.
    pub(crate) fn push_list(&self, listing: Box<Listing>, reply: oneshot::Sender<Result<Page>>) {
        let mut state = self.state.lock();
        if state.abandoned.is_some() {
            return;
        }
        state.requests.push_back(Request::List { listing, reply });
    }

    /// Refuses all further requests with this error: the engine thread has ended.
    pub(super) fn abandon(&self, error: Error) {
        let mut state = self.state.lock();
        state.closed = true;
        state.abandoned = Some(error);
        let left = std::mem::take(&mut state.requests);
        drop(state);
        drop(left);
    }

    pub(super) fn synced(&self, lsn: u64, position: Position) {
        self.state.lock().synced = Some((lsn, position));
        self.changed.notify_one();
    }

    pub(super) fn sync_failed(&self, error: crate::disk::Error) {
        self.state.lock().failed = Some(error);
        self.changed.notify_one();
    }

    /// Takes no more requests. The engine thread ends when the queue is empty.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }

    /// Returns `true` if no more requests are taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Returns `true` if no request waits.
    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().requests.is_empty()
    }

    /// Takes the contents, and waits up to `sleep_max` for some. The `held` requests that were taken
    /// before and still wait count for the bound of the queue.
    pub(super) fn take(&self, sleep_max: Duration, held: usize) -> Intake {
        let mut state = self.state.lock();
        let is_empty = |state: &Intake| {
            state.requests.is_empty()
                && state.synced.is_none()
                && state.failed.is_none()
                && state.closed == state.is_close_seen
        };
        state.held = held;
        if is_empty(&state) && !sleep_max.is_zero() {
            self.changed.wait_for(&mut state, sleep_max);
        }
        let requests = std::mem::take(&mut state.requests);
        state.held = held + requests.len();
        state.is_close_seen = state.closed;
        Intake {
            requests,
            held: 0,
            synced: state.synced.take(),
            failed: state.failed.take(),
            closed: state.closed,
            is_close_seen: true,
            abandoned: None,
        }
    }
}

/// Returns the error of a call that the engine did not finish before it ended.
pub(crate) fn ended_before_reply() -> Error {
    Error::InDoubt {
        reason: "the store stopped before it replied; restart the server and repeat the call"
            .into(),
    }
}

pub(crate) fn closed() -> Error {
    Error::Unavailable { reason: "the store is closed".into(), retry_after: Millis::from_secs(1) }
}
