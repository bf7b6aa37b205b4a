//! A clock that moves only by calls.

use std::{sync::Arc, time::Duration};

use duly_core::{Millis, Timestamp, env::Clock};
use parking_lot::Mutex;

/// Wall clock and boot clock, controlled by a test. Clones share the same clock.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<ClockTimes>>);

#[derive(Debug)]
struct ClockTimes {
    wall: Duration,
    boot: Duration,
}

impl ManualClock {
    /// The wall clock of [`ManualClock::default`]: 2030-03-17T17:46:40.000Z.
    pub const START: Timestamp = Timestamp::saturating_from_unix_ms(1_900_000_000_000);

    /// Creates a clock at `wall`, one hour after boot.
    pub fn new(wall: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(ClockTimes {
            wall: Duration::from_millis(wall.unix_ms()),
            boot: Duration::from_secs(3_600),
        })))
    }

    /// Moves both clocks forward.
    pub fn advance(&self, by: Millis) {
        let mut times = self.0.lock();
        times.wall += by.to_std();
        times.boot += by.to_std();
    }

    /// Steps only the wall clock.
    pub fn step_wall(&self, by_ms: i64) {
        let mut times = self.0.lock();
        let by = Duration::from_millis(by_ms.unsigned_abs());
        times.wall = if by_ms < 0 { times.wall.saturating_sub(by) } else { times.wall + by };
    }

    /// Sets only the wall clock.
    pub fn set_wall(&self, wall: Timestamp) {
        self.0.lock().wall = Duration::from_millis(wall.unix_ms());
    }

    /// Sets only the boot clock, as a reboot does.
    pub fn set_boot(&self, boot: Duration) {
        self.0.lock().boot = boot;
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new(Self::START)
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Duration {
        self.0.lock().wall
    }

    fn boot(&self) -> Duration {
        self.0.lock().boot
    }
}
