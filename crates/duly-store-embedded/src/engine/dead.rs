//! Dead letters: giving up what is overdue, redrive and purge.

use std::sync::Arc;

use duly_core::{
    Code, Invalid, Millis, NamespaceName, State, TimerId, Timestamp,
    lifecycle::{self, Decision, Event},
    timer::DeadLetterReason,
};
use duly_store::{Outcome, Refusal, TimerView, command::Letter as Named};

use crate::{
    format::record::{Cause, Record},
    index::{Key, Location},
};

use super::{Engine, Stop, change, letters, time::may_be_damaged};

impl Engine {
    /// Makes a dead letter of a timer that was due by then and is not leased.
    pub(super) fn dead_letter_overdue(
        &mut self,
        key: Key,
        name: &NamespaceName,
        id: &TimerId,
        if_due_by: Timestamp,
    ) -> Result<Outcome, Stop> {
        let view = self.find(key, name, id)?;
        let refused = match lifecycle::decide(Some(view.state), Event::Overdue) {
            Decision::Already => return Ok(Outcome::Unchanged(Arc::new(view))),
            Decision::Move(State::Dead) if view.due_at() <= if_due_by => None,
            Decision::Refuse(code) => Some(code),
            _ => Some(Code::AlreadyExists),
        };
        if let Some(code) = refused {
            return Err(Stop::Refused(self.refuse_state(id, &view, code)));
        }
        let namespace = self.namespace(key.namespace());
        let max_dead = namespace.settings.limits.max_dead;
        if namespace.dead() >= max_dead {
            return Err(Stop::Refused(Refusal::dead_letters_full(name, max_dead)));
        }
        let mut timer = change::whole(view);
        timer.die(self.now.wall(), DeadLetterReason::Overdue);
        self.write_keyed(key, &Record::Dead(Cause::Expired, timer.clone()))?;
        Ok(Outcome::Changed(Arc::new(TimerView::whole(name.clone(), State::Dead, *timer))))
    }

    pub(super) fn redrive(
        &mut self,
        number: u32,
        name: &NamespaceName,
        named: &Named,
        delay: Millis,
    ) -> Result<Outcome, Stop> {
        let (_, location) = self.letter(number, name, named)?;
        let mut timer = self.load_timer(location).map_err(|error| {
            let damaged =
                |()| Stop::Refused(Refusal::NotFound(format!("that can be read: {error}")));
            may_be_damaged(&error).map_or_else(|unread| unread, damaged)
        })?;
        let key = self.key(number, timer.id.as_str());
        if let Some(entry) = self.namespaces.live(key) {
            let state = self.state_of(&entry);
            let known = super::view::Known::Live(key, entry);
            if let Some(view) = self.readable(name, known)? {
                let mut refusal = self.refuse_state(view.id(), &view, Code::AlreadyExists);
                if let Refusal::State { state: shown, .. } = &mut refusal {
                    *shown = state;
                }
                return Err(Stop::Refused(refusal));
            }
        }
        debug_assert!(
            matches!(
                lifecycle::decide(Some(State::Dead), Event::Redrive),
                Decision::Move(State::Retrying)
            ),
            "a dead letter can be redriven"
        );
        let at = self.now.steady().checked_add(delay).ok_or_else(|| {
            let allowed = "short enough that the firing is due before 2200-01-01";
            Stop::Refused(Refusal::Invalid(Invalid::new("delay", delay, allowed)))
        })?;
        if timer
            .dead_letter
            .is_some_and(|dead_letter| dead_letter.reason == DeadLetterReason::Corrupt)
        {
            return Err(Stop::Refused(Refusal::NotFound(format!(
                "that can be sent again: the record of {} was damaged and its payload is lost; \
                 purge the letter",
                timer.id
            ))));
        }
        timer.redrive(at);
        let record = Record::Pending(Cause::Redriven, timer);
        self.write(number, &record)?;
        Ok(Outcome::Changed(self.view_of(name, record)))
    }

    pub(super) fn purge(
        &mut self,
        number: u32,
        name: &NamespaceName,
        named: &Named,
    ) -> Result<Outcome, Stop> {
        let (letter, location) = self.letter(number, name, named)?;
        let known = self.load_timer(location).ok();
        // What cannot be read can be dropped all the same, by the name that it was asked for.
        let timer = match (&known, named) {
            (Some(timer), _) => self.key(number, timer.id.as_str()),
            (None, Named::Timer(id)) => self.key(number, id.as_str()),
            (None, Named::Delivery(_)) => letters::unknown_timer(number),
        };
        let record = Record::Purged { letter: letter.pack(), timer: timer.pack() };
        self.write(number, &record)?;
        Ok(Outcome::Purged)
    }

    /// The letter that is named, and where it stands.
    fn letter(
        &self,
        number: u32,
        name: &NamespaceName,
        named: &Named,
    ) -> Result<(Key, Location), Stop> {
        let letters = self.namespaces.get(number).map(|namespace| &namespace.letters);
        let found = letters.and_then(|letters| match named {
            Named::Timer(id) => letters.latest(self.key(number, id.as_str())),
            Named::Delivery(delivery) => {
                let letter = letters::key_of(self.hash_key, number, *delivery);
                Some((letter, letters.get(letter)?))
            }
        });
        found.ok_or_else(|| {
            let what = match named {
                Named::Timer(id) => format!("{:?}", id.as_str()),
                Named::Delivery(delivery) => delivery.to_string(),
            };
            Stop::Refused(Refusal::NotFound(format!(
                "{what} among the dead letters of namespace {name}"
            )))
        })
    }
}
