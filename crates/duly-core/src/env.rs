//! The clocks of the environment.
//!
//! Production code passes the clocks of the machine; tests and the simulator pass their own.

use std::{fmt::Debug, time::Duration};

use crate::Timestamp;

/// The two clocks. The wall clock decides which timers are due. The boot-time clock measures leases, backoff
/// and time-outs.
pub trait Clock: Send + Sync + Debug {
    /// Returns the time since 1970-01-01T00:00:00Z by the wall clock. It can step in both directions.
    fn wall(&self) -> Duration;

    /// Returns the time since a fixed point. It never steps back, and it advances while the machine sleeps.
    fn boot(&self) -> Duration;

    /// Returns the wall clock in whole milliseconds, rounded down: a timer whose due time is this
    /// millisecond is due.
    fn now(&self) -> Timestamp {
        let ms = u64::try_from(self.wall().as_millis()).unwrap_or(u64::MAX);
        Timestamp::saturating_from_unix_ms(ms)
    }
}
