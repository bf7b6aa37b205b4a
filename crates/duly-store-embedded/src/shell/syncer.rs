//! The syncer: the thread that makes frames durable and then sends their replies.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use duly_core::metric_names;
use duly_store::{Error, Result};
use parking_lot::{Condvar, Mutex};

use crate::{disk, journal::SyncMark, progress::Progress};

use super::Inbox;

/// A reply that waits; its argument says whether everything that it depends on is durable.
pub(crate) type Waiter = Box<dyn FnOnce(Result<()>) + Send>;

#[derive(Default)]
struct SyncerState {
    target: Option<(SyncMark, Instant)>,
    durable_lsn: u64,
    waiters: VecDeque<(u64, Waiter)>,
    failed: Option<Error>,
    /// `true`: a sync found no space; the engine will write the bytes again.
    is_stalled: bool,
    stop: bool,
}

/// Hands frames to the syncing thread.
#[derive(Default)]
pub(crate) struct Syncer {
    state: Mutex<SyncerState>,
    changed: Condvar,
}

impl Syncer {
    /// Requests a sync up to the mark.
    pub(super) fn submit(&self, mark: SyncMark, since: Instant) {
        let mut state = self.state.lock();
        let since = state.target.as_ref().map_or(since, |(_, earlier)| *earlier);
        state.target = Some((mark, since));
        drop(state);
        self.changed.notify_one();
    }

    /// Sends replies as soon as `lsn` is durable.
    pub(super) fn when_durable(&self, lsn: u64, waiters: impl Iterator<Item = Waiter>) {
        let mut state = self.state.lock();
        if let Some(error) = state.failed.clone() {
            drop(state);
            waiters.for_each(|waiter| waiter(Err(error.clone())));
        } else if state.durable_lsn >= lsn {
            drop(state);
            waiters.for_each(|waiter| waiter(Ok(())));
        } else {
            state.waiters.extend(waiters.map(|waiter| (lsn, waiter)));
        }
    }

    /// Notes that a roll of the journal made everything up to `lsn` durable.
    pub(super) fn already_durable(&self, lsn: u64) {
        let mut state = self.state.lock();
        state.durable_lsn = state.durable_lsn.max(lsn);
        let ready = take_ready(&mut state);
        drop(state);
        ready.into_iter().for_each(|waiter| waiter(Ok(())));
    }

    /// Resumes after a sync without space: the engine has made everything up to then durable.
    pub(super) fn resume(&self) {
        let mut state = self.state.lock();
        (state.is_stalled, state.target) = (false, None);
    }

    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_one();
    }

    pub(super) fn run(&self, inbox: &Arc<Inbox>, progress: &Progress) {
        loop {
            let mut state = self.state.lock();
            while (state.target.is_none() || state.is_stalled) && !state.stop {
                self.changed.wait(&mut state);
            }
            if state.is_stalled {
                return;
            }
            let Some((mark, since)) = state.target.take() else {
                return;
            };
            drop(state);
            let began = Instant::now();
            progress.begin(&progress.sync);
            let result = mark.file.sync_data();
            Progress::end(&progress.sync);
            metrics::histogram!(metric_names::FSYNC_SECONDS).record(began.elapsed());
            let mut state = self.state.lock();
            match result {
                Ok(()) => {
                    state.durable_lsn = state.durable_lsn.max(mark.lsn);
                    let ready = take_ready(&mut state);
                    drop(state);
                    metrics::histogram!(metric_names::COMMIT_SECONDS).record(since.elapsed());
                    inbox.synced(mark.lsn, mark.position);
                    ready.into_iter().for_each(|waiter| waiter(Ok(())));
                }
                Err(error @ disk::Error::NoSpace { .. }) => {
                    state.is_stalled = true;
                    drop(state);
                    inbox.sync_failed(error);
                }
                Err(error) => {
                    drop(state);
                    self.fail(inbox, error);
                    return;
                }
            }
        }
    }

    /// Fails all waiting and later replies: nothing more will become durable.
    pub(super) fn fail(&self, inbox: &Inbox, error: disk::Error) {
        let failed = Error::InDoubt { reason: format!("syncing the journal failed: {error}") };
        let mut state = self.state.lock();
        state.failed = Some(failed.clone());
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        inbox.sync_failed(error);
        waiters.into_iter().for_each(|(_, waiter)| waiter(Err(failed.clone())));
    }
}

fn take_ready(state: &mut SyncerState) -> Vec<Waiter> {
    let ready = state.waiters.iter().take_while(|(lsn, _)| *lsn <= state.durable_lsn).count();
    state.waiters.drain(..ready).map(|(_, waiter)| waiter).collect()
}
