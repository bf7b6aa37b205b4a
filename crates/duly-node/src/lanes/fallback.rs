//! The fallback: a second receiver for a namespace's webhooks.
//!
//! A firing goes to the fallback for one of two reasons. It uses the slots of its own lane in both.
//!
//! 1. The lane's breaker has stayed open for `after_open`. Then all its firings go to the fallback until
//!    the breaker closes, except for single probes.
//! 2. The firing has failed `after_attempts` times. Then its later attempts go to the fallback.
//!
//! The fallback of each namespace has its own breaker. While that is open, the lane acts as without a
//! fallback.
//!
//! A breaker is remembered after it has closed, so that it can count attempts under way and ignore those
//! that started before it opened. Above a bound some are dropped. A breaker that is created again
//! ignores the attempts that its predecessor admitted.

use std::time::Duration;

use duly_core::NamespaceName;
use duly_store::Lane;
use rustc_hash::FxHashMap;

use super::{
    Admission, BreakerState, Lanes, Receiver,
    breaker::{AdmissionLimit, Breaker},
    fair_share::{AttemptKind, Demand, LaneLimits, Load},
    known::{IDLE_REMEMBERED_MAX, REMEMBERED_MAX},
    plan::LaneState,
};

/// The breakers of the namespaces' fallbacks, and the number of diverted lanes.
#[derive(Debug, Default)]
pub(super) struct Fallbacks {
    breakers: FxHashMap<NamespaceName, Breaker>,
    /// Size of `breakers` at which some are dropped; 0 until the first of them is used.
    drop_at: usize,
    /// A period later than those of all dropped breakers.
    period: u32,
    /// Number of breakers in each state, in the order of [`BreakerState::ALL`]; updated with every
    /// change.
    states: [usize; 3],
    /// Number of lanes that are diverted, updated with every change.
    pub(super) diverted: usize,
}

/// A namespace's fallback as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FallbackLoad {
    /// State of its breaker.
    pub breaker: BreakerState,
    /// Failures in a row that the breaker has counted.
    pub failures: u32,
    /// Time until an open breaker admits the next probe.
    pub next_probe_in: Option<Duration>,
}

impl Fallbacks {
    fn admission_limit(
        &self,
        namespace: &NamespaceName,
        now: Duration,
        demand: Demand,
    ) -> AdmissionLimit {
        let breaker = self.breakers.get(namespace);
        breaker.map_or(AdmissionLimit::Free, |breaker| breaker.admission_limit(now, demand))
    }

    pub(super) fn admit(
        &mut self,
        namespace: &NamespaceName,
        attempts: Load,
        now: Duration,
    ) -> Admission {
        if self.breakers.len() >= self.drop_at && !self.breakers.contains_key(namespace) {
            self.drop_idle();
        }
        if !self.breakers.contains_key(namespace) {
            let new = Breaker::since(self.period);
            self.states[new.state() as usize] += 1;
            self.breakers.insert(namespace.clone(), new);
        }
        let admission = self.change(namespace, |breaker| breaker.admit(now, attempts));
        admission.expect("it is there now")
    }

    /// Changes a breaker, if it is remembered. Returns the result of the change.
    pub(super) fn change<T>(
        &mut self,
        namespace: &NamespaceName,
        change: impl FnOnce(&mut Breaker) -> T,
    ) -> Option<T> {
        let breaker = self.breakers.get_mut(namespace)?;
        self.states[breaker.state() as usize] -= 1;
        let changed = change(breaker);
        self.states[breaker.state() as usize] += 1;
        Some(changed)
    }

    /// Drops the breakers without information on their receivers; above the bound the closed ones too;
    /// all, if that is not enough.
    fn drop_idle(&mut self) {
        self.retain(|breaker| !breaker.is_new());
        if self.breakers.len() > REMEMBERED_MAX / 2 {
            self.retain(|breaker| breaker.state() != BreakerState::Closed);
        }
        if self.breakers.len() > REMEMBERED_MAX / 2 {
            self.retain(|_| false);
        }
        // Twice the number left, so that the cost of dropping is constant per breaker.
        self.drop_at = (2 * self.breakers.len()).max(IDLE_REMEMBERED_MAX);
    }

    fn retain(&mut self, is_kept: impl Fn(&Breaker) -> bool) {
        let mut period = self.period;
        self.breakers.retain(|_, breaker| {
            let kept = is_kept(breaker);
            if !kept {
                period = period.max(breaker.period.wrapping_add(1));
                self.states[breaker.state() as usize] -= 1;
            }
            kept
        });
        self.period = period;
    }
}

impl Lanes {
    /// Returns the receiver for attempts of a lane now, and their admission by its breaker.
    pub(super) fn route(
        &self,
        lane: &Lane,
        state: &LaneState,
        limits: LaneLimits,
        demand: Demand,
        now: Duration,
    ) -> (Receiver, AdmissionLimit) {
        let own = state.breaker.admission_limit(now, demand);
        if own.admits() {
            return (Receiver::Own, own);
        }
        if is_diverted(state, limits, now) {
            let fallback = self.fallbacks.admission_limit(&lane.namespace, now, demand);
            let is_admitted = fallback.admits();
            return if is_admitted { (Receiver::Fallback, fallback) } else { (Receiver::Own, own) };
        }
        match (own, limits.fallback_after, state.breaker.opened_at()) {
            (AdmissionLimit::OpenUntil(at), Some(after), Some(since)) => {
                (Receiver::Own, AdmissionLimit::OpenUntil(at.min(since + after)))
            }
            _ => (Receiver::Own, own),
        }
    }

    /// Returns the number of lanes whose firings went to their fallback when they were last planned, and
    /// whose own receiver has not recovered since.
    pub(crate) const fn diverted(&self) -> usize {
        self.fallbacks.diverted
    }

    /// Updates the count of diverted lanes for a lane that is planned now; `state` is its known state.
    pub(super) fn update_diverted(
        &mut self,
        lane: &Lane,
        state: &LaneState,
        limits: LaneLimits,
        now: Duration,
    ) {
        let is_diverted = is_diverted(state, limits, now);
        if is_diverted != state.is_diverted
            && let Some(state) = self.lanes.get_mut(lane)
        {
            state.is_diverted = is_diverted;
            if is_diverted {
                self.fallbacks.diverted += 1;
            } else {
                self.fallbacks.diverted -= 1;
            }
        }
    }

    /// Admits a firing that has failed so often that it must go to the fallback. Returns `None` if the
    /// fallback's breaker does not admit it.
    pub(crate) fn divert(
        &mut self,
        namespace: &NamespaceName,
        kind: AttemptKind,
        now: Duration,
    ) -> Option<Admission> {
        let one = Load::one(kind);
        let limit = self.fallbacks.admission_limit(namespace, now, one);
        limit.admits().then(|| self.fallbacks.admit(namespace, one, now))
    }

    /// Returns the state of a namespace's fallback; the initial state if it was not used recently.
    pub(crate) fn fallback(&self, namespace: &NamespaceName, now: Duration) -> FallbackLoad {
        let breaker = self.fallbacks.breakers.get(namespace).copied().unwrap_or_default();
        FallbackLoad {
            breaker: breaker.state(),
            failures: breaker.failures(),
            next_probe_in: breaker
                .next_probe_at(Demand::default())
                .map(|at| at.saturating_sub(now)),
        }
    }

    /// Returns the number of fallbacks with a breaker in each state, in the order of
    /// [`BreakerState::ALL`]. Only fallbacks that were used recently are counted.
    pub(crate) const fn fallback_breakers(&self) -> [usize; 3] {
        self.fallbacks.states
    }
}

/// Returns `true` if a lane's breaker has stayed open for so long that its fallback takes over.
pub(super) fn is_diverted(state: &LaneState, limits: LaneLimits, now: Duration) -> bool {
    let since = state.breaker.opened_at();
    limits.fallback_after.zip(since).is_some_and(|(after, since)| since + after <= now)
}

#[cfg(test)]
mod tests;
