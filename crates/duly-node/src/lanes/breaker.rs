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
    state: BreakerPhase,
    /// Number of times it opened since it was last closed.
    opened: u32,
    /// Time at which it first opened since it was last closed.
    opened_at: Duration,
    /// Number of the half-open period. It tells the probes of this period, and attempts admitted after
    /// it, from attempts that started before. Later periods have larger numbers.
    pub(super) period: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerPhase {
    Closed { failures: u32 },
    Open { until: Duration },
    HalfOpen { under_way: u32, successes: u32 },
}

/// The attempts that a breaker admits now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdmissionLimit {
    /// All attempts.
    Free,
    /// This many probes; 0 while enough are under way.
    Probes(usize),
    /// None until this time.
    OpenUntil(Duration),
}

impl AdmissionLimit {
    /// Returns `true` if at least one attempt is admitted.
    pub(super) const fn admits(self) -> bool {
        matches!(self, Self::Free | Self::Probes(1..))
    }
}

/// The admission of an attempt by a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// By a closed breaker, with its period.
    Free(u32),
    /// As a probe of a half-open breaker, with its period.
    Probe(u32),
}

impl Admission {
    const fn period(self) -> u32 {
        match self {
            Self::Free(period) | Self::Probe(period) => period,
        }
    }
}

/// The health of a receiver, as one attempt shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiverHealth {
    /// The receiver works.
    Good,
    /// The receiver failed.
    Bad,
    /// Unknown: the attempt was not made, or was aborted by this node.
    Unknown,
}

duly_core::named_enum! {
    /// The state of a breaker, for operators, with its name in metrics and replies.
    pub enum BreakerState {
        /// Attempts are made.
        Closed = "closed",
        /// No attempts are made.
        Open = "open",
        /// Single attempts probe the receiver.
        HalfOpen = "half_open",
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: BreakerPhase::Closed { failures: 0 },
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

    pub(super) fn admission_limit(&self, now: Duration) -> AdmissionLimit {
        match self.state {
            BreakerPhase::Closed { .. } => AdmissionLimit::Free,
            BreakerPhase::Open { until } if now < until => AdmissionLimit::OpenUntil(until),
            BreakerPhase::Open { .. } => AdmissionLimit::Probes(1),
            BreakerPhase::HalfOpen { under_way, successes } => {
                AdmissionLimit::Probes((successes + 1).saturating_sub(under_way) as usize)
            }
        }
    }

    /// Admits `count` attempts, no more than [`Self::admission_limit`] allows.
    pub(super) fn admit(&mut self, now: Duration, count: usize) -> Admission {
        debug_assert!(
            !matches!(self.admission_limit(now), AdmissionLimit::OpenUntil(_)),
            "the caller checks the limit first"
        );
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        match &mut self.state {
            BreakerPhase::Closed { .. } => return Admission::Free(self.period),
            BreakerPhase::HalfOpen { under_way, .. } => *under_way += count,
            BreakerPhase::Open { .. } => {
                self.period = self.period.wrapping_add(1);
                self.state = BreakerPhase::HalfOpen { under_way: count, successes: 0 };
            }
        }
        Admission::Probe(self.period)
    }

    /// Records the result of an attempt that was admitted by `admission`.
    pub(super) fn report(&mut self, admission: Admission, health: ReceiverHealth, now: Duration) {
        match (&mut self.state, health) {
            (BreakerPhase::Closed { failures }, ReceiverHealth::Good) => *failures = 0,
            // Attempts that started before the breaker opened are not counted again.
            (BreakerPhase::Closed { failures }, ReceiverHealth::Bad)
                if admission.period() == self.period =>
            {
                *failures += 1;
                if *failures >= FAILURES {
                    self.open(now);
                }
            }
            (BreakerPhase::Open { until }, ReceiverHealth::Good) => *until = now.min(*until),
            (BreakerPhase::HalfOpen { under_way, successes }, _)
                if admission == Admission::Probe(self.period) =>
            {
                *under_way = under_way.saturating_sub(1);
                match health {
                    ReceiverHealth::Bad => self.open(now),
                    ReceiverHealth::Unknown => {}
                    ReceiverHealth::Good => {
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
    pub(super) const fn drop_probes(&mut self) {
        if let BreakerPhase::HalfOpen { under_way, .. } = &mut self.state {
            *under_way = 0;
        }
    }

    fn open(&mut self, now: Duration) {
        let wait = WAIT_MIN.saturating_mul(1 << self.opened.min(16)).min(WAIT_MAX);
        if self.opened == 0 {
            self.opened_at = now;
        }
        self.opened = self.opened.saturating_add(1);
        self.state = BreakerPhase::Open { until: now + wait };
    }

    /// Returns the state.
    pub(super) const fn state(&self) -> BreakerState {
        match self.state {
            BreakerPhase::Closed { .. } => BreakerState::Closed,
            BreakerPhase::Open { .. } => BreakerState::Open,
            BreakerPhase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Returns the time since which it has not been closed; `None` while it is closed.
    pub(super) const fn opened_at(&self) -> Option<Duration> {
        match self.state {
            BreakerPhase::Closed { .. } => None,
            _ => Some(self.opened_at),
        }
    }

    /// Returns the time from which the next probe may start, while it is open.
    pub(super) const fn next_probe_at(&self) -> Option<Duration> {
        match self.state {
            BreakerPhase::Open { until } => Some(until),
            _ => None,
        }
    }

    /// Returns the failures in a row while it is closed, otherwise [`FAILURES`].
    pub(super) const fn failures(&self) -> u32 {
        match self.state {
            BreakerPhase::Closed { failures } => failures,
            _ => FAILURES,
        }
    }

    /// Returns `true` if it has no information on its receiver, so that it can be dropped.
    pub(super) const fn is_new(&self) -> bool {
        matches!(self.state, BreakerPhase::Closed { failures: 0 })
    }
}

#[cfg(test)]
mod tests;
