//! The circuit breaker of a push lane: stops attempts to a receiver that fails, and probes it with
//! single attempts. Pure.
//!
//! The failure of a retry proves less than the failure of a first attempt: the firing failed before, so
//! the fault may be its own. So a breaker has a wait for retries and a shorter one for first attempts.
//!
//! A receiver that responds that it is overloaded or broken proves less than one that is silent: the fault may be that
//! of a few firings. So the first [`QUICK_PROBES`] waits after such a response to a first attempt are short, a success gives
//! them again, and later waits are at most [`RESPONDING_WAIT_MAX`].
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
//! 2. While it is half-open it admits one attempt, and one more for each that succeeded; first attempts
//!    before retries, and one first attempt also beside retries.
//! 3. A probe without a result can be repeated, so a lane cannot stay stopped for ever.
//! 4. An attempt that started before the breaker opened cannot keep it open. Its success allows a probe
//!    at once. Its failure is ignored, even if it is reported after the breaker has closed.
//! 5. A failed retry makes only retries wait. So firings that always fail do not hold up the others.

use std::time::Duration;

use duly_core::lane_states::BreakerState;
use duly_sink::ReceiverHealth;

use super::fair_share::{AttemptKind, Demand, Load};

/// Failures in a row that open it.
pub(crate) const FAILURES: u32 = 10;
/// Successful probes in a row that close it.
pub(crate) const PROBES: u32 = 3;
/// Number of short waits after responses to first attempts, since the last success.
pub(crate) const QUICK_PROBES: u32 = 40;
/// Each of these waits.
pub(crate) const QUICK_WAIT: Duration = Duration::from_millis(250);
/// Longest wait after a response to a first attempt.
pub(crate) const RESPONDING_WAIT_MAX: Duration = Duration::from_secs(5);
/// First of the other waits of an open breaker.
pub(crate) const WAIT_MIN: Duration = Duration::from_secs(1);
/// Longest wait of an open breaker.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// Returns [`WAIT_MIN`] doubled this many times, at most [`WAIT_MAX`].
fn doubled(times: usize) -> Duration {
    WAIT_MIN.saturating_mul(1 << times.min(16)).min(WAIT_MAX)
}

/// The breaker of one lane. Times are those of the boot-time clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Breaker {
    state: BreakerPhase,
    /// Number of times it opened since it was last closed: by first attempts, and by any attempt.
    opened: Load,
    /// Number of short waits since the last success.
    quick: u32,
    /// Time at which it first opened since it was last closed.
    opened_at: Duration,
    /// Number of the half-open period. It tells the probes of this period, and attempts admitted after
    /// it, from attempts that started before. Later periods have larger numbers.
    pub(super) period: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerPhase {
    Closed {
        failures: Load,
    },
    /// First attempts wait until the first time, retries until the second, which is never earlier.
    Open {
        until: Duration,
        retries_until: Duration,
    },
    HalfOpen {
        under_way: Load,
        successes: u32,
    },
}

/// The attempts that a breaker admits now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdmissionLimit {
    /// All attempts.
    Free,
    /// These probes; none while enough are under way.
    Probes(Load),
    /// None until this time.
    OpenUntil(Duration),
}

impl AdmissionLimit {
    /// Returns `true` if at least one attempt is admitted.
    pub(super) const fn admits(self) -> bool {
        match self {
            Self::Free => true,
            Self::Probes(probes) => probes.sum() > 0,
            Self::OpenUntil(_) => false,
        }
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

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: BreakerPhase::Closed { failures: Load::new(0, 0) },
            opened: Load::new(0, 0),
            quick: 0,
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

    /// Returns the attempts of `demand` that it admits now.
    pub(super) fn admission_limit(&self, now: Duration, demand: Demand) -> AdmissionLimit {
        match self.state {
            BreakerPhase::Closed { .. } => AdmissionLimit::Free,
            BreakerPhase::Open { until, .. } if demand.first > 0 => {
                if now < until {
                    AdmissionLimit::OpenUntil(until)
                } else {
                    AdmissionLimit::Probes(Load::one(AttemptKind::First))
                }
            }
            BreakerPhase::Open { retries_until, .. } if now < retries_until => {
                AdmissionLimit::OpenUntil(retries_until)
            }
            BreakerPhase::Open { .. } => AdmissionLimit::Probes(Load::one(AttemptKind::Retry)),
            BreakerPhase::HalfOpen { under_way, successes } => {
                let most = successes as usize + 1;
                let first = demand.first.min(most.saturating_sub(under_way.first));
                let retry = demand.retry.min(most.saturating_sub(under_way.sum() + first));
                AdmissionLimit::Probes(Load::new(first, retry))
            }
        }
    }

    /// Admits attempts, no more than [`Self::admission_limit`] allows.
    pub(super) fn admit(&mut self, now: Duration, attempts: Load) -> Admission {
        debug_assert!(
            !matches!(self.admission_limit(now, attempts), AdmissionLimit::OpenUntil(_)),
            "the caller checks the limit first"
        );
        match &mut self.state {
            BreakerPhase::Closed { .. } => return Admission::Free(self.period),
            BreakerPhase::HalfOpen { under_way, .. } => under_way.add(attempts),
            BreakerPhase::Open { .. } => {
                self.period = self.period.wrapping_add(1);
                self.state = BreakerPhase::HalfOpen { under_way: attempts, successes: 0 };
            }
        }
        Admission::Probe(self.period)
    }

    /// Records the result of an attempt of this kind that was admitted by `admission`.
    pub(super) fn report(
        &mut self,
        admission: Admission,
        kind: AttemptKind,
        health: ReceiverHealth,
        now: Duration,
    ) {
        match (&mut self.state, health) {
            (BreakerPhase::Closed { failures }, ReceiverHealth::Good) => {
                *failures = Load::default()
            }
            // Attempts that started before the breaker opened are not counted again.
            (
                BreakerPhase::Closed { failures },
                ReceiverHealth::Silent | ReceiverHealth::Overloaded,
            ) if admission.period() == self.period => {
                failures.add(Load::one(kind));
                if failures.sum() >= FAILURES as usize {
                    let by =
                        if failures.first > 0 { AttemptKind::First } else { AttemptKind::Retry };
                    self.open(by, health, now);
                }
            }
            (BreakerPhase::Open { until, retries_until }, ReceiverHealth::Good) => {
                *until = now.min(*until);
                *retries_until = now.min(*retries_until);
            }
            (BreakerPhase::HalfOpen { under_way, successes }, _)
                if admission == Admission::Probe(self.period) =>
            {
                under_way.subtract(Load::one(kind));
                match health {
                    ReceiverHealth::Silent | ReceiverHealth::Overloaded => {
                        self.open(kind, health, now)
                    }
                    ReceiverHealth::Unknown => {}
                    ReceiverHealth::Good => {
                        self.quick = 0;
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
            *under_way = Load::new(0, 0);
        }
    }

    /// Opens it after failures of this kind, the last of them with this health.
    fn open(&mut self, by: AttemptKind, health: ReceiverHealth, now: Duration) {
        if matches!(self.state, BreakerPhase::Closed { .. }) {
            self.opened_at = now;
        }
        let is_quick = by == AttemptKind::First
            && health == ReceiverHealth::Overloaded
            && self.quick < QUICK_PROBES;
        if is_quick {
            self.quick += 1;
            let (until, retries_until) = (now + QUICK_WAIT, now + doubled(self.opened.retry));
            self.state = BreakerPhase::Open { until, retries_until };
            return;
        }
        let wait = |opened: &mut usize| {
            let wait = doubled(*opened);
            *opened = opened.saturating_add(1);
            wait
        };
        let retries_until = now + wait(&mut self.opened.retry);
        let until = match by {
            AttemptKind::First => {
                let wait = wait(&mut self.opened.first);
                let responds = health == ReceiverHealth::Overloaded;
                now + if responds { wait.min(RESPONDING_WAIT_MAX) } else { wait }
            }
            AttemptKind::Retry => now,
        };
        self.state = BreakerPhase::Open { until, retries_until };
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

    /// Returns the time from which the next probe of `demand` may start, while it is open.
    pub(super) const fn next_probe_at(&self, demand: Demand) -> Option<Duration> {
        match self.state {
            BreakerPhase::Open { until, .. } if demand.first > 0 => Some(until),
            BreakerPhase::Open { retries_until, .. } => Some(retries_until),
            _ => None,
        }
    }

    /// Returns the failures in a row while it is closed, otherwise [`FAILURES`].
    pub(super) fn failures(&self) -> u32 {
        match self.state {
            BreakerPhase::Closed { failures } => u32::try_from(failures.sum()).unwrap_or(u32::MAX),
            _ => FAILURES,
        }
    }

    /// Returns `true` if it has no information on its receiver, so that it can be dropped.
    pub(super) const fn is_new(&self) -> bool {
        matches!(self.state, BreakerPhase::Closed { failures: Load { first: 0, retry: 0 } })
    }
}

#[cfg(test)]
mod tests;
