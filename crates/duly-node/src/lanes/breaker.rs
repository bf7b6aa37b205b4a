//! The breaker of a push lane: a receiver that does not answer is left alone, and asked again with
//! single attempts. Pure.
//!
//! ```text
//!   closed ── FAILURES in a row ──► open ── the wait is over ──► half-open
//!     ▲                              ▲                             │   │
//!     └───── PROBES in a row ────────┼─────────────────────────────┘   │
//!                                    └── a probe failed: twice the wait ┘
//! ```
//!
//! Invariants: while it is open nothing is let through, so that neither claims nor attempts are used
//! up; half-open lets through one attempt, then one more for each that succeeded; a probe whose end
//! nobody learnt can be repeated, so that a lane cannot stay shut for ever. An attempt that began
//! before the breaker opened cannot keep it open: its success has it probed at once, its failure
//! says nothing new, also when it comes after the breaker has closed.

use std::time::Duration;

/// Failures in a row that open it.
pub(crate) const FAILURES: u32 = 10;
/// Successful probes in a row that close it.
pub(crate) const PROBES: u32 = 3;
/// First wait of an open breaker.
pub(crate) const WAIT_MIN: Duration = Duration::from_secs(1);
/// Longest wait of an open breaker.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// The breaker of one lane. Times are of the boot-time clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Breaker {
    state: State,
    /// How often in a row it opened without closing.
    opened: u32,
    /// When it opened the first time since it was closed.
    opened_at: Duration,
    /// Grows with each half-open period; tells its probes, and what passed once it was closed, from
    /// what began before.
    period: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { until: Duration },
    HalfOpen { under_way: u32, successes: u32 },
}

/// What a breaker lets through now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    /// Everything.
    Free,
    /// So many attempts, to see whether the receiver is back; none while enough are under way.
    Probes(usize),
    /// Nothing until then.
    ShutUntil(Duration),
}

/// How an attempt was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Past a breaker closed since this period.
    Free(u32),
    /// To see whether the receiver is back, in this period.
    Probe(u32),
}

impl Pass {
    const fn period(self) -> u32 {
        match self {
            Self::Free(period) | Self::Probe(period) => period,
        }
    }
}

/// What an attempt says of its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reception {
    /// It answered as a receiver that works.
    Good,
    /// It did not.
    Bad,
    /// Nothing: the attempt was not made, or broke off here.
    Unknown,
}

/// What a breaker is doing, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Attempts go through.
    Closed,
    /// The receiver is left alone.
    Open,
    /// Single attempts see whether it is back.
    HalfOpen,
}

impl BreakerState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Closed, Self::Open, Self::HalfOpen];

    /// Its name in metrics and answers.
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
    /// A closed one that counts nothing that passed before this period.
    pub(super) fn since(period: u32) -> Self {
        Self { period, ..Self::default() }
    }

    /// Its period; later ones have larger numbers.
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

    /// Lets `count` attempts through, no more than the gate allows.
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

    /// Learns how an attempt ended that was let through by `pass`.
    pub(super) fn report(&mut self, pass: Pass, reception: Reception, now: Duration) {
        match (&mut self.state, reception) {
            (State::Closed { failures }, Reception::Good) => *failures = 0,
            // What began before it opened has been counted by its opening.
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

    /// Nobody holds a probe any more, whatever was counted.
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

    /// What it is doing.
    pub(super) const fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Since when it has not been closed; `None` while it is.
    pub(super) const fn opened_at(&self) -> Option<Duration> {
        match self.state {
            State::Closed { .. } => None,
            _ => Some(self.opened_at),
        }
    }

    /// When the next probe may begin, while it is open.
    pub(super) const fn next_probe_at(&self) -> Option<Duration> {
        match self.state {
            State::Open { until } => Some(until),
            _ => None,
        }
    }

    /// Failures in a row while it is closed.
    pub(super) const fn failures(&self) -> u32 {
        match self.state {
            State::Closed { failures } => failures,
            _ => FAILURES,
        }
    }

    /// Whether it knows nothing of its receiver, so that it can be forgotten.
    pub(super) const fn is_new(&self) -> bool {
        matches!(self.state, State::Closed { failures: 0 })
    }
}

#[cfg(test)]
mod tests;
