//! Timers and dead letters that come from another store as they were there.
//!
//! The case of an import was read with the dead letter of the same firing, if there is one, in
//! `other`.

use std::sync::Arc;

use duly_core::{
    State, Timer,
    lifecycle::{Decision, Event, Imported, decide},
    schedule::When,
};
use duly_store::{Outcome, Refusal, TimerView};

use super::{
    Case, Draft, Payload,
    operation::{Step, lane_number},
};
use crate::record::Record;

impl Case {
    pub(super) fn import(&self, timer: &Timer) -> Result<Step, Refusal> {
        let record = Record::new(timer.clone(), lane_number(timer.destination.as_ref()));
        let known_letter = self
            .other
            .as_ref()
            .map(|letter| TimerView::whole(self.control.name.clone(), State::Dead, letter.clone()));
        if timer.dead_letter.is_some() {
            return self.import_letter(record, known_letter);
        }
        if let Some(letter) = known_letter {
            return Ok(Step::Answer(Outcome::Existing(Arc::new(letter))));
        }
        let old = self.view();
        let is_known = old.as_ref().is_some_and(|old| old.is_of(timer));
        let imported = if is_known { Imported::Known } else { Imported::New };
        match (decide(old.as_ref().map(|view| view.state), Event::Import(imported)), old) {
            (Decision::Existing, Some(old)) => {
                return Ok(Step::Answer(Outcome::Existing(Arc::new(old))));
            }
            (Decision::Create, _) => {}
            (decision, old) => return Err(self.refusal(decision, old.as_ref())),
        }
        self.admit(timer.payload_bytes(), Some(When::At(timer.due_at)))?;
        let view = self.view_of(&record);
        let draft = Draft { one_more: true, ..self.make_live(record) };
        Ok(Step::Write(Box::new(draft.counting("scheduled")), Outcome::Created(view)))
    }

    fn import_letter(
        &self,
        record: Record,
        known_letter: Option<TimerView>,
    ) -> Result<Step, Refusal> {
        let own = self.view().filter(|view| view.is_of_firing(&record.timer));
        let known = known_letter.or(own);
        let state = known.as_ref().map(|view| view.state);
        if let (Decision::Existing, Some(known)) =
            (decide(state, Event::Import(Imported::Known)), known)
        {
            return Ok(Step::Answer(Outcome::Existing(Arc::new(known))));
        }
        let timer = &record.timer;
        self.admit(timer.payload_bytes(), Some(When::At(timer.due_at)))?;
        self.admit_one_more_letter()?;
        let view = Arc::new(self.letter_view(&record));
        let bury = Some((Box::new(record), Payload::Inline));
        let draft = Draft { bury, one_letter: true, ..Draft::default() }.counting("dead");
        Ok(Step::Write(Box::new(draft), Outcome::Created(view)))
    }
}
