//! Verdicts that one script does not take: retries, final failures, releases, and what a token gets
//! that holds no lease.

use duly_core::{
    Timer,
    timer::{Attempt, AttemptOutcome, DeadLetterReason, Next, SettledToken, Verdict},
    tombstone::Ended,
};
use duly_store::{SettleOutcome, SettleVerdict};

use super::{Case, Draft};
use crate::token::Ticket;

/// What is to be done about a verdict.
#[derive(Debug)]
pub(crate) enum Judged {
    /// Nothing: this is the answer.
    Answer(SettleOutcome),
    /// Write this; if nothing has changed meanwhile, this is the answer.
    Write(Box<Draft>, SettleOutcome),
    /// The lease is held: the script takes this one.
    Held,
}

impl Case {
    /// What a verdict does. The case has been brought up to the clock.
    pub(crate) fn judge(&self, ticket: &Ticket, verdict: &SettleVerdict) -> Judged {
        let held = self.live.as_ref().and_then(|live| Some((live, live.lease?)));
        let held = held.filter(|(_, lease)| lease.nonce == ticket.nonce);
        let Some((live, lease)) = held else {
            return Judged::Answer(self.settled_before(ticket, verdict));
        };
        let attempt = live.record.timer.attempts + 1;
        let ended = |outcome, reason: &str| Attempt::new(attempt, lease.since, outcome, reason);
        let mut record = live.record.clone();
        if let Some(verdict) = kind(verdict) {
            record.timer.last_settled = Some(SettledToken { nonce: ticket.nonce, verdict });
        }
        match verdict {
            SettleVerdict::Ack | SettleVerdict::Extend { .. } => Judged::Held,
            SettleVerdict::Retry { wait, outcome, reason } => {
                let ended = ended(*outcome, reason);
                let (next, draft) = self.fail(record, ended, *wait, self.now);
                let outcome = match next {
                    Next::Retry(_) => SettleOutcome::Ok,
                    Next::Dead => SettleOutcome::Dead,
                };
                Judged::Write(Box::new(draft), outcome)
            }
            SettleVerdict::Dead { reason } => {
                record.timer.attempt_concluded(ended(AttemptOutcome::Rejected, reason));
                let draft = self.bury(record, DeadLetterReason::Rejected).counting("failed");
                Judged::Write(Box::new(draft), SettleOutcome::Ok)
            }
            SettleVerdict::Release => {
                Judged::Write(Box::new(Draft::put(record)), SettleOutcome::Ok)
            }
        }
    }

    /// What a token gets that holds no lease: whether it was settled the same way before.
    fn settled_before(&self, ticket: &Ticket, verdict: &SettleVerdict) -> SettleOutcome {
        let Some(verdict) = kind(verdict) else {
            return SettleOutcome::LeaseLost;
        };
        let live = self.live.as_ref().and_then(|live| live.record.timer.last_settled);
        let finished =
            self.tombstone.as_ref().filter(|tombstone| tombstone.ended == Ended::Finished);
        let tombstone = finished.and_then(|tombstone| tombstone.details.as_ref()?.settled);
        let of = |letter: &Timer| letter.last_settled;
        let letter = self.letter.as_ref().and_then(|letter| of(&letter.record.timer));
        let other = self.other.as_ref().and_then(of);
        let mut known = [live, tombstone, letter, other].into_iter().flatten();
        if known.any(|settled| settled == SettledToken { nonce: ticket.nonce, verdict }) {
            SettleOutcome::AlreadySettled
        } else {
            SettleOutcome::LeaseLost
        }
    }
}

/// The kind of a verdict that ends a lease.
pub(crate) const fn kind(verdict: &SettleVerdict) -> Option<Verdict> {
    match verdict {
        SettleVerdict::Ack => Some(Verdict::Ack),
        SettleVerdict::Retry { .. } => Some(Verdict::Retry),
        SettleVerdict::Dead { .. } => Some(Verdict::Dead),
        SettleVerdict::Release => Some(Verdict::Release),
        SettleVerdict::Extend { .. } => None,
    }
}
