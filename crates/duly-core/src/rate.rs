//! A limit of so many a second, as a generic cell rate algorithm (GCRA). Pure.
//!
//! The whole state is one moment: until when the limit is spoken for. Each unit speaks for one
//! interval (a second divided by the rate), and what is spoken for may lie at most `burst` intervals
//! ahead. Invariant: in any stretch of time no more is taken than the burst and what the rate allows
//! for its length. Who keeps a limit brings the clock, which must not step back: the boot-time clock.

use std::time::Duration;

/// A trillionth of a second: the interval of the highest rate is still more than a hundred.
const PICOS: u128 = 1_000_000_000_000;
const PICOS_PER_NANO: u128 = 1_000;

/// So many a second, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    per_second: u32,
    burst: u32,
}

impl Rate {
    /// A rate; both numbers count as at least one.
    pub const fn new(per_second: u32, burst: u32) -> Self {
        Self {
            per_second: if per_second == 0 { 1 } else { per_second },
            burst: if burst == 0 { 1 } else { burst },
        }
    }

    /// A rate that lets a tenth of a second's units through at once: smooth, and coarse enough that
    /// a fast one need not be looked at for each unit.
    pub const fn smooth(per_second: u32) -> Self {
        Self::new(per_second, per_second / 10)
    }

    /// A rate that lets a second's units through at once.
    pub const fn by_the_second(per_second: u32) -> Self {
        Self::new(per_second, per_second)
    }

    /// How many a second.
    pub const fn per_second(self) -> u32 {
        self.per_second
    }

    /// How many at once.
    pub const fn burst(self) -> u32 {
        self.burst
    }

    /// Rounded up, so that the rate is never exceeded.
    fn interval(self) -> u128 {
        PICOS.div_ceil(u128::from(self.per_second))
    }

    /// How far ahead may be spoken for.
    fn reach(self) -> u128 {
        self.interval() * u128::from(self.burst)
    }
}

/// What has been taken of a limit. A new one has its whole burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gcra {
    /// Until when the limit is spoken for, in picoseconds.
    spoken_until: u128,
}

/// Names what was taken last, so that it can be given back while nothing was taken since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u128);

impl Gcra {
    /// How many can be taken at `now`.
    pub fn available(&self, rate: Rate, now: Duration) -> u64 {
        let ahead = self.spoken_until.saturating_sub(picos(now));
        let left = rate.reach().saturating_sub(ahead) / rate.interval();
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    /// Takes `count`, which must not be more than is available.
    pub fn take(&mut self, rate: Rate, now: Duration, count: u64) -> Mark {
        debug_assert!(count <= self.available(rate, now), "more was taken than there is");
        self.spoken_until = self.spoken_until.max(picos(now)) + rate.interval() * u128::from(count);
        Mark(self.spoken_until)
    }

    /// Gives back `count` of what was taken at `mark`. After another take they stay taken: the limit
    /// may then let through less than it could, never more.
    pub fn give_back(&mut self, rate: Rate, mark: Mark, count: u64) {
        if self.spoken_until == mark.0 {
            let given = rate.interval() * u128::from(count);
            self.spoken_until = self.spoken_until.saturating_sub(given);
        }
    }

    /// How long until one can be taken; zero when one can already.
    pub fn next_in(&self, rate: Rate, now: Duration) -> Duration {
        let at = (self.spoken_until + rate.interval()).saturating_sub(rate.reach());
        let wait = at.saturating_sub(picos(now)).div_ceil(PICOS_PER_NANO);
        Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
    }

    /// Whether nothing is spoken for: it is as good as new.
    pub fn is_idle(&self, now: Duration) -> bool {
        self.spoken_until <= picos(now)
    }
}

fn picos(now: Duration) -> u128 {
    now.as_nanos() * PICOS_PER_NANO
}

#[cfg(test)]
mod tests;
