//! A waker that the test controls: it notifies when the test moves the clock, and breaks on request.

use std::{io, sync::Arc, time::Duration};

use duly_core::{env::Clock, shard::ShardId};
use duly_store::conformance::ManualClock;
use parking_lot::Mutex;

use crate::{state::Notifier, waker::Waker};

/// The behaviour of its simulated thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thread {
    /// There is no thread to watch.
    None,
    /// It has always iterated since the last check.
    Turns,
    /// It iterates when it notifies a shard.
    Rings,
    /// It has ended: no shard is notified.
    Dead,
    /// The next check of it panics, once.
    Panics,
}

/// A waker that notifies when the test moves the clock; its copies are the same waker.
#[derive(Clone)]
pub(super) struct ByHand {
    clock: ManualClock,
    inner: Arc<Mutex<Inner>>,
    bells: Arc<[Notifier]>,
}

struct Inner {
    targets: Vec<Option<Duration>>,
    thread: Thread,
    turns: u64,
    restarts: usize,
}

impl ByHand {
    pub(super) fn new(clock: ManualClock, bells: Arc<[Notifier]>) -> Self {
        let targets = vec![None; bells.len()];
        let inner = Inner { targets, thread: Thread::None, turns: 0, restarts: 0 };
        Self { clock, inner: Arc::new(Mutex::new(inner)), bells }
    }

    /// Sets the behaviour of the thread.
    pub(super) fn set(&self, thread: Thread) {
        self.inner.lock().thread = thread;
    }

    /// Returns the number of restarts.
    pub(super) fn restarts(&self) -> usize {
        self.inner.lock().restarts
    }

    /// Notifies all shards, as when the clock was set.
    pub(super) fn ring_all(&self) {
        self.bells.iter().for_each(Notifier::ring_due);
    }

    /// Notifies the shards whose requested time has come.
    pub(super) fn ring_due(&self) {
        let mut inner = self.inner.lock();
        if inner.thread == Thread::Dead {
            return;
        }
        let mut rang = false;
        for (i, target) in inner.targets.iter_mut().enumerate() {
            if target.is_some_and(|at| at <= self.clock.wall()) {
                *target = None;
                rang = true;
                self.bells[i].ring_timed();
            }
        }
        if rang && inner.thread == Thread::Rings {
            inner.turns += 1;
        }
    }
}

impl Waker for ByHand {
    fn wake_by(&self, shard: ShardId, wall: Duration) {
        let mut inner = self.inner.lock();
        let target = &mut inner.targets[usize::from(shard.0)];
        *target = Some(target.map_or(wall, |at| at.min(wall)));
        drop(inner);
        self.ring_due();
    }

    fn turns(&self) -> Option<u64> {
        let mut inner = self.inner.lock();
        match inner.thread {
            Thread::None => return None,
            Thread::Turns => inner.turns += 1,
            Thread::Rings | Thread::Dead => {}
            Thread::Panics => {
                inner.thread = Thread::Turns;
                panic!("planted");
            }
        }
        Some(inner.turns)
    }

    fn restart(&self) -> io::Result<()> {
        let mut inner = self.inner.lock();
        inner.restarts += 1;
        inner.thread = Thread::Turns;
        drop(inner);
        self.ring_due();
        Ok(())
    }
}
