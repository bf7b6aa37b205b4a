//! Waking a shard loop at a wall-clock time, to well below a millisecond.
//!
//! The runtime's timer is too coarse and counts monotonic time; a due time is wall time, and the
//! wall clock can be set. So one thread of its own sleeps on a `timerfd` of the real-time clock
//! with an absolute time, and wakes at once when that clock is set. Elsewhere than on Linux a
//! thread sleeps in short steps.
//!
//! Nothing sleeps longer than [`SLEEP_MAX`]: a lost wake-up costs at most that.

use std::{io, sync::Arc, time::Duration};

use duly_core::shard::ShardId;

use crate::state::Bell;

#[cfg(any(not(target_os = "linux"), test))]
mod stepping;
mod targets;
#[cfg(target_os = "linux")]
mod timerfd;

#[cfg(test)]
mod tests;

/// Longest sleep of a shard loop.
pub(crate) const SLEEP_MAX: Duration = Duration::from_secs(1);

/// Rings a shard's bell at a wall time.
pub(crate) trait Waker: Send + Sync {
    /// Rings at `wall` at the latest; an earlier time that was asked for stays, and then rings too.
    fn wake_by(&self, shard: ShardId, wall: Duration);

    /// How often it has turned; it turns at least once in [`SLEEP_MAX`] while the loops run. `None`
    /// when nothing turns in it.
    fn turns(&self) -> Option<u64>;

    /// Begins it again after it stopped turning.
    fn restart(&self) -> io::Result<()>;
}

/// The waker of this system.
pub(crate) fn system(bells: Arc<[Bell]>) -> io::Result<Box<dyn Waker>> {
    #[cfg(target_os = "linux")]
    return Ok(Box::new(timerfd::TimerFd::start(bells)?));
    #[cfg(not(target_os = "linux"))]
    return Ok(Box::new(stepping::Stepping::start(bells)?));
}
