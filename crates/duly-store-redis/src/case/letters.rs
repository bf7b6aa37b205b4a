//! Dead letters: made when a firing is given up, redriven or purged by an operator.

use std::sync::Arc;

use duly_core::{
    Code, Invalid, Millis, State, Timestamp,
    lifecycle::{Decision, Event, decide},
    timer::DeadLetterReason,
};
use duly_store::{Outcome, Refusal, command::Letter as Named};

use super::{Case, Draft, Letter, operation::Step, state_refusal};

impl Case {
    pub(super) fn dead_letter_overdue(&self, if_due_by: Timestamp) -> Result<Step, Refusal> {
        let old = self.view().ok_or_else(|| Refusal::NotFound(self.id.to_string()))?;
        let live = match (decide(Some(old.state), Event::Overdue), &self.live) {
            (Decision::Already, _) => {
                return Ok(Step::Answer(Outcome::Unchanged(Arc::new(old))));
            }
            (Decision::Move(State::Dead), Some(live)) if old.due_at() <= if_due_by => live,
            (Decision::Refuse(code), _) => return Err(state_refusal(&old, code)),
            _ => return Err(state_refusal(&old, Code::AlreadyExists)),
        };
        self.admit_one_more_letter()?;
        let mut record = live.record.clone();
        let buried = self.bury(record.clone(), DeadLetterReason::Overdue);
        let draft = Draft { one_letter: true, ..buried };
        record.timer.die(self.now, DeadLetterReason::Overdue);
        let view = Arc::new(self.letter_view(&record));
        Ok(Step::Write(Box::new(draft), Outcome::Changed(view)))
    }

    /// Refuses a dead letter past the limit; what this shard may have of it the script knows.
    pub(super) fn admit_one_more_letter(&self) -> Result<(), Refusal> {
        let max_dead = self.settings().limits.max_dead;
        if self.dead < max_dead {
            return Ok(());
        }
        Err(Refusal::dead_letters_full(&self.control.name, max_dead))
    }

    pub(super) fn redrive(&self, named: &Named, delay: Millis) -> Result<Step, Refusal> {
        let letter = self.find_letter(named, Event::Redrive)?;
        if let Some(live) = &self.live {
            let view = live.view(&self.control.name, self.now);
            return Err(state_refusal(&view, Code::AlreadyExists));
        }
        let at = self.now.checked_add(delay).ok_or_else(|| past_2200(delay))?;
        let mut record = letter.record.clone();
        record.timer.redrive(at);
        let view = self.view_of(&record);
        let draft = Draft { take: true, ..self.make_live(record) };
        Ok(Step::Write(Box::new(draft), Outcome::Changed(view)))
    }

    pub(super) fn purge(&self, named: &Named) -> Result<Step, Refusal> {
        self.find_letter(named, Event::Purge)?;
        let draft = Draft { take: true, ..Draft::default() };
        Ok(Step::Write(Box::new(draft), Outcome::Purged))
    }

    fn find_letter(&self, named: &Named, event: Event) -> Result<&Letter, Refusal> {
        let found = self.letter.as_ref();
        match (decide(found.map(|_| State::Dead), event), found) {
            (Decision::Move(_) | Decision::Remove, Some(letter)) => Ok(letter),
            _ => Err(not_found(named)),
        }
    }
}

/// That there is no such dead letter.
pub(crate) fn not_found(named: &Named) -> Refusal {
    Refusal::NotFound(match named {
        Named::Timer(id) => id.to_string(),
        Named::Delivery(delivery_id) => delivery_id.to_string(),
    })
}

fn past_2200(delay: Millis) -> Refusal {
    let allowed = format!("short enough that the timer is due before {}", Timestamp::MAX);
    Refusal::Invalid(Invalid::new("delay", delay, allowed))
}
