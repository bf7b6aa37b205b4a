//! Catching up with the clock: ended leases, expired firings, old tombstones.
//!
//! It runs at the start of every call. A lease that ended is processed as of its end, even if the call comes
//! later, so the order of the retries does not depend on the call.

use duly_core::{
    TimerId, Timestamp,
    settle::{LeaseLoss, expire, lose_lease},
};

use super::{
    clock::ClockReading,
    namespace_state::{Lease, NamespaceState},
};
use crate::Owner;

impl NamespaceState {
    pub(super) fn catch_up(&mut self, now: ClockReading) {
        if self.resumes_at.is_some_and(|at| at <= now.wall) {
            (self.paused, self.resumes_at, self.updated_at) = (false, None, now.wall);
        }
        for id in self.leased(|lease| lease.is_over(now)) {
            let ended = self.live[&id].lease.map(|lease| now.steady_at(lease.ends_boot));
            self.lose_lease(&id, LeaseLoss::Ended, ended.unwrap_or(now.steady), now);
        }
        let unleased = self.live.values().filter(|live| live.lease.is_none());
        let context = self.context(0, now);
        let expired = unleased.filter_map(|it| expire(Box::new(it.timer.clone()), &context).ok());
        for effect in expired.collect::<Vec<_>>() {
            self.write(effect);
        }
        let retention = self.settings.retention;
        self.tombstones
            .retain(|_, tombstone| tombstone.value.ended_at.saturating_add(retention) > now.wall);
        self.trim_tombstones();
    }

    /// Returns the owners of leases.
    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.live.values().filter_map(|live| live.lease.map(|lease| lease.owner))
    }

    /// Returns the ids of the leased firings for which `which` returns `true`.
    pub(super) fn leased(&self, which: impl Fn(&Lease) -> bool) -> Vec<TimerId> {
        let held = self.live.iter().filter(|(_, live)| live.lease.as_ref().is_some_and(&which));
        held.map(|(id, _)| id.clone()).collect()
    }

    /// Ends a lease without a verdict.
    pub(super) fn lose_lease(
        &mut self,
        id: &TimerId,
        loss: LeaseLoss,
        since: Timestamp,
        now: ClockReading,
    ) {
        let live = &self.live[id];
        if let Some(lease) = live.lease {
            let timer = Box::new(live.timer.clone());
            let effect = lose_lease(timer, &lease.held(now), loss, since, &self.context(0, now));
            self.write(effect);
        }
    }
}
