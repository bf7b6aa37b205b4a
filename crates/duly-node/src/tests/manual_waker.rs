//! A waker that the test controls: it notifies when the test moves the clock, and breaks on request.

use std::{io, sync::Arc, time::Duration};

use duly_core::{env::Clock, shard::ShardId};
use duly_store::conformance::ManualClock;
use parking_lot::Mutex;

use crate::{state::Notifier, waker::Waker};

/// The behaviour of its simulated thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakerThread {
    /// There is no thread to watch.
    None,
    /// It has always iterated since the last check.
    Iterates,
    /// It iterates when it notifies a shard.
    Notifies,
    /// It has ended: no shard is notified.
    Dead,
    /// The next check of it panics, once.
    Panics,
}

/// A waker that notifies when the test moves the clock; its copies are the same waker.
#[derive(Clone)]
pub(super) struct ManualWaker {
    clock: ManualClock,
    inner: Arc<Mutex<Inner>>,
    notifiers: Arc<[Notifier]>,
}

struct Inner {
    targets: Vec<Option<Duration>>,
    thread: WakerThread,
    iterations: u64,
    restarts: usize,
}

impl ManualWaker {
    pub(super) fn new(clock: ManualClock, notifiers: Arc<[Notifier]>) -> Self {
        let targets = vec![None; notifiers.len()];
        let inner = Inner { targets, thread: WakerThread::None, iterations: 0, restarts: 0 };
        Self { clock, inner: Arc::new(Mutex::new(inner)), notifiers }
    }

    /// Sets the behaviour of the thread.
    pub(super) fn set(&self, thread: WakerThread) {
        self.inner.lock().thread = thread;
    }

    /// Returns the number of restarts.
    pub(super) fn restarts(&self) -> usize {
        self.inner.lock().restarts
    }

    /// Notifies all shards, as when the clock was set.
    pub(super) fn notify_all_shards(&self) {
        self.notifiers.iter().for_each(Notifier::notify_due);
    }

    /// Notifies the shards whose requested time has come.
    pub(super) fn notify_due(&self) {
        let mut inner = self.inner.lock();
        if inner.thread == WakerThread::Dead {
            return;
        }
        let mut notified = false;
        for (i, target) in inner.targets.iter_mut().enumerate() {
            if target.is_some_and(|at| at <= self.clock.wall()) {
                *target = None;
                notified = true;
                self.notifiers[i].notify_timed();
            }
        }
        if notified && inner.thread == WakerThread::Notifies {
            inner.iterations += 1;
        }
    }
}

impl Waker for ManualWaker {
    fn wake_by(&self, shard: ShardId, wall: Duration) {
        let mut inner = self.inner.lock();
        let target = &mut inner.targets[usize::from(shard.0)];
        *target = Some(target.map_or(wall, |at| at.min(wall)));
        drop(inner);
        self.notify_due();
    }

    fn iterations(&self) -> Option<u64> {
        let mut inner = self.inner.lock();
        match inner.thread {
            WakerThread::None => return None,
            WakerThread::Iterates => inner.iterations += 1,
            WakerThread::Notifies | WakerThread::Dead => {}
            WakerThread::Panics => {
                inner.thread = WakerThread::Iterates;
                panic!("planted");
            }
        }
        Some(inner.iterations)
    }

    fn restart(&self) -> io::Result<()> {
        let mut inner = self.inner.lock();
        inner.restarts += 1;
        inner.thread = WakerThread::Iterates;
        drop(inner);
        self.notify_due();
        Ok(())
    }
}
