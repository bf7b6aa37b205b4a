//! Timers and dead letters that come from another store as they were there.

use std::sync::Arc;

use duly_core::{
    Timer,
    lifecycle::{Decision, Event, Imported, decide},
    schedule::When,
};

use super::{
    apply::refusal,
    clock::Now,
    space::{Live, Numbered, Space},
};
use crate::{Outcome, Refusal};

impl Space {
    pub(super) fn import(&mut self, timer: Timer, now: Now) -> Result<Outcome, Refusal> {
        if timer.dead_letter.is_some() {
            return self.import_letter(timer, now);
        }
        if let Some(letter) = self.dead.get(&timer.delivery_id(self.name.as_str())) {
            return Ok(Outcome::Existing(Arc::new(self.view_dead(&letter.value))));
        }
        let id = timer.id.clone();
        let old = self.view(&id, now);
        let is_known = old.as_ref().is_some_and(|old| old.is_of(&timer));
        let imported = if is_known { Imported::Known } else { Imported::New };
        match (decide(old.as_ref().map(|view| view.state), Event::Import(imported)), old) {
            (Decision::Existing, Some(old)) => return Ok(Outcome::Existing(Arc::new(old))),
            (Decision::Create, _) => {}
            (decision, old) => return Err(refusal(decision, old.as_ref(), &id)),
        }
        self.admit(timer.payload_bytes(), Some(When::At(timer.due_at)), now)?;
        self.admit_one_more()?;
        self.learn_origin(timer.destination.as_ref());
        self.tombstones.remove(&id);
        self.live.insert(id.clone(), Live { timer, lease: None });
        self.totals.scheduled += 1;
        Ok(Outcome::Created(self.arc_view(&id, now)))
    }

    fn import_letter(&mut self, timer: Timer, now: Now) -> Result<Outcome, Refusal> {
        let letter = timer.delivery_id(self.name.as_str());
        let own = self.view(&timer.id, now).filter(|view| view.is_of_firing(&timer));
        let known = self.dead.get(&letter).map(|letter| self.view_dead(&letter.value)).or(own);
        let state = known.as_ref().map(|view| view.state);
        if let (Decision::Existing, Some(known)) =
            (decide(state, Event::Import(Imported::Known)), known)
        {
            return Ok(Outcome::Existing(Arc::new(known)));
        }
        self.admit(timer.payload_bytes(), Some(When::At(timer.due_at)), now)?;
        let max_dead = self.settings.limits.max_dead;
        if self.dead.len() as u64 >= max_dead {
            return Err(Refusal::dead_letters_full(&self.name, max_dead));
        }
        let view = self.view_dead(&timer);
        let number = self.number_next();
        self.dead.insert(letter, Numbered { number, value: timer });
        self.totals.dead += 1;
        Ok(Outcome::Created(Arc::new(view)))
    }
}
