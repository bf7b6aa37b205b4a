//! What callers ask of single timers: schedule, reschedule, cancel, fire.

use std::sync::Arc;

use duly_core::{
    Destination, Incarnation, Schedule, State, Timer, TimerId, Timestamp,
    lifecycle::{Decision, Event, Request, decide},
    request_hash::RequestHash,
    schedule::{Change, IfExists, Patch},
};
use duly_store::{Answer, Command, Error, Operation, Outcome, Refusal, TimerView, query::Body};

use super::{Case, Draft, Live, state_refusal};
use crate::{rate::Pace, record::Record};

/// What is to be done about an operation.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing: this is the answer.
    Answer(Outcome),
    /// Write this; if nothing has changed meanwhile, this is the answer.
    Write(Box<Draft>, Outcome),
}

/// Lanes whose number does not depend on the namespace: of timers that follow its destination, and
/// of those that are pulled. The scripts give every origin its own.
const FOLLOW: u8 = 0;
const PULL: u8 = 1;

/// The number of the lane to this destination; of an origin the scripts work it out.
pub(crate) const fn lane_number(destination: Option<&Destination>) -> u8 {
    match destination {
        None => FOLLOW,
        Some(_) => PULL,
    }
}

impl Case {
    /// Refuses a step whose answer would show more of what was read than the command allows.
    pub(crate) fn check_answer(&self, command: &Command, step: &Step) -> Result<(), Error> {
        let (Step::Answer(outcome) | Step::Write(_, outcome)) = step;
        match (command.answer, &command.operation, outcome) {
            (_, Operation::Reschedule { patch, .. }, _) if !patch.payload.is_keep() => Ok(()),
            (
                Answer::Within(bytes_max),
                _,
                Outcome::Existing(view) | Outcome::Changed(view) | Outcome::Unchanged(view),
            ) => self.check_memory(view, bytes_max),
            _ => Ok(()),
        }
    }

    /// What an operation on this id does. The case has been brought up to the clock.
    pub(crate) fn decide(
        &self,
        operation: &Operation,
        incarnation: Incarnation,
    ) -> Result<Step, Refusal> {
        match operation {
            Operation::Schedule { schedule, if_exists } => {
                self.schedule(schedule, *if_exists, incarnation)
            }
            Operation::Import { timer } => self.import(timer),
            Operation::Reschedule { patch, if_revision, .. } => {
                self.reschedule(patch, *if_revision)
            }
            Operation::Cancel { if_revision, .. } => self.cancel(*if_revision),
            Operation::CancelSeen { id, seen } => match self.view() {
                Some(view) if seen.is(&view) => self.cancel(None),
                _ => Err(Refusal::NotFound(id.to_string())),
            },
            Operation::Fire { .. } => self.fire(),
            Operation::DeadLetter { if_due_by, .. } => self.dead_letter_overdue(*if_due_by),
            Operation::Redrive { letter, delay } => self.redrive(letter, *delay),
            Operation::Purge { letter } => self.purge(letter),
        }
    }

    fn schedule(
        &self,
        schedule: &Schedule,
        if_exists: IfExists,
        incarnation: Incarnation,
    ) -> Result<Step, Refusal> {
        let old = self.view();
        let request = match old.as_ref().and_then(request_hash) {
            Some(hash) if hash == RequestHash::of(schedule) => Request::Same,
            _ => Request::Other(if_exists),
        };
        let state = old.as_ref().map(|view| view.state);
        let bytes = schedule.payload_bytes();
        let asked = schedule.clone();
        let (timer, one_more, outcome): (Timer, bool, fn(Arc<TimerView>) -> Outcome) =
            match (decide(state, Event::Schedule(request)), old) {
                (Decision::Existing, Some(old)) => {
                    return Ok(Step::Answer(Outcome::Existing(Arc::new(old))));
                }
                (Decision::Create, _) => {
                    self.admit(bytes, Some(schedule.when))?;
                    let timer = Timer::new(asked, self.now, incarnation);
                    (timer.map_err(Refusal::Invalid)?, true, Outcome::Created)
                }
                (Decision::Replace, Some(old)) => {
                    self.admit(bytes, Some(schedule.when))?;
                    let revision = old.revision().unwrap_or(0);
                    let timer = Timer::replacing(revision, asked, self.now, incarnation);
                    (timer.map_err(Refusal::Invalid)?, false, Outcome::Replaced)
                }
                (decision, old) => return Err(self.refusal(decision, old.as_ref())),
            };
        let lane = lane_number(timer.destination.as_ref());
        let record = Record::new(timer, lane);
        let view = self.view_of(&record);
        let draft = Draft { one_more, rate: Some(Pace::Ask), ..self.make_live(record) };
        Ok(Step::Write(Box::new(draft.counting("scheduled")), outcome(view)))
    }

    /// The record becomes the live timer of the id, in the place of its tombstone.
    pub(super) fn make_live(&self, record: Record) -> Draft {
        Draft { drop_tombstone: !self.seen.tombstone.is_empty(), ..Draft::put(record) }
    }

    /// How a record will be seen when nobody holds it.
    pub(super) fn view_of(&self, record: &Record) -> Arc<TimerView> {
        let live = Live { record: record.clone(), lease: None };
        Arc::new(live.view(&self.control.name, self.now))
    }

    fn reschedule(&self, patch: &Patch, if_revision: Option<u32>) -> Result<Step, Refusal> {
        let old = self.view();
        check_revision(old.as_ref(), if_revision)?;
        let live = match (decide(old.as_ref().map(|v| v.state), Event::Reschedule), &self.live) {
            (Decision::Change, Some(live)) => live,
            (decision, _) => return Err(self.refusal(decision, old.as_ref())),
        };
        self.admit(patch.payload_bytes(), patch.when)?;
        let mut record = live.record.clone();
        if !patch.payload.is_keep() {
            record.apart = None;
            record.timer.payload = None;
        }
        if !patch.destination.is_keep() {
            let destination = match &patch.destination {
                Change::Set(destination) => Some(destination),
                Change::Keep | Change::Reset => None,
            };
            record.lane = lane_number(destination);
        }
        record.timer.change(patch.clone(), self.now).map_err(Refusal::Invalid)?;
        let view = self.view_of(&record);
        let draft = Draft::put(record).counting("rescheduled");
        Ok(Step::Write(Box::new(draft), Outcome::Changed(view)))
    }

    fn cancel(&self, if_revision: Option<u32>) -> Result<Step, Refusal> {
        let old = self.view();
        check_revision(old.as_ref(), if_revision)?;
        let decision = decide(old.as_ref().map(|view| view.state), Event::Cancel);
        let (Decision::Move(State::Cancelled) | Decision::Already, Some(old)) = (decision, &old)
        else {
            return Err(self.refusal(decision, old.as_ref()));
        };
        let already = decision == Decision::Already;
        let (attempts, maybe_delivered) = (old.attempts(), old.maybe_delivered());
        let outcome = Outcome::Cancelled { attempts, maybe_delivered, already };
        if already {
            return Ok(Step::Answer(outcome));
        }
        let draft = Draft { cancelled: true, ..Draft::gone() }.counting("cancelled");
        Ok(Step::Write(Box::new(draft), outcome))
    }

    fn fire(&self) -> Result<Step, Refusal> {
        let old = self.view();
        let decision = decide(old.as_ref().map(|view| view.state), Event::Fire);
        let live = match (decision, &self.live, old) {
            (Decision::Change | Decision::Move(State::Retrying), Some(live), _) => live,
            (Decision::Already, _, Some(old)) => {
                return Ok(Step::Answer(Outcome::Unchanged(Arc::new(old))));
            }
            (decision, _, old) => return Err(self.refusal(decision, old.as_ref())),
        };
        let mut record = live.record.clone();
        record.timer.fire_now(self.now);
        let view = self.view_of(&record);
        let draft = Draft::put(record).counting("rescheduled");
        Ok(Step::Write(Box::new(draft), Outcome::Changed(view)))
    }

    pub(super) fn refusal(&self, decision: Decision, view: Option<&TimerView>) -> Refusal {
        match (decision, view) {
            (Decision::Refuse(code), Some(view)) => state_refusal(view, code),
            _ => Refusal::NotFound(self.id.to_string()),
        }
    }
}

/// The timer that a schedule over a free id makes, as the node knows it before the store's clock
/// does: with a delay counted from the beginning of time.
///
/// # Errors
/// When the due time lies past 2200-01-01 whatever the clock says.
pub(crate) fn fresh(
    schedule: &Schedule,
    incarnation: Incarnation,
) -> Result<Record, duly_core::Invalid> {
    let timer = Timer::new(schedule.clone(), Timestamp::MIN, incarnation)?;
    let lane = lane_number(timer.destination.as_ref());
    Ok(Record::new(timer, lane))
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

/// The id that an operation names; none when it names a dead letter by its delivery id.
pub(crate) const fn id_of(operation: &Operation) -> Option<&TimerId> {
    use duly_store::command::Letter;
    match operation {
        Operation::Schedule { schedule, .. } => Some(&schedule.id),
        Operation::Import { timer } => Some(&timer.id),
        Operation::Reschedule { id, .. }
        | Operation::Cancel { id, .. }
        | Operation::CancelSeen { id, .. }
        | Operation::Fire { id }
        | Operation::DeadLetter { id, .. }
        | Operation::Redrive { letter: Letter::Timer(id), .. }
        | Operation::Purge { letter: Letter::Timer(id) } => Some(id),
        Operation::Redrive { letter: Letter::Delivery(_), .. }
        | Operation::Purge { letter: Letter::Delivery(_) } => None,
    }
}
