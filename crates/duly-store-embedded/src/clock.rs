//! The machine's clocks, and the times of one step.

use std::time::Duration;

use duly_core::{Timestamp, env::Clock};
use rustix::time::{ClockId, clock_gettime};

/// The machine's own clocks: `CLOCK_REALTIME`, and `CLOCK_BOOTTIME` where there is one.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::Monotonic;

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

impl Clock for SystemClock {
    fn wall(&self) -> Duration {
        read(ClockId::Realtime)
    }

    fn boot(&self) -> Duration {
        read(BOOT)
    }
}

/// The times of one step, read once, so that the whole step sees the same instant.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    /// Wall clock in milliseconds, rounded down.
    pub(crate) wall_ms: u64,
    /// Nanoseconds of the wall clock past `wall_ms`.
    pub(crate) wall_rest: Duration,
    /// Boot-time clock in milliseconds, rounded down.
    pub(crate) boot_ms: u64,
    /// The steady clock: wall time at the start plus boot time since then. Retries follow it, so that a
    /// step of the wall clock neither delays nor hastens them. While there are retries it begins no
    /// earlier than where it ended before the restart.
    pub(crate) steady_ms: u64,
}

impl Times {
    pub(crate) fn read(clock: &dyn Clock, anchor: (u64, u64)) -> Self {
        let (wall, boot) = (clock.wall(), clock.boot());
        let wall_ms = ms(wall);
        let boot_ms = ms(boot);
        Self {
            wall_ms,
            wall_rest: wall.saturating_sub(Duration::from_millis(wall_ms)),
            boot_ms,
            steady_ms: anchor.0 + boot_ms.saturating_sub(anchor.1),
        }
    }

    /// Returns the wall clock as a timestamp.
    pub(crate) const fn wall(&self) -> Timestamp {
        Timestamp::saturating_from_unix_ms(self.wall_ms)
    }

    /// Returns the steady clock as a timestamp.
    pub(crate) const fn steady(&self) -> Timestamp {
        Timestamp::saturating_from_unix_ms(self.steady_ms)
    }
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
