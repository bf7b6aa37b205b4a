//! Clocks of the machine that a benchmark can set forward.
//!
//! A benchmark schedules a million timers for one instant, long before that instant.
//! [`LeapClock::leap`] then makes them due without the wait. The wall clock and the boot-time clock
//! leap by the same amount, so no store takes the leap for a step of the wall clock.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use duly_core::env::Clock;
use duly_store_embedded::SystemClock;

/// Wall clock and boot-time clock that can be set forward.
#[derive(Debug, Default)]
pub(crate) struct LeapClock {
    ahead_ms: AtomicU64,
}

impl LeapClock {
    /// Sets both clocks forward by `by`.
    pub(crate) fn leap(&self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }

    fn ahead(&self) -> Duration {
        Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst))
    }
}

impl Clock for LeapClock {
    fn wall(&self) -> Duration {
        SystemClock.wall() + self.ahead()
    }

    fn boot(&self) -> Duration {
        SystemClock.boot() + self.ahead()
    }
}
