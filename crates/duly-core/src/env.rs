//! The outside world as traits: time and randomness.
//!
//! Production code hands in the machine's; tests and the simulator hand in their own.

use std::{fmt::Debug, time::Duration};

use crate::Timestamp;

/// Two clocks: the wall clock decides what is due, the boot-time clock measures leases, backoff
/// and time-outs.
pub trait Clock: Send + Sync + Debug {
    /// Time since 1970-01-01T00:00:00Z by the wall clock. Can step in both directions.
    fn wall(&self) -> Duration;

    /// Time since some fixed point, never stepping back, going on while the machine sleeps.
    fn boot(&self) -> Duration;

    /// The wall clock in whole milliseconds, rounded down: a timer due at this millisecond is due.
    fn now(&self) -> Timestamp {
        let ms = u64::try_from(self.wall().as_millis()).unwrap_or(u64::MAX);
        Timestamp::saturating_from_unix_ms(ms)
    }
}

/// A source of random bits for ids, incarnations and lease tokens.
pub trait Random: Send + Debug {
    /// 64 random bits.
    fn next_u64(&mut self) -> u64;
}
