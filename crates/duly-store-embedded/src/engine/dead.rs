//! Dead letters: redrive and purge.

use duly_core::{
    Code, DeliveryId, Invalid, Millis, NamespaceName, State,
    lifecycle::{self, Decision, Event},
    timer::DeathReason,
};
use duly_store::{Outcome, Refusal, command::Letter as Named};

use crate::format::record::{Cause, Record};

use super::{Engine, Stop, letters::Letter};

impl Engine {
    pub(super) fn redrive(
        &mut self,
        number: u32,
        name: &NamespaceName,
        named: &Named,
        delay: Millis,
    ) -> Result<Outcome, Stop> {
        let (_, letter) = self.find_letter(number, name, named)?;
        if let Some(entry) = self.entry(letter.key) {
            let lease = self.leases.get(&letter.key).copied();
            let state = self.state_of(&entry, lease.as_ref());
            let known = super::view::Known::Live(entry, lease);
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
        let mut timer = self.load(letter.location).map_err(|error| {
            Stop::Refused(Refusal::NotFound(format!("that can be read: {error}")))
        })?;
        let at = self.now.steady().checked_add(delay).ok_or_else(|| {
            let allowed = "short enough that the firing is due before 2200-01-01";
            Stop::Refused(Refusal::Invalid(Invalid::new("delay", delay, allowed)))
        })?;
        if timer.death.is_some_and(|death| death.reason == DeathReason::Corrupt) {
            return Err(Stop::Refused(Refusal::NotFound(format!(
                "that can be sent again: the record of {} was damaged and its payload is lost; \
                 purge the letter",
                timer.id
            ))));
        }
        timer.redrive(at);
        let record = Record::Pending(Cause::Redriven, Box::new(timer));
        self.write(number, &record)?;
        Ok(Outcome::Changed(self.view_of(name, record)))
    }

    pub(super) fn purge(
        &mut self,
        number: u32,
        name: &NamespaceName,
        named: &Named,
    ) -> Result<Outcome, Stop> {
        let (delivery, _) = self.find_letter(number, name, named)?;
        self.write(number, &Record::Purged(delivery))?;
        Ok(Outcome::Purged)
    }

    fn find_letter(
        &self,
        number: u32,
        name: &NamespaceName,
        named: &Named,
    ) -> Result<(DeliveryId, Letter), Stop> {
        let found = match named {
            Named::Timer(id) => self.letters.latest(self.key(number, id.as_str())),
            Named::Delivery(delivery) => self
                .letters
                .get(*delivery)
                .filter(|letter| letter.key.namespace() == number)
                .map(|letter| (*delivery, letter)),
        };
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
