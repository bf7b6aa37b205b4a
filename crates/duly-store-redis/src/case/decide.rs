//! What follows from a case: it goes to the core, and the effect into a draft.

use duly_core::{
    Destination, Timer, Timestamp, Tombstone,
    operate::{Cause, Context, Decision, Effect, Known, Now, Operation, Reply, Usage, operate},
    settle::{self, Held, LeaseLoss, expire, lose_lease, settled_before},
    tombstone::Ended,
};
use duly_store::{Answer, Error, Refusal, SettleOutcome, SettleVerdict};

use super::{Case, Draft, Live, New, Payload};
use crate::{
    rate::Pace,
    record::{Apart, Record},
    token::Ticket,
};

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

/// Lanes whose number does not depend on the namespace: of timers that follow its destination, and
/// of those that are pulled. The scripts give every origin its own.
const FOLLOW: u8 = 0;
const PULL: u8 = 1;

impl Record {
    /// A record of a timer in the lane of its destination; the number of an origin's lane the scripts work out.
    pub(crate) fn of(timer: Timer) -> Self {
        let lane = if timer.spec.destination.is_none() { FOLLOW } else { PULL };
        Self::new(timer, lane)
    }
}

impl Case {
    /// Decides what an operation on this id does. The case has been brought up to the clock.
    pub(crate) fn decide(
        &self,
        operation: Operation,
        random: u64,
        answer: Answer,
    ) -> Result<Result<Decision, Error>, Refusal> {
        let letter = match operation {
            Operation::Import { .. } => self.other.as_ref(),
            _ => self.letter.as_ref().map(|letter| &letter.record.timer),
        };
        let known = Known { timer: self.view(), letter: letter.cloned().map(Box::new) };
        let decision = operate(operation, known, &self.context(random))?;
        Ok(self.check_answer(&decision, answer).map(|()| decision))
    }

    /// Refuses a reply that would show more of what was read than the command allows.
    fn check_answer(&self, decision: &Decision, answer: Answer) -> Result<(), Error> {
        let bytes = || {
            let bytes = decision.read_bytes(&self.control.name);
            let missing = match &decision.reply {
                _ if bytes == 0 => 0,
                Reply::Existing(view) | Reply::Unchanged(view) if view.timer().is_none() => 0,
                _ => self.missing_bytes(),
            };
            bytes + missing
        };
        Ok(answer.check(bytes)?)
    }

    /// The scripts check quotas with the write, and there is one clock.
    fn context(&self, random: u64) -> Context<'_> {
        Context {
            namespace: &self.control.name,
            settings: &self.control.settings,
            usage: Usage { dead: self.dead, ..Usage::default() },
            now: Now { wall: self.now, steady: self.now },
            random,
        }
    }

    /// The draft of a decision that changes something.
    pub(crate) fn draft(&self, decision: &Decision) -> Option<Draft> {
        let draft = self.draft_of(decision.effect.as_ref()?, decision.shows_read);
        let takes = decision.takes;
        Some(Draft {
            one_more: takes.pending,
            one_letter: takes.dead_letter,
            rate: takes.schedule.then_some(Pace::Ask),
            ..draft
        })
    }

    /// The draft of an effect. A payload that lies apart stays where it is or moves along, where it is kept.
    fn draft_of(&self, effect: &Effect, keeps_payload: bool) -> Draft {
        let live = self.live.as_ref().map(|live| &live.record);
        let apart_of = |record: Option<&Record>| record.and_then(|record| record.apart.clone());
        let with = |timer: &Timer, apart: Option<Apart>| {
            Box::new(Record { apart, ..Record::of(timer.clone()) })
        };
        let counts = counts_of(effect);
        match effect {
            Effect::Put(cause, timer) => {
                let apart = match cause {
                    Cause::Created | Cause::Replaced => None,
                    Cause::Redriven => apart_of(self.letter.as_ref().map(|it| &it.record)),
                    _ if keeps_payload => apart_of(live),
                    _ => None,
                };
                Draft {
                    live: Some(New::Put(with(timer, apart))),
                    drop_tombstone: !self.seen.tombstone.is_empty(),
                    take: *cause == Cause::Redriven,
                    counts,
                    ..Draft::default()
                }
            }
            Effect::DeadLetter(Cause::Imported, timer) => {
                let bury = Some((with(timer, None), Payload::Inline));
                Draft { bury, counts, ..Draft::default() }
            }
            Effect::DeadLetter(_, timer) => {
                let apart = apart_of(live);
                let payload = if apart.is_some() { Payload::Moves } else { Payload::Inline };
                let bury = Some((with(timer, apart), payload));
                Draft { live: Some(New::Gone), bury, counts, ..Draft::default() }
            }
            Effect::End(tombstone) if tombstone.ended == Ended::Cancelled => {
                Draft { live: Some(New::Gone), cancelled: true, counts, ..Draft::default() }
            }
            Effect::Purge => Draft { take: true, counts, ..Draft::default() },
            Effect::End(_) | Effect::Extend(_) => unreachable!("a script takes these verdicts"),
        }
    }

    /// What is to be written because of the clock, if anything is: a lease past its end, a firing past
    /// `expire_after`. A lease that ended is dealt with as of the moment when it ended.
    pub(crate) fn due(&self) -> Option<Draft> {
        let live = self.live.as_ref()?;
        let effect = match live.lease {
            Some(lease) if lease.is_over(self.now) => {
                return self.lose_lease(live, LeaseLoss::Ended, lease.until().unwrap_or(self.now));
            }
            Some(_) => return None,
            None => expire(Box::new(live.record.timer.clone()), &self.context(0)).ok()?,
        };
        Some(self.draft_of(&effect, true))
    }

    /// Ends a lease without a verdict.
    pub(crate) fn lose_lease(
        &self,
        live: &Live,
        loss: LeaseLoss,
        since: Timestamp,
    ) -> Option<Draft> {
        let timer = Box::new(live.record.timer.clone());
        let effect = lose_lease(timer, &live.held(self.now)?, loss, since, &self.context(0));
        Some(self.draft_of(&effect, true))
    }

    /// What a verdict does. The case has been brought up to the clock.
    pub(crate) fn judge(&self, ticket: &Ticket, verdict: &SettleVerdict) -> Judged {
        let held = self.live.as_ref().and_then(|live| Some((live, live.held(self.now)?)));
        let Some((live, held)) = held.filter(|(_, held)| held.nonce == ticket.nonce) else {
            let records = [
                self.live.as_ref().map(|live| &live.record.timer),
                self.letter.as_ref().map(|letter| &letter.record.timer),
                self.other.as_ref(),
            ];
            let known = records.into_iter().flatten().map(|timer| timer.last_settled);
            let tombstone = self.tombstone.as_ref().map(Tombstone::settled);
            let outcome = settled_before(known.chain(tombstone), ticket.nonce, verdict);
            return Judged::Answer(outcome);
        };
        if matches!(verdict, SettleVerdict::Ack | SettleVerdict::Extend { .. }) {
            return Judged::Held;
        }
        let timer = Box::new(live.record.timer.clone());
        match settle::settle(timer, &held, verdict, &self.context(0)) {
            (Some(effect), outcome) => {
                Judged::Write(Box::new(self.draft_of(&effect, true)), outcome)
            }
            (None, outcome) => Judged::Answer(outcome),
        }
    }
}

impl Live {
    /// The lease as the core asks for it.
    pub(crate) fn held(&self, now: Timestamp) -> Option<Held> {
        let lease = self.lease?;
        Some(Held {
            nonce: lease.nonce,
            attempt: self.record.timer.attempts.saturating_add(1),
            claimed_at: lease.since,
            held_for: now.saturating_since(lease.since).to_std(),
            ends: lease.until().is_some(),
        })
    }
}

/// The totals of the namespace that an effect counts for.
fn counts_of(effect: &Effect) -> Vec<&'static str> {
    match effect {
        Effect::Put(Cause::Created | Cause::Replaced, _) => vec!["scheduled"],
        Effect::Put(Cause::Rescheduled, _) => vec!["rescheduled"],
        Effect::Put(Cause::AttemptFailed, _) => vec!["failed"],
        Effect::DeadLetter(Cause::AttemptFailed, _) => vec!["failed", "dead"],
        Effect::DeadLetter(..) => vec!["dead"],
        Effect::End(_) => vec!["cancelled"],
        Effect::Put(..) | Effect::Purge | Effect::Extend(_) => Vec::new(),
    }
}

/// The origin that a record's own destination names.
pub(crate) fn origin_of(record: &Record) -> Option<String> {
    match &record.timer.spec.destination {
        Some(Destination::Http(http)) => Some(http.origin()),
        _ => None,
    }
}
