//! A rate limit per second, by the generic cell rate algorithm (GCRA). Pure.
//!
//! The only state is the theoretical arrival time: the time until which the limit is reserved. Each unit
//! reserves one interval (a second divided by the rate). Rules:
//! 1. The reserved time may lie at most `burst` intervals ahead of now.
//! 2. In any period, at most the burst plus the units that the rate allows in that period are taken.
//! 3. The caller passes the clock. It must not step back: use the boot-time clock.

use std::time::Duration;

/// Picoseconds per second. The interval of the highest rate is still more than a hundred of them.
const PICOS: u128 = 1_000_000_000_000;
const PICOS_PER_NANO: u128 = 1_000;

/// A rate per second, with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    per_second: u32,
    burst: u32,
}

impl Rate {
    /// Creates a rate. Both numbers count as at least one.
    pub const fn new(per_second: u32, burst: u32) -> Self {
        Self {
            per_second: if per_second == 0 { 1 } else { per_second },
            burst: if burst == 0 { 1 } else { burst },
        }
    }

    /// Creates a rate with a burst of a tenth of a second. It is smooth, but coarse enough that a high rate
    /// need not be checked for each unit.
    pub const fn smooth(per_second: u32) -> Self {
        Self::new(per_second, per_second / 10)
    }

    /// Creates a rate with a burst of one second.
    pub const fn by_the_second(per_second: u32) -> Self {
        Self::new(per_second, per_second)
    }

    /// Returns the units per second.
    pub const fn per_second(self) -> u32 {
        self.per_second
    }

    /// Returns the units that can be taken at once.
    pub const fn burst(self) -> u32 {
        self.burst
    }

    /// Returns the interval of one unit, rounded up so that the rate is never exceeded.
    fn interval(self) -> u128 {
        PICOS.div_ceil(u128::from(self.per_second))
    }

    /// Returns how far ahead of now the limit may be reserved.
    fn reach(self) -> u128 {
        self.interval() * u128::from(self.burst)
    }
}

/// The use of a rate limit. A new one has its whole burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gcra {
    /// The time until which the limit is reserved, in picoseconds.
    reserved_until: u128,
}

/// A mark of the last take. With it units can be given back, as long as no later take happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeMark(u128);

impl Gcra {
    /// Returns the number of units that can be taken at `now`.
    pub fn available(&self, rate: Rate, now: Duration) -> u64 {
        let ahead = self.reserved_until.saturating_sub(picos(now));
        let left = rate.reach().saturating_sub(ahead) / rate.interval();
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    /// Takes `count` units, which must not be more than are available.
    pub fn take(&mut self, rate: Rate, now: Duration, count: u64) -> TakeMark {
        debug_assert!(count <= self.available(rate, now), "more was taken than there is");
        self.reserved_until =
            self.reserved_until.max(picos(now)) + rate.interval() * u128::from(count);
        TakeMark(self.reserved_until)
    }

    /// Gives back `count` of the units that were taken at `mark`. After a later take this does nothing: the
    /// limit may then allow less than it could, never more.
    pub fn release(&mut self, rate: Rate, mark: TakeMark, count: u64) {
        if self.reserved_until == mark.0 {
            let given = rate.interval() * u128::from(count);
            self.reserved_until = self.reserved_until.saturating_sub(given);
        }
    }

    /// Returns the time until one unit can be taken; zero if one can be taken now.
    pub fn next_in(&self, rate: Rate, now: Duration) -> Duration {
        let at = (self.reserved_until + rate.interval()).saturating_sub(rate.reach());
        let wait = at.saturating_sub(picos(now)).div_ceil(PICOS_PER_NANO);
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// Returns `true` if nothing is reserved: the limit is like a new one.
    pub fn is_idle(&self, now: Duration) -> bool {
        self.reserved_until <= picos(now)
    }
}

fn picos(now: Duration) -> u128 {
    now.as_nanos() * PICOS_PER_NANO
}

#[cfg(test)]
mod tests;
