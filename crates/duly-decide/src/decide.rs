//! Decisions about a case: the core decides, and its effect becomes a draft.

use duly_core::{
    Millis, NamespaceName, Settings, Timer, Timestamp, Tombstone,
    operate::{Cause, Context, Decision, Effect, Known, Now, Operation, Reply, Usage, operate},
    settle::{self, HeldLease, LeaseLoss, expire, lose_lease, settled_before},
};
use duly_record::packed::{Record, SeparatePayload};
use duly_store::{Answer, Error, Refusal, SettleOutcome, SettleVerdict, TimerView};

use crate::{Case, Draft, LiveChange, LiveTimer};

/// Decision about a settlement.
#[derive(Debug)]
pub enum SettleDecision {
    /// Nothing to write: this is the result.
    Answer(SettleOutcome),
    /// Write this draft; if nothing has changed in between, this is the result.
    Write(Box<Draft>, SettleOutcome),
}

impl Case {
    /// Decides what an operation on this id does. The case must be up to date with the clock.
    ///
    /// # Errors
    /// The refusal of the operation; within, the error of a reply that is too large.
    pub fn decide(
        &self,
        operation: Operation,
        random: u64,
        answer: Answer,
    ) -> Result<Result<Decision, Error>, Refusal> {
        let letter = match operation {
            Operation::Import { .. } => self.other_dead_letter.as_ref(),
            _ => self.dead_letter.as_ref().map(|letter| &letter.timer),
        };
        let known = Known { timer: self.view(), letter: letter.cloned().map(Box::new) };
        let decision = operate(operation, known, &self.context(random))?;
        Ok(self.check_answer(&decision, answer).map(|()| decision))
    }

    /// Refuses a reply that would show more of what was read than the command allows.
    fn check_answer(&self, decision: &Decision, answer: Answer) -> Result<(), Error> {
        let bytes = || {
            let bytes = decision.read_bytes(&self.namespace);
            let missing = match &decision.reply {
                _ if bytes == 0 => 0,
                Reply::Existing(view) | Reply::Unchanged(view) if view.timer().is_none() => 0,
                _ => self.missing_bytes(),
            };
            bytes + missing
        };
        Ok(answer.check(bytes)?)
    }

    /// Returns the context for the core. A store checks quotas with the write.
    pub(crate) fn context(&self, random: u64) -> Context<'_> {
        let usage = Usage { dead: self.dead, ..Usage::default() };
        let context = context_of(&self.namespace, &self.settings, self.now);
        Context { usage, random, ..context }
    }

    /// Returns the draft of a decision that changes something.
    pub fn draft(&self, decision: &Decision) -> Option<Draft> {
        let draft = self.draft_of(decision.effect.as_ref()?, decision.shows_stored_content);
        Some(Draft { quota_use: decision.quota_use, ..draft })
    }

    /// Returns the draft of an effect. If the payload is kept and stored apart, it stays or moves along.
    fn draft_of(&self, effect: &Effect, keeps_payload: bool) -> Draft {
        let live = self.live.as_ref().map(|live| &live.record);
        let apart_of = |record: Option<&Record>| record.and_then(|record| record.apart.clone());
        let with = |timer: &Timer, apart: Option<SeparatePayload>| {
            Box::new(Record { apart, ..Record::of(timer.clone()) })
        };
        let counts = effect.totals();
        match effect {
            Effect::Put(cause, timer) => {
                let apart = match cause {
                    Cause::Created | Cause::Replaced => None,
                    Cause::Redriven => apart_of(self.dead_letter.as_ref()),
                    _ if keeps_payload => apart_of(live),
                    _ => None,
                };
                Draft {
                    live: Some(LiveChange::Put(with(timer, apart))),
                    drop_tombstone: self.has_tombstone_row,
                    removes_dead_letter: *cause == Cause::Redriven,
                    counts,
                    ..Draft::default()
                }
            }
            Effect::DeadLetter(Cause::Imported, timer) => {
                Draft { dead_letter: Some(with(timer, None)), counts, ..Draft::default() }
            }
            Effect::DeadLetter(_, timer) => Draft {
                live: Some(LiveChange::Removed),
                dead_letter: Some(with(timer, apart_of(live))),
                counts,
                ..Draft::default()
            },
            Effect::End(tombstone) => Draft {
                live: Some(LiveChange::Removed),
                ended: Some((**tombstone).clone()),
                counts,
                ..Draft::default()
            },
            Effect::Stop(_) => {
                let stopped = live.map(|record| Record { stopped: true, ..record.clone() });
                let live = stopped.map(|record| LiveChange::Stopped(Box::new(record)));
                Draft { live, ..Draft::default() }
            }
            Effect::Forget => Draft { drop_tombstone: true, counts, ..Draft::default() },
            Effect::Purge => Draft { removes_dead_letter: true, counts, ..Draft::default() },
            Effect::Extend(by) => {
                Draft { live: Some(LiveChange::Extended(*by)), ..Draft::default() }
            }
        }
    }

    /// Returns the draft of what must be written because of the clock, if anything.
    pub fn due(&self) -> Option<Draft> {
        let effect = self.live.as_ref()?.due(&self.context(0))?;
        Some(self.draft_of(&effect, true))
    }

    /// Returns the draft that ends the lease of a node that is gone.
    pub fn lose_node(&self, live: &LiveTimer) -> Option<Draft> {
        let effect = live.lose_lease(LeaseLoss::NodeGone, self.now, &self.context(0))?;
        Some(self.draft_of(&effect, true))
    }

    /// Returns the draft that hands back a firing which its claimer did not get.
    pub fn hand_back(&self, live: &LiveTimer) -> Option<Draft> {
        let timer = Box::new(live.record.timer.clone());
        let held = live.held(self.now)?;
        let (effect, _) = settle::settle(timer, &held, &SettleVerdict::Release, &self.context(0));
        Some(self.draft_of(&effect?, true))
    }

    /// Returns `true` if the lease of this token is held.
    pub fn holds(&self, nonce: u64) -> bool {
        let lease = self.live.as_ref().and_then(|live| live.lease);
        lease.is_some_and(|lease| lease.nonce == nonce)
    }

    /// Decides what a settlement does. The case must be up to date with the clock.
    pub fn decide_settlement(&self, nonce: u64, verdict: &SettleVerdict) -> SettleDecision {
        let held = self.live.as_ref().and_then(|live| Some((live, live.held(self.now)?)));
        let Some((live, held)) = held.filter(|(_, held)| held.nonce == nonce) else {
            let records = [
                self.live.as_ref().map(|live| &live.record.timer),
                self.dead_letter.as_ref().map(|letter| &letter.timer),
                self.other_dead_letter.as_ref(),
            ];
            let known = records.into_iter().flatten().map(|timer| timer.last_settled);
            let tombstone = self.tombstone.as_ref().map(Tombstone::settled);
            let outcome = settled_before(known.chain(tombstone), nonce, verdict);
            return SettleDecision::Answer(outcome);
        };
        let timer = Box::new(live.record.timer.clone());
        match settle::settle(timer, &held, verdict, &self.context(0)) {
            (Some(effect), outcome) => {
                SettleDecision::Write(Box::new(self.draft_of(&effect, true)), outcome)
            }
            (None, outcome) => SettleDecision::Answer(outcome),
        }
    }
}

impl LiveTimer {
    /// Returns the effect of the clock, if any: on a lease past its end, or a firing past `expire_after`.
    /// An ended lease counts as lost at the time when it ended.
    fn due(&self, context: &Context<'_>) -> Option<Effect> {
        let now = context.now.wall;
        match self.lease {
            Some(lease) if lease.is_over(now) => {
                self.lose_lease(LeaseLoss::Ended, lease.until().unwrap_or(now), context)
            }
            Some(_) => None,
            None => expire(Box::new(self.record.timer.clone()), context).ok(),
        }
    }

    /// Returns the effect of a lease that ends without a settlement.
    fn lose_lease(
        &self,
        loss: LeaseLoss,
        since: Timestamp,
        context: &Context<'_>,
    ) -> Option<Effect> {
        let timer = Box::new(self.record.timer.clone());
        Some(lose_lease(timer, &self.held(context.now.wall)?, loss, since, context))
    }

    /// Returns the view at the present clock: what the clock has ended counts as ended, and may leave nothing.
    pub fn view_by_clock(&self, context: &Context<'_>) -> Option<TimerView> {
        let (namespace, now) = (context.namespace, context.now.wall);
        match self.due(context) {
            Some(Effect::End(tombstone)) => {
                let is_kept = context.settings.retention > Millis::ZERO;
                is_kept.then(|| TimerView::tombstone(namespace.clone(), *tombstone))
            }
            Some(effect) => effect.into_view(namespace, now),
            None => Some(self.view(namespace, now)),
        }
    }

    /// Returns the lease in the core's form.
    pub fn held(&self, now: Timestamp) -> Option<HeldLease> {
        let lease = self.lease?;
        Some(HeldLease {
            nonce: lease.nonce,
            attempt: self.record.timer.attempts.saturating_add(1),
            claimed_at: lease.since,
            held_for: now.saturating_since(lease.since).to_std(),
            ends: lease.until().is_some(),
            stopped: self.record.stopped,
        })
    }
}

/// Returns the context for the core in which nothing is used. There is one clock.
pub fn context_of<'a>(
    namespace: &'a NamespaceName,
    settings: &'a Settings,
    now: Timestamp,
) -> Context<'a> {
    let (usage, now) = (Usage::default(), Now { wall: now, steady: now });
    Context { namespace, settings, usage, now, random: 0 }
}
