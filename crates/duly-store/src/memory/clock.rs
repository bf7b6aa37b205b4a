//! The three clocks of a store.
//!
//! * *wall*: decides which timers are due, and is shown in results. It can step in both directions.
//! * *boot*: measures leases. It never steps.
//! * *steady*: wall at open plus boot time since then. The time of the next attempt is stored in it and
//!   compared with it, so a step of the wall clock moves no retry.

use std::{sync::Arc, time::Duration};

use duly_core::{Timestamp, env::Clock, operate};

/// The source of time of a store.
#[derive(Debug)]
pub(super) struct Clocks {
    clock: Arc<dyn Clock>,
    origin: ClockOrigin,
}

/// Both clocks at the moment when the store was opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockOrigin {
    wall: Duration,
    boot: Duration,
}

/// One moment, by all clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockReading {
    /// The wall clock, rounded down.
    pub(super) wall: Timestamp,
    /// The steady clock, rounded down.
    pub(super) steady: Timestamp,
    /// The boot clock.
    pub(super) boot: Duration,
    pub(super) origin: ClockOrigin,
}

impl Clocks {
    pub(super) fn start(clock: Arc<dyn Clock>) -> Self {
        let origin = ClockOrigin { wall: clock.wall(), boot: clock.boot() };
        Self { clock, origin }
    }

    pub(super) fn now(&self) -> ClockReading {
        let boot = self.clock.boot();
        ClockReading {
            wall: self.clock.now(),
            steady: self.origin.steady_at(boot),
            boot,
            origin: self.origin,
        }
    }
}

impl ClockReading {
    /// Returns the clocks that the core needs.
    pub(super) const fn both(&self) -> operate::Now {
        operate::Now { wall: self.wall, steady: self.steady }
    }
}

impl ClockOrigin {
    /// Returns the steady clock at a moment of the boot clock.
    pub(super) fn steady_at(&self, boot: Duration) -> Timestamp {
        let elapsed = boot.saturating_sub(self.boot);
        let ms = self.wall.saturating_add(elapsed).as_millis();
        Timestamp::saturating_from_unix_ms(u64::try_from(ms).unwrap_or(u64::MAX))
    }
}
