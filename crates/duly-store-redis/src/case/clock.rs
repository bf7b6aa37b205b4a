//! What the clock has ended: a lease past its end, a firing past `expire_after`.
//!
//! A lease that ended is dealt with as of the moment when it ended, however late anybody looks.

use duly_core::{
    State, Timestamp,
    lifecycle::{Budget, Decision, Event, decide},
    timer::{Attempt, AttemptOutcome, DeadLetterReason, Next, Wait},
};

use super::{Case, Draft, Live, Payload};
use crate::record::Record;

/// Reason in the history of an attempt whose lease ran out.
const LEASE_ENDED: &str = "the lease ended before a verdict";
/// Reason in the history of an attempt whose node is gone.
pub(crate) const OWNER_GONE: &str = "the node that held the lease is gone";

impl Case {
    /// What is to be written because of the clock, if anything is.
    pub(crate) fn due(&self) -> Option<Draft> {
        let live = self.live.as_ref()?;
        match live.lease {
            Some(lease) if lease.is_over(self.now) => {
                Some(self.lose_lease(live, LEASE_ENDED, lease.until().unwrap_or(self.now)))
            }
            Some(_) => None,
            None if self.is_late(&live.record, live.state(self.now)) => {
                Some(self.bury(live.record.clone(), DeadLetterReason::Expired))
            }
            None => None,
        }
    }

    /// Ends a lease without a verdict: the attempt counts, the firing is due again or spent.
    pub(crate) fn lose_lease(&self, live: &Live, reason: &str, since: Timestamp) -> Draft {
        let Some(lease) = live.lease else {
            return Draft::default();
        };
        let attempt = live.record.timer.attempts + 1;
        let ended = Attempt::new(attempt, lease.since, AttemptOutcome::LeaseLost, reason);
        self.fail(live.record.clone(), ended, Wait::None, since).1
    }

    /// Ends the attempt of a leased firing without a confirmation. `since` is when its wait begins.
    pub(super) fn fail(
        &self,
        mut record: Record,
        ended: Attempt,
        wait: Wait,
        since: Timestamp,
    ) -> (Next, Draft) {
        let settings = self.settings();
        let timer = &mut record.timer;
        let policy = timer.retry.clone().unwrap_or_else(|| settings.retry.clone());
        let jitter_seed = timer.delivery_id(self.control.name.as_str()).seed();
        let next = timer.attempt_failed(ended, wait, &policy, jitter_seed, since);
        let budget = match next {
            Next::Retry(_) => Budget::Left,
            Next::Dead => Budget::Spent,
        };
        let draft = match decide(Some(State::InFlight), Event::Fail(budget)) {
            Decision::Move(State::Retrying) if self.is_late(&record, State::Retrying) => {
                self.bury(record, DeadLetterReason::Expired)
            }
            Decision::Move(State::Retrying) => Draft::put(record),
            _ => self.bury(record, DeadLetterReason::AttemptsSpent),
        };
        (next, draft.counting("failed"))
    }

    /// Gives a live firing up; it stays whole under its delivery id.
    pub(super) fn bury(&self, mut record: Record, reason: DeadLetterReason) -> Draft {
        record.timer.die(self.now, reason);
        let payload = if record.apart.is_some() { Payload::Moves } else { Payload::Inline };
        Draft { bury: Some((Box::new(record), payload)), ..Draft::gone() }.counting("dead")
    }

    fn is_late(&self, record: &Record, state: State) -> bool {
        let expired = record.timer.expires_at().is_some_and(|at| self.now > at);
        expired && decide(Some(state), Event::Expire) == Decision::Move(State::Dead)
    }
}
