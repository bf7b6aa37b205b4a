//! The waker: notifies a shard loop at a wall-clock time, with a precision well below a millisecond.
//!
//! 1. The runtime's timer is too coarse and uses monotonic time. A due time is wall time, and the wall
//!    clock can be set.
//! 2. On Linux one thread sleeps on a `timerfd` of the real-time clock with an absolute time. It wakes
//!    at once when that clock is set.
//! 3. On other systems a thread sleeps in short steps.
//! 4. No shard loop sleeps longer than [`SLEEP_MAX`]: a lost wake-up costs at most that.

use std::{io, sync::Arc, time::Duration};

use duly_core::shard::ShardId;

use crate::state::Notifier;

#[cfg(any(not(target_os = "linux"), test))]
mod stepping;
#[cfg(target_os = "linux")]
mod timerfd;

#[cfg(test)]
mod tests;

/// Longest sleep of a shard loop.
pub(crate) const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Notifies shards at wall times.
pub(crate) trait Waker: Send + Sync {
    /// Notifies `shard` at `wall` at the latest. An earlier requested time stays valid, and notifies
    /// too.
    fn wake_by(&self, shard: ShardId, wall: Duration);

    /// Returns the number of iterations of the thread; at least one in [`SLEEP_MAX`] while the loops
    /// run. `None` if the waker has no thread.
    fn iterations(&self) -> Option<u64>;

    /// Restarts the thread after it stopped iterating.
    fn restart(&self) -> io::Result<()>;
}

/// Creates the waker of this operating system.
pub(crate) fn system(notifiers: Arc<[Notifier]>) -> io::Result<Box<dyn Waker>> {
    #[cfg(target_os = "linux")]
    return Ok(Box::new(timerfd::TimerFd::start(notifiers)?));
    #[cfg(not(target_os = "linux"))]
    return Ok(Box::new(stepping::Stepping::start(notifiers)?));
}

/// The wake-up times of the shards: one wall time per shard, or none.
#[derive(Debug)]
struct Targets(Vec<Option<Duration>>);

impl Targets {
    fn new(shards: usize) -> Self {
        Self(vec![None; shards])
    }

    fn lower(&mut self, shard: ShardId, wall: Duration) {
        if let Some(target) = self.0.get_mut(usize::from(shard.0)) {
            *target = Some(target.map_or(wall, |known| known.min(wall)));
        }
    }

    fn earliest(&self) -> Option<Duration> {
        self.0.iter().flatten().min().copied()
    }

    /// Takes the shards whose time has come.
    fn take_due(&mut self, wall: Duration) -> Vec<usize> {
        let mut due = Vec::new();
        for (shard, target) in self.0.iter_mut().enumerate() {
            if target.is_some_and(|at| at <= wall) {
                *target = None;
                due.push(shard);
            }
        }
        due
    }

    /// Takes all shards that have a time, because the clock was set.
    fn take_all(&mut self) -> Vec<usize> {
        self.take_due(Duration::MAX)
    }
}
