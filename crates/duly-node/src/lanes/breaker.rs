//! The circuit breaker of a push lane: stops attempts to a receiver that fails, and probes it with
//! single attempts. Pure.
//!
//! ```text
//!   closed ── FAILURES in a row ──► open ── the wait is over ──► half-open
//!     ▲                              ▲                             │   │
//!     └───── PROBES in a row ────────┼─────────────────────────────┘   │
//!                                    └── a probe failed: twice the wait ┘
//! ```
//!
//! Invariants:
//!
//! 1. While it is open it admits nothing, so no claims and no attempts are used up.
//! 2. While it is half-open it admits one attempt, and one more for each that succeeded.
//! 3. A probe without a result can be repeated, so a lane cannot stay stopped for ever.
//! 4. An attempt that started before the breaker opened cannot keep it open. Its success allows a probe
//!    at once. Its failure is ignored, even if it is reported after the breaker has closed.

use std::time::Duration;

/// Failures in a row that open it.
pub(crate) const FAILURES: u32 = 10;
/// Successful probes in a row that close it.
pub(crate) const PROBES: u32 = 3;
/// First wait of an open breaker.
pub(crate) const WAIT_MIN: Duration = Duration::from_secs(1);
/// Longest wait of an open breaker.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// The breaker of one lane. Times are those of the boot-time clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Breaker {
    state: State,
    /// Number of times it opened since it was last closed.
    opened: u32,
    /// Time at which it first opened since it was last closed.
    opened_at: Duration,
    /// Number of the half-open period. It tells the probes of this period, and attempts admitted after
    /// it, from attempts that started before.
    period: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Duration },
    HalfOpen { under_way: u32, successes: u32 },
}

/// The attempts that a breaker admits now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// All attempts.
    Free,
    /// This many probes; 0 while enough are under way.
    Probes(usize),
    /// None until this time.
    ShutUntil(Duration),
}

/// The admission of an attempt by a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// By a closed breaker, with its period.
    Free(u32),
    /// As a probe of a half-open breaker, with its period.
    Probe(u32),
}

impl Pass {
    const fn period(self) -> u32 {
        match self {
            Self::Free(period) | Self::Probe(period) => period,
        }
    }
}

/// The health of a receiver, as one attempt shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reception {
    /// The receiver works.
    Good,
    /// The receiver failed.
    Bad,
    /// Unknown: the attempt was not made, or was aborted by this node.
    Unknown,
}

/// The state of a breaker, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Attempts are made.
    Closed,
    /// No attempts are made.
    Open,
    /// Single attempts probe the receiver.
    HalfOpen,
}

impl BreakerState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// Returns the name in metrics and replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: State::Closed { failures: 0 },
            opened: 0,
            opened_at: Duration::ZERO,
            period: 0,
        }
    }
}

impl Breaker {
    /// Creates a closed breaker that ignores attempts admitted before this period.
    pub(super) fn since(period: u32) -> Self {
        Self { period, ..Self::default() }
    }

    /// Returns the period; later periods have larger numbers.
    pub(super) const fn period(&self) -> u32 {
        self.period
    }

    pub(super) fn gate(&self, now: Duration) -> Gate {
        match self.state {
            State::Closed { .. } => Gate::Free,
            State::Open { until } if now < until => Gate::ShutUntil(until),
            State::Open { .. } => Gate::Probes(1),
            State::HalfOpen { under_way, successes } => {
                Gate::Probes((successes + 1).saturating_sub(under_way) as usize)
            }
        }
    }

    /// Admits `count` attempts, no more than [`Self::gate`] allows.
    pub(super) fn pass(&mut self, now: Duration, count: usize) -> Pass {
        debug_assert!(!matches!(self.gate(now), Gate::ShutUntil(_)), "the gate is asked first");
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        match &mut self.state {
            State::Closed { .. } => return Pass::Free(self.period),
            State::HalfOpen { under_way, .. } => *under_way += count,
            State::Open { .. } => {
                self.period = self.period.wrapping_add(1);
                self.state = State::HalfOpen { under_way: count, successes: 0 };
            }
        }
        Pass::Probe(self.period)
    }

    /// Records the result of an attempt that was admitted by `pass`.
    pub(super) fn report(&mut self, pass: Pass, reception: Reception, now: Duration) {
        match (&mut self.state, reception) {
            (State::Closed { failures }, Reception::Good) => *failures = 0,
            // Attempts that started before the breaker opened are not counted again.
            (State::Closed { failures }, Reception::Bad) if pass.period() == self.period => {
                *failures += 1;
                if *failures >= FAILURES {
                    self.open(now);
                }
            }
            (State::Open { until }, Reception::Good) => *until = now.min(*until),
            (State::HalfOpen { under_way, successes }, _) if pass == Pass::Probe(self.period) => {
                *under_way = under_way.saturating_sub(1);
                match reception {
                    Reception::Bad => self.open(now),
                    Reception::Unknown => {}
                    Reception::Good => {
                        *successes += 1;
                        if *successes >= PROBES {
                            *self = Self::since(self.period);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Drops the count of probes under way, because none is left.
    pub(super) const fn lose_probes(&mut self) {
        if let State::HalfOpen { under_way, .. } = &mut self.state {
            *under_way = 0;
        }
    }

    fn open(&mut self, now: Duration) {
        let wait = WAIT_MIN.saturating_mul(1 << self.opened.min(16)).min(WAIT_MAX);
        if self.opened == 0 {
            self.opened_at = now;
        }
        self.opened = self.opened.saturating_add(1);
        self.state = State::Open { until: now + wait };
    }

    /// Returns the state.
    pub(super) const fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Returns the time since which it has not been closed; `None` while it is closed.
    pub(super) const fn opened_at(&self) -> Option<Duration> {
        match self.state {
            State::Closed { .. } => None,
            _ => Some(self.opened_at),
        }
    }

    /// Returns the time from which the next probe may start, while it is open.
    pub(super) const fn next_probe_at(&self) -> Option<Duration> {
        match self.state {
            State::Open { until } => Some(until),
            _ => None,
        }
    }

    /// Returns the failures in a row while it is closed, otherwise [`FAILURES`].
    pub(super) const fn failures(&self) -> u32 {
        match self.state {
            State::Closed { failures } => failures,
            _ => FAILURES,
        }
    }

    /// Returns `true` if it has no information on its receiver, so that it can be dropped.
    pub(super) const fn is_new(&self) -> bool {
        matches!(self.state, State::Closed { failures: 0 })
    }
}

#[cfg(test)]
mod tests;
