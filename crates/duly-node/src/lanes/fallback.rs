//! A second receiver for a namespace's webhooks: when it takes over.
//!
//! Two reasons: a lane's breaker has stayed open for `after_open`, then all its firings go there until
//! the breaker closes, single probes excepted; or a firing has failed `after_attempts` times, then its
//! later attempts do. The slots are the lane's own in both. The fallback has a breaker of its own, one
//! for each namespace; while that is open, everything is as without a fallback.
//!
//! A breaker is remembered after it has closed, so that attempts under way still count for it, and
//! those that began before it opened do not. Past a bound some are forgotten; one that is begun anew
//! takes no word of attempts that an earlier one let through.

use std::time::Duration;

use duly_core::NamespaceName;
use duly_store::Lane;
use rustc_hash::FxHashMap;

use super::{
    BreakerState, Lanes, Pass, Receiver,
    breaker::{Breaker, Gate},
    known::{IDLE_REMEMBERED_MAX, REMEMBERED_MAX},
    share::Share,
    state::State,
};

/// Breakers of the namespaces' fallbacks, and how many lanes go there.
#[derive(Debug)]
pub(super) struct Fallbacks {
    breakers: FxHashMap<NamespaceName, Breaker>,
    /// Size of `breakers` at which some are forgotten.
    forget_at: usize,
    /// Later than the periods of all that were forgotten.
    period: u32,
    /// How many there are in each state, in the order of [`BreakerState::ALL`]; kept with every change.
    states: [usize; 3],
    /// Lanes that are diverted, kept with every change.
    pub(super) diverted: usize,
}

/// A namespace's fallback as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FallbackLoad {
    /// Its breaker.
    pub breaker: BreakerState,
    /// Failures in a row that the breaker has counted.
    pub failures: u32,
    /// How long until an open breaker lets the next probe through.
    pub next_probe_in: Option<Duration>,
}

impl Default for Fallbacks {
    fn default() -> Self {
        Self {
            breakers: FxHashMap::default(),
            forget_at: IDLE_REMEMBERED_MAX,
            period: 0,
            states: [0; 3],
            diverted: 0,
        }
    }
}

impl Fallbacks {
    fn gate(&self, namespace: &NamespaceName, now: Duration) -> Gate {
        self.breakers.get(namespace).map_or(Gate::Free, |breaker| breaker.gate(now))
    }

    pub(super) fn pass(&mut self, namespace: &NamespaceName, count: usize, now: Duration) -> Pass {
        if self.breakers.len() >= self.forget_at && !self.breakers.contains_key(namespace) {
            self.forget();
        }
        if !self.breakers.contains_key(namespace) {
            let new = Breaker::since(self.period);
            self.states[new.state() as usize] += 1;
            self.breakers.insert(namespace.clone(), new);
        }
        let passed = self.change(namespace, |breaker| breaker.pass(now, count));
        passed.expect("it is there now")
    }

    /// Changes a breaker, if it is remembered.
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

    /// Forgets those that know nothing of their receivers; past the bound the closed ones too, and
    /// all if that is not enough.
    fn forget(&mut self) {
        self.forget_but(|breaker| !breaker.is_new());
        if self.breakers.len() > REMEMBERED_MAX / 2 {
            self.forget_but(|breaker| breaker.state() != BreakerState::Closed);
        }
        if self.breakers.len() > REMEMBERED_MAX / 2 {
            self.forget_but(|_| false);
        }
        // Twice what is left, so that forgetting costs each a constant.
        self.forget_at = (2 * self.breakers.len()).max(IDLE_REMEMBERED_MAX);
    }

    fn forget_but(&mut self, is_kept: impl Fn(&Breaker) -> bool) {
        let mut period = self.period;
        self.breakers.retain(|_, breaker| {
            let kept = is_kept(breaker);
            if !kept {
                period = period.max(breaker.period().wrapping_add(1));
                self.states[breaker.state() as usize] -= 1;
            }
            kept
        });
        self.period = period;
    }
}

impl Lanes {
    /// Which receiver the attempts of a lane go to now, and what its breaker lets through.
    pub(super) fn way(
        &self,
        lane: &Lane,
        state: &State,
        share: Share,
        now: Duration,
    ) -> (Receiver, Gate) {
        let own = state.breaker.gate(now);
        if matches!(own, Gate::Free | Gate::Probes(1..)) {
            return (Receiver::Own, own);
        }
        if is_diverted(state, share, now) {
            let fallback = self.fallbacks.gate(&lane.namespace, now);
            return match fallback {
                Gate::Free | Gate::Probes(1..) => (Receiver::Fallback, fallback),
                Gate::Probes(_) | Gate::ShutUntil(_) => (Receiver::Own, own),
            };
        }
        match (own, share.fallback_after, state.breaker.opened_at()) {
            (Gate::ShutUntil(at), Some(after), Some(since)) => {
                (Receiver::Own, Gate::ShutUntil(at.min(since + after)))
            }
            _ => (Receiver::Own, own),
        }
    }

    /// Lanes whose firings went to their fallback when they were last planned and whose own receiver
    /// has not come back since.
    pub(crate) const fn diverted(&self) -> usize {
        self.fallbacks.diverted
    }

    /// Keeps the count of diverted lanes for one that is planned now; `state` is as it is known.
    pub(super) fn note_diverted(
        &mut self,
        lane: &Lane,
        state: &State,
        share: Share,
        now: Duration,
    ) {
        let is_diverted = is_diverted(state, share, now);
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

    /// A firing of this namespace has failed so often that it is to go to the fallback: lets it past
    /// the fallback's breaker, if that does.
    pub(crate) fn divert(&mut self, namespace: &NamespaceName, now: Duration) -> Option<Pass> {
        match self.fallbacks.gate(namespace, now) {
            Gate::Free | Gate::Probes(1..) => Some(self.fallbacks.pass(namespace, 1, now)),
            Gate::Probes(_) | Gate::ShutUntil(_) => None,
        }
    }

    /// What is known of a namespace's fallback; of one that nothing went to lately, that is nothing.
    pub(crate) fn fallback(&self, namespace: &NamespaceName, now: Duration) -> FallbackLoad {
        let breaker = self.fallbacks.breakers.get(namespace).copied().unwrap_or_default();
        FallbackLoad {
            breaker: breaker.state(),
            failures: breaker.failures(),
            next_probe_in: breaker.next_probe_at().map(|at| at.saturating_sub(now)),
        }
    }

    /// How many fallbacks have a breaker in each state, in the order of [`BreakerState::ALL`], of
    /// those that attempts went to lately.
    pub(crate) const fn fallback_breakers(&self) -> [usize; 3] {
        self.fallbacks.states
    }
}

/// Whether a lane's breaker has stayed open for so long that its fallback takes over.
pub(super) fn is_diverted(state: &State, share: Share, now: Duration) -> bool {
    let since = state.breaker.opened_at();
    share.fallback_after.zip(since).is_some_and(|(after, since)| since + after <= now)
}

#[cfg(test)]
mod tests;
