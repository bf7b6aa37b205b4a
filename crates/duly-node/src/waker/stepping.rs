//! The waker for systems without `timerfd`: a thread that sleeps in short steps.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use duly_core::shard::ShardId;
use parking_lot::{Condvar, Mutex};

use super::{SLEEP_MAX, Targets, Waker};
use crate::state::Notifier;

/// Longest step: the most that a wake-up can be late after the clock was set.
const STEP: Duration = Duration::from_millis(10);

/// The thread's handle; dropping it ends the thread.
pub(super) struct Stepping(Arc<Inner>);

struct Inner {
    targets: Mutex<Targets>,
    changed: Condvar,
    notifiers: Arc<[Notifier]>,
    stopped: AtomicBool,
    iterations: AtomicU64,
    /// Number of threads started: only the last one continues.
    threads: AtomicU64,
}

impl Stepping {
    pub(super) fn start(notifiers: Arc<[Notifier]>) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            targets: Mutex::new(Targets::new(notifiers.len())),
            changed: Condvar::new(),
            notifiers,
            stopped: AtomicBool::new(false),
            iterations: AtomicU64::new(0),
            threads: AtomicU64::new(0),
        });
        let waker = Self(inner);
        waker.restart()?;
        Ok(waker)
    }
}

impl Waker for Stepping {
    fn wake_by(&self, shard: ShardId, wall: Duration) {
        self.0.targets.lock().lower(shard, wall);
        self.0.changed.notify_one();
    }

    fn iterations(&self) -> Option<u64> {
        Some(self.0.iterations.load(Ordering::Relaxed))
    }

    fn restart(&self) -> io::Result<()> {
        let inner = Arc::clone(&self.0);
        let number = inner.threads.fetch_add(1, Ordering::AcqRel) + 1;
        thread::Builder::new().name("duly-waker".to_owned()).spawn(move || inner.run(number))?;
        Ok(())
    }
}

impl Drop for Stepping {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::Release);
        self.0.changed.notify_one();
    }
}

impl Inner {
    fn run(&self, number: u64) {
        let mut targets = self.targets.lock();
        let is_last = || self.threads.load(Ordering::Acquire) == number;
        while is_last() && !self.stopped.load(Ordering::Acquire) {
            self.iterations.fetch_add(1, Ordering::Relaxed);
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            for shard in targets.take_due(wall) {
                self.notifiers[shard].notify_timed();
            }
            let step = targets.earliest().map_or(SLEEP_MAX, |at| at.saturating_sub(wall).min(STEP));
            // Ends early when a time changes; the loop does the same in both cases.
            let _how = self.changed.wait_for(&mut targets, step);
        }
    }
}
