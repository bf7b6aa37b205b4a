//! Timers and dead letters that come from another store as they were there.

use std::sync::Arc;

use duly_core::{
    NamespaceName, Timer,
    lifecycle::{self, Decision, Event, Imported},
    schedule::When,
};
use duly_store::{Outcome, Refusal, TimerView};

use crate::{
    format::record::{Cause, Record},
    index::Key,
};

use super::{
    Engine, Stop, letters,
    schedule::{check_limits, check_pending},
    view::Known,
};

impl Engine {
    /// Takes a timer as it is, unless it has been here before.
    pub(super) fn import(
        &mut self,
        key: Key,
        name: &NamespaceName,
        timer: Box<Timer>,
    ) -> Result<Outcome, Stop> {
        if timer.dead_letter.is_some() {
            return self.import_letter(key, name, timer);
        }
        if let Some(letter) = self.letter_of_firing(key, name, &timer)? {
            return Ok(Outcome::Existing(Arc::new(letter)));
        }
        let known = self.look_up(key);
        let old = self.readable(name, known)?;
        let is_known = old.as_ref().is_some_and(|old| old.is_of(&timer));
        let imported = if is_known { Imported::Known } else { Imported::New };
        let state = old.as_ref().map(|view| view.state);
        match (lifecycle::decide(state, Event::Import(imported)), old) {
            (Decision::Existing, Some(old)) => return Ok(Outcome::Existing(Arc::new(old))),
            (Decision::Refuse(code), Some(old)) => {
                return Err(Stop::Refused(self.refuse_state(&timer.id, &old, code)));
            }
            _ => {}
        }
        let namespace = self.namespace(key.namespace());
        let (settings, pending) = (Arc::clone(&namespace.settings), namespace.pending());
        self.admit_new().map_err(Stop::Refused)?;
        check_limits(&settings, name, given(&timer), self.now.wall())?;
        check_pending(&settings, pending, name)?;
        let record = Record::Pending(Cause::Created, timer);
        self.write_keyed(key, &record)?;
        Ok(Outcome::Created(self.view_of(name, record)))
    }

    /// Takes a dead letter as it is, unless its firing has been here before; whatever lives under its
    /// id stays.
    fn import_letter(
        &mut self,
        key: Key,
        name: &NamespaceName,
        timer: Box<Timer>,
    ) -> Result<Outcome, Stop> {
        let known = self.look_up(key);
        let old = match self.letter_of_firing(key, name, &timer)? {
            Some(letter) => Some(letter),
            None => self.readable(name, known)?.filter(|old| old.is_of_firing(&timer)),
        };
        let state = old.as_ref().map(|view| view.state);
        let event = Event::Import(Imported::Known);
        if let (Decision::Existing, Some(old)) = (lifecycle::decide(state, event), old) {
            return Ok(Outcome::Existing(Arc::new(old)));
        }
        let number = key.namespace();
        let namespace = self.namespace(number);
        let (settings, dead) = (Arc::clone(&namespace.settings), namespace.dead());
        self.admit_new().map_err(Stop::Refused)?;
        check_limits(&settings, name, given(&timer), self.now.wall())?;
        let max_dead = settings.limits.max_dead;
        if dead >= max_dead {
            return Err(Stop::Refused(Refusal::dead_letters_full(name, max_dead)));
        }
        let record = Record::Dead(Cause::Imported, timer);
        self.write_keyed(key, &record)?;
        let Record::Dead(_, timer) = record else { unreachable!("it was made above") };
        let view = TimerView::whole(name.clone(), duly_core::State::Dead, *timer);
        Ok(Outcome::Created(Arc::new(view)))
    }

    /// The dead letter of the firing that a timer is at, if there is one.
    fn letter_of_firing(
        &mut self,
        key: Key,
        name: &NamespaceName,
        timer: &Timer,
    ) -> Result<Option<TimerView>, Stop> {
        let number = key.namespace();
        let letter = letters::key_of(self.hash_key, number, timer.delivery_id(name.as_str()));
        let location = self.namespace(number).letters.get(letter);
        let known = location.map_or(Known::Nothing, Known::Dead);
        Ok(self.readable(name, known)?.filter(|letter| letter.is_of_firing(timer)))
    }
}

/// The payload and the due time that a timer brings along.
fn given(timer: &Timer) -> (u64, Option<When>) {
    (timer.payload_bytes(), Some(When::At(timer.due_at)))
}
