//! The machine's clocks, set forward together at will.
//!
//! A million timers of one instant are scheduled long before it; the leap then brings the instant
//! without the wait. Wall and boot-time clock leap by the same amount, so that no store takes it
//! for a step of the wall clock.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use duly_core::env::Clock;
use duly_store_embedded::SystemClock;

/// Clocks that can be set forward.
#[derive(Debug, Default)]
pub(crate) struct LeapClock {
    ahead_ms: AtomicU64,
}

impl LeapClock {
    /// Sets both clocks forward.
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
