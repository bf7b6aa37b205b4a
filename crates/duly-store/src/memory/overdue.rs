//! Catching up with the clock: ended leases, expired firings, outlived tombstones.
//!
//! Runs at the start of every call. A lease that ended is dealt with as of the moment when it
//! ended, however late the store looks, so the order of the retries does not depend on that.

use duly_core::{
    TimerId, Timestamp,
    lifecycle::{Budget, Decision, Event, decide},
    timer::{Attempt, AttemptOutcome, DeadLetterReason, Next, Wait},
};

use super::{
    clock::Now,
    space::{Lease, Space},
};
use crate::Owner;

/// Reason in the history of an attempt whose lease ran out.
pub(super) const LEASE_ENDED: &str = "the lease ended before a verdict";
/// Reason in the history of an attempt whose node is gone.
pub(super) const OWNER_GONE: &str = "the node that held the lease is gone";

impl Space {
    pub(super) fn catch_up(&mut self, now: Now) {
        if self.resumes_at.is_some_and(|at| at <= now.wall) {
            (self.paused, self.resumes_at, self.updated_at) = (false, None, now.wall);
        }
        for id in self.leased(|lease| lease.is_over(now)) {
            let ended = self.live[&id].lease.map(|lease| now.steady_at(lease.ends_boot));
            self.lose_lease(&id, LEASE_ENDED, ended.unwrap_or(now.steady), now);
        }
        self.expire(now);
        let retention = self.settings.retention;
        self.tombstones
            .retain(|_, tombstone| tombstone.value.ended_at.saturating_add(retention) > now.wall);
        self.bound_tombstones();
    }

    /// Who holds leases.
    pub(super) fn owners(&self) -> impl Iterator<Item = Owner> {
        self.live.values().filter_map(|live| live.lease.map(|lease| lease.owner))
    }

    /// Ids of the firings under a lease that `which` picks.
    pub(super) fn leased(&self, which: impl Fn(&Lease) -> bool) -> Vec<TimerId> {
        let held = self.live.iter().filter(|(_, live)| live.lease.as_ref().is_some_and(&which));
        held.map(|(id, _)| id.clone()).collect()
    }

    /// Ends a lease without a verdict: the attempt counts, the firing is due again or spent.
    pub(super) fn lose_lease(&mut self, id: &TimerId, reason: &str, since: Timestamp, now: Now) {
        if let Some(lease) = self.live.get(id).and_then(|live| live.lease) {
            let outcome = AttemptOutcome::LeaseLost;
            let ended = Attempt::new(lease.attempt, lease.claimed_at, outcome, reason);
            self.fail(id, ended, Wait::None, since, now);
        }
    }

    /// Ends the attempt of a leased firing without a confirmation. `since` is when its wait
    /// begins, by the steady clock.
    pub(super) fn fail(
        &mut self,
        id: &TimerId,
        ended: Attempt,
        wait: Wait,
        since: Timestamp,
        now: Now,
    ) -> Next {
        let live =
            self.live.get_mut(id).expect("the caller found it in this map under the same lock");
        let state = live.state(now);
        let policy = live.timer.retry.as_ref().unwrap_or(&self.settings.retry).clone();
        let jitter_seed = live.timer.delivery_id(self.name.as_str()).seed();
        let next = live.timer.attempt_failed(ended, wait, &policy, jitter_seed, since);
        live.lease = None;
        self.totals.failed += 1;
        let budget = match next {
            Next::Retry(_) => Budget::Left,
            Next::Dead => Budget::Spent,
        };
        match decide(Some(state), Event::Fail(budget)) {
            Decision::Move(duly_core::State::Retrying) => {}
            Decision::Move(duly_core::State::Dead) => {
                self.bury(id, DeadLetterReason::AttemptsSpent, now);
            }
            other => unreachable!("only leased firings fail, yet the table says {other:?}"),
        }
        next
    }

    fn expire(&mut self, now: Now) {
        let late = self.live.iter().filter(|(_, live)| {
            let expired = live.timer.expires_at().is_some_and(|at| now.wall > at);
            let may = decide(Some(live.state(now)), Event::Expire);
            expired && may == Decision::Move(duly_core::State::Dead)
        });
        let late: Vec<TimerId> = late.map(|(id, _)| id.clone()).collect();
        for id in late {
            self.bury(&id, DeadLetterReason::Expired, now);
        }
    }
}
