//! What callers ask of single timers: schedule, reschedule, cancel, fire.

use std::sync::Arc;

use duly_core::{
    Code, Incarnation, Schedule, Timer, TimerId,
    lifecycle::{Decision, Event, Request, State, decide},
    request_hash::RequestHash,
    schedule::{IfExists, Patch, When},
    tombstone::Ended,
};

use super::{
    clock::Now,
    space::{Live, Space},
};
use crate::{Answer, Operation, Outcome, Refusal, TimerView, query::Body, random::SplitMix64};

impl Space {
    pub(super) fn apply(
        &mut self,
        operation: Operation,
        answer: Answer,
        random: &mut SplitMix64,
        now: Now,
    ) -> Result<Outcome, Refusal> {
        match operation {
            Operation::Schedule { schedule, if_exists } => {
                self.schedule(*schedule, if_exists, answer, random, now)
            }
            Operation::Import { timer } => self.import(*timer, now),
            Operation::Reschedule { id, patch, if_revision } => {
                self.reschedule(&id, *patch, if_revision, answer, now)
            }
            Operation::Cancel { id, if_revision } => self.cancel(&id, if_revision, now),
            Operation::CancelSeen { id, seen } => match self.view(&id, now) {
                Some(view) if seen.is(&view) => self.cancel(&id, None, now),
                _ => Err(Refusal::NotFound(id.to_string())),
            },
            Operation::Fire { id } => self.fire(&id, answer, now),
            Operation::DeadLetter { id, if_due_by } => {
                self.dead_letter_overdue(&id, if_due_by, now)
            }
            Operation::Redrive { letter, delay } => self.redrive(&letter, delay, now),
            Operation::Purge { letter } => self.purge(&letter),
        }
    }

    fn schedule(
        &mut self,
        schedule: Schedule,
        if_exists: IfExists,
        answer: Answer,
        random: &mut SplitMix64,
        now: Now,
    ) -> Result<Outcome, Refusal> {
        let id = schedule.id.clone();
        let old = self.view(&id, now);
        let request = match old.as_ref().and_then(request_hash) {
            Some(hash) if hash == RequestHash::of(&schedule) => Request::Same,
            _ => Request::Other(if_exists),
        };
        let state = old.as_ref().map(|view| view.state);
        let (timer, outcome): (Timer, fn(Arc<TimerView>) -> Outcome) =
            match (decide(state, Event::Schedule(request)), old) {
                (Decision::Existing, Some(old)) => {
                    return Ok(shown(answer, old, Outcome::Existing));
                }
                (Decision::Create, _) => {
                    self.admit(schedule.payload_bytes(), Some(schedule.when), now)?;
                    self.admit_one_more()?;
                    let incarnation = Incarnation(random.next_u64());
                    let timer = Timer::new(schedule, now.wall, incarnation);
                    (timer.map_err(Refusal::Invalid)?, Outcome::Created)
                }
                (Decision::Replace, Some(old)) => {
                    self.admit(schedule.payload_bytes(), Some(schedule.when), now)?;
                    let revision = old.revision().unwrap_or(0);
                    let incarnation = Incarnation(random.next_u64());
                    let timer = Timer::replacing(revision, schedule, now.wall, incarnation);
                    (timer.map_err(Refusal::Invalid)?, Outcome::Replaced)
                }
                (decision, old) => return Err(refusal(decision, old.as_ref(), &id)),
            };
        self.admit_schedule(now)?;
        self.learn_origin(timer.destination.as_ref());
        self.tombstones.remove(&id);
        self.live.insert(id.clone(), Live { timer, lease: None });
        self.totals.scheduled += 1;
        Ok(outcome(self.arc_view(&id, now)))
    }

    fn reschedule(
        &mut self,
        id: &TimerId,
        patch: Patch,
        if_revision: Option<u32>,
        answer: Answer,
        now: Now,
    ) -> Result<Outcome, Refusal> {
        let old = self.view(id, now);
        check_revision(old.as_ref(), if_revision)?;
        match (decide(old.as_ref().map(|view| view.state), Event::Reschedule), &old) {
            (Decision::Change, Some(old)) if patch.payload.is_keep() => {
                if let Err(error) = answer.check(old) {
                    return Ok(Outcome::Failed(error));
                }
            }
            (Decision::Change, _) => {}
            (decision, old) => return Err(refusal(decision, old.as_ref(), id)),
        }
        self.admit(patch.payload_bytes(), patch.when, now)?;
        if let Some(live) = self.live.get_mut(id) {
            live.timer.change(patch, now.wall).map_err(Refusal::Invalid)?;
            let destination = live.timer.destination.clone();
            self.learn_origin(destination.as_ref());
        }
        self.totals.rescheduled += 1;
        Ok(Outcome::Changed(self.arc_view(id, now)))
    }

    fn cancel(
        &mut self,
        id: &TimerId,
        if_revision: Option<u32>,
        now: Now,
    ) -> Result<Outcome, Refusal> {
        let old = self.view(id, now);
        check_revision(old.as_ref(), if_revision)?;
        let decision = decide(old.as_ref().map(|view| view.state), Event::Cancel);
        let (Decision::Move(State::Cancelled) | Decision::Already, Some(old)) = (decision, &old)
        else {
            return Err(refusal(decision, old.as_ref(), id));
        };
        if decision != Decision::Already {
            let timer = self.take_live(id);
            self.end(&timer, Ended::Cancelled, now);
            self.totals.cancelled += 1;
        }
        Ok(Outcome::Cancelled {
            attempts: old.attempts(),
            maybe_delivered: old.maybe_delivered(),
            already: decision == Decision::Already,
        })
    }

    fn fire(&mut self, id: &TimerId, answer: Answer, now: Now) -> Result<Outcome, Refusal> {
        let old = self.view(id, now);
        // A retry's time is written in the steady clock, a due time in the wall clock.
        let decision = decide(old.as_ref().map(|view| view.state), Event::Fire);
        if let (Decision::Change | Decision::Move(_), Some(old)) = (decision, &old)
            && let Err(error) = answer.check(old)
        {
            return Ok(Outcome::Failed(error));
        }
        let at = match (decision, old) {
            (Decision::Change, _) => now.wall,
            (Decision::Move(State::Retrying), _) => now.steady,
            (Decision::Already, Some(old)) => return Ok(shown(answer, old, Outcome::Unchanged)),
            (decision, old) => return Err(refusal(decision, old.as_ref(), id)),
        };
        if let Some(live) = self.live.get_mut(id) {
            live.timer.fire_now(at);
            live.timer.updated_at = now.wall;
        }
        self.totals.rescheduled += 1;
        Ok(Outcome::Changed(self.arc_view(id, now)))
    }

    /// What a namespace's limits say of a payload and a due time.
    pub(super) fn admit(
        &self,
        payload_bytes: u64,
        when: Option<When>,
        now: Now,
    ) -> Result<(), Refusal> {
        let admitted = self.settings.limits.admit(payload_bytes, when, now.wall);
        admitted.map_err(|exceeded| Refusal::exceeded(&self.name, exceeded))
    }

    pub(super) fn admit_one_more(&self) -> Result<(), Refusal> {
        match self.settings.limits.max_pending {
            Some(max) if self.live.len() as u64 >= max => {
                Err(Refusal::pending_full(&self.name, max))
            }
            _ => Ok(()),
        }
    }

    /// Takes one of the schedules that the namespace's rate allows.
    fn admit_schedule(&mut self, now: Now) -> Result<(), Refusal> {
        let Some(rate) = self.settings.limits.schedule_rate() else {
            return Ok(());
        };
        if self.schedules.available(rate, now.boot) == 0 {
            let wait = self.schedules.next_in(rate, now.boot);
            return Err(Refusal::schedules_too_fast(&self.name, rate.per_second(), wait));
        }
        self.schedules.take(rate, now.boot, 1);
        Ok(())
    }

    pub(super) fn arc_view(&self, id: &TimerId, now: Now) -> Arc<TimerView> {
        Arc::new(self.view_live(&self.live[id], now))
    }
}

/// The outcome that changes nothing and shows a timer, if its answer may.
fn shown(answer: Answer, view: TimerView, outcome: fn(Arc<TimerView>) -> Outcome) -> Outcome {
    match answer.check(&view) {
        Ok(()) => outcome(Arc::new(view)),
        Err(error) => Outcome::Failed(error),
    }
}

fn request_hash(view: &TimerView) -> Option<RequestHash> {
    match &view.body {
        Body::Whole(timer) => Some(timer.request_hash),
        Body::Tombstone(tombstone) => {
            tombstone.details.as_ref().map(|details| details.request_hash)
        }
    }
}

/// A tombstone answers by its state, whatever revision is asked for.
fn check_revision(view: Option<&TimerView>, if_revision: Option<u32>) -> Result<(), Refusal> {
    match (view.and_then(TimerView::timer), if_revision) {
        (Some(timer), Some(expected)) if timer.revision != expected => {
            Err(Refusal::Revision { id: timer.id.clone(), expected, actual: timer.revision })
        }
        _ => Ok(()),
    }
}

pub(super) fn refusal(decision: Decision, view: Option<&TimerView>, id: &TimerId) -> Refusal {
    match (decision, view) {
        (Decision::Refuse(code), Some(view)) => state_refusal(view, code),
        (Decision::Refuse(_), None) => Refusal::NotFound(id.to_string()),
        (other, _) => unreachable!("the caller handles every decision but a refusal: {other:?}"),
    }
}

pub(super) fn state_refusal(view: &TimerView, code: Code) -> Refusal {
    Refusal::State {
        id: view.id().clone(),
        state: view.state,
        code,
        leased_until: view.leased_until,
        attempts: view.attempts(),
        maybe_delivered: view.maybe_delivered(),
    }
}
