//! Progress of the threads that use the disk. A call of the disk that hangs gives no error, and the metrics of calls see
//! those that have ended. So each thread notes the beginning and the end of its work here, and the health of the store
//! tells of work that takes too long.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use duly_core::env::Clock;

/// Time after which a step of the engine or a sync hangs.
const STALLED_AFTER: Duration = Duration::from_secs(5);
/// Time after which work in the background hangs: it reads and writes whole files.
const BACKGROUND_STALLED_AFTER: Duration = Duration::from_secs(120);

/// The progress of all threads.
#[derive(Debug)]
pub(crate) struct Progress {
    clock: Arc<dyn Clock>,
    /// Steps of the engine.
    pub(crate) engine: Work,
    /// Syncs of the journal.
    pub(crate) sync: Work,
    /// Work in the background, such as checkpoints.
    pub(crate) background: Work,
    /// Changes of the files of the keys.
    pub(crate) keys: Work,
    /// Changes of the file of the audit log.
    pub(crate) audit: Work,
}

/// The work of a thread: milliseconds of the boot-time clock at which the present piece began, plus one; 0 between two
/// pieces.
#[derive(Debug, Default)]
pub(crate) struct Work(AtomicU64);

struct WorkGuard<'a>(&'a Work);

impl Drop for WorkGuard<'_> {
    fn drop(&mut self) {
        Progress::end(self.0);
    }
}

impl Progress {
    /// Makes the progress of threads that do nothing yet.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            engine: Work::default(),
            sync: Work::default(),
            background: Work::default(),
            keys: Work::default(),
            audit: Work::default(),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.boot().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes that a thread begins a piece of work.
    pub(crate) fn begin(&self, work: &Work) {
        work.0.store(self.now_ms() + 1, Ordering::Relaxed);
    }

    /// Notes that a thread begins a piece of work, until the guard is dropped, also by a panic.
    pub(crate) fn working<'a>(&'a self, work: &'a Work) -> impl Drop + 'a {
        self.begin(work);
        WorkGuard(work)
    }

    /// Notes the end of the piece of work.
    pub(crate) fn end(work: &Work) {
        work.0.store(0, Ordering::Relaxed);
    }

    /// Returns the seconds that a piece of work has taken, if it hangs.
    fn stalled(&self, work: &Work, after: Duration) -> Option<u64> {
        let began = work.0.load(Ordering::Relaxed).checked_sub(1)?;
        let took = Duration::from_millis(self.now_ms().saturating_sub(began));
        (took >= after).then_some(took.as_secs())
    }

    /// Returns a sentence for each thread whose work keeps the store from serving.
    pub(crate) fn stalls(&self) -> Vec<String> {
        let sync = self.stalled(&self.sync, STALLED_AFTER).map(|seconds| {
            format!(
                "the disk has not finished a sync of the journal for {seconds} s: no change is confirmed meanwhile; \
                 check the disk"
            )
        });
        let engine = self.stalled(&self.engine, STALLED_AFTER).map(|seconds| {
            format!(
                "the engine has been at one step for {seconds} s: calls and firings wait for a read or a write of the \
                 disk; check the disk"
            )
        });
        sync.into_iter().chain(engine).collect()
    }

    /// Returns a sentence on a change of the keys that hangs.
    pub(crate) fn keys_stall(&self) -> Option<String> {
        let seconds = self.stalled(&self.keys, STALLED_AFTER)?;
        Some(format!(
            "the disk has not finished a change of the keys for {seconds} s: a revoked key still works, and further \
             changes of keys wait; check the disk"
        ))
    }

    /// Returns problems that do not keep the store from serving.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let background = self.stalled(&self.background, BACKGROUND_STALLED_AFTER);
        let audit = self.stalled(&self.audit, BACKGROUND_STALLED_AFTER).map(|seconds| {
            format!(
                "the disk has not finished a change of the audit log for {seconds} s: its entries wait; check the disk"
            )
        });
        let warning = background.map(|seconds| {
            format!(
                "work in the background, such as a checkpoint, has waited for the disk for {seconds} s: the journal \
                 grows meanwhile; check the disk"
            )
        });
        warning.into_iter().chain(audit).collect()
    }
}

#[cfg(test)]
mod tests {
    use duly_store::conformance::ManualClock;

    use super::*;

    #[test]
    fn work_that_has_ended_or_is_short_does_not_hang() {
        let progress = Progress::new(Arc::new(ManualClock::default()));
        assert_eq!(progress.stalled(&progress.sync, Duration::ZERO), None);
        let guard = progress.working(&progress.sync);
        assert_eq!(progress.stalled(&progress.sync, Duration::ZERO), Some(0));
        assert_eq!(progress.stalls(), Vec::<String>::new());
        drop(guard);
        assert_eq!(progress.stalled(&progress.sync, Duration::ZERO), None);
    }
}
