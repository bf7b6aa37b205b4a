//! A second receiver for a namespace's webhooks: when it takes over.
//!
//! Two reasons: a lane's breaker has stayed open for `after_open`, then all its firings go there until
//! the breaker closes, single probes excepted; or a firing has failed `after_attempts` times, then its
//! later attempts do. The slots are the lane's own in both. The fallback has a breaker of its own, one
//! for each namespace; while that is open, everything is as without a fallback.

use std::time::Duration;

use duly_core::NamespaceName;
use duly_store::Lane;

use super::{Lanes, Pass, Permit, Receiver, Reception, breaker::Gate, share::Share, state::State};

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
            let fallback = self.fallback_gate(&lane.namespace, now);
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

    fn fallback_gate(&self, namespace: &NamespaceName, now: Duration) -> Gate {
        self.fallbacks.get(namespace).map_or(Gate::Free, |breaker| breaker.gate(now))
    }

    /// A firing of this namespace has failed so often that it is to go to the fallback: lets it past
    /// the fallback's breaker, if that does.
    pub(crate) fn divert(&mut self, namespace: &NamespaceName, now: Duration) -> Option<Pass> {
        match self.fallback_gate(namespace, now) {
            Gate::Free | Gate::Probes(1..) => Some(self.pass_to_fallback(namespace, 1, now)),
            Gate::Probes(_) | Gate::ShutUntil(_) => None,
        }
    }

    pub(super) fn pass_to_fallback(
        &mut self,
        namespace: &NamespaceName,
        count: usize,
        now: Duration,
    ) -> Pass {
        self.fallbacks.entry(namespace.clone()).or_default().pass(now, count)
    }

    /// Learns how an attempt at the fallback went.
    pub(super) fn report_of_fallback(
        &mut self,
        namespace: &NamespaceName,
        permit: Permit,
        reception: Reception,
        now: Duration,
    ) {
        if let Some(breaker) = self.fallbacks.get_mut(namespace) {
            breaker.report(permit.pass, reception, now);
            if breaker.is_new() {
                self.fallbacks.remove(namespace);
            }
        }
    }
}

/// Whether a lane's breaker has stayed open for so long that its fallback takes over.
pub(super) fn is_diverted(state: &State, share: Share, now: Duration) -> bool {
    let since = state.breaker.opened_at();
    share.fallback_after.zip(since).is_some_and(|(after, since)| since + after <= now)
}
