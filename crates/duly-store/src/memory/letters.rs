//! Dead letters: made when a firing is given up, redriven or purged by an operator.

use std::sync::Arc;

use duly_core::{
    Code, DeliveryId, Invalid, Millis, TimerId, Timestamp,
    lifecycle::{Decision, Event, State, decide},
    timer::DeadLetterReason,
};

use super::{
    apply::state_refusal,
    clock::Now,
    space::{Live, Numbered, Space},
};
use crate::{Outcome, Refusal, command::Letter};

impl Space {
    /// Gives a live firing up; it stays whole under its delivery id.
    pub(super) fn bury(&mut self, id: &TimerId, reason: DeadLetterReason, now: Now) {
        let mut timer = self.take_live(id);
        timer.die(now.wall, reason);
        let delivery_id = timer.delivery_id(self.name.as_str());
        let number = self.number_next();
        self.dead.insert(delivery_id, Numbered { number, value: timer });
        self.totals.dead += 1;
    }

    pub(super) fn dead_letter_overdue(
        &mut self,
        id: &TimerId,
        if_due_by: Timestamp,
        now: Now,
    ) -> Result<Outcome, Refusal> {
        let old = self.view(id, now).ok_or_else(|| Refusal::NotFound(id.to_string()))?;
        match decide(Some(old.state), Event::Overdue) {
            Decision::Already => return Ok(Outcome::Unchanged(Arc::new(old))),
            Decision::Move(State::Dead) if old.due_at() <= if_due_by => {}
            Decision::Refuse(code) => return Err(state_refusal(&old, code)),
            _ => return Err(state_refusal(&old, Code::AlreadyExists)),
        }
        let max_dead = self.settings.limits.max_dead;
        if self.dead.len() as u64 >= max_dead {
            return Err(Refusal::dead_letters_full(&self.name, max_dead));
        }
        self.bury(id, DeadLetterReason::Overdue, now);
        let letter = self.latest_letter(id).expect("it was just buried");
        Ok(Outcome::Changed(Arc::new(self.view_dead(&self.dead[&letter].value))))
    }

    pub(super) fn redrive(
        &mut self,
        letter: &Letter,
        delay: Millis,
        now: Now,
    ) -> Result<Outcome, Refusal> {
        let delivery_id = self.find_letter(letter, Event::Redrive)?;
        let id = self.dead[&delivery_id].value.id.clone();
        if let Some(live) = self.live.get(&id) {
            let view = self.view_live(live, now);
            return Err(state_refusal(&view, Code::AlreadyExists));
        }
        let at = now.steady.checked_add(delay).ok_or_else(|| past_2200(delay))?;
        if let Some(dead) = self.dead.remove(&delivery_id) {
            let mut timer = dead.value;
            timer.redrive(at);
            self.tombstones.remove(&id);
            self.live.insert(id.clone(), Live { timer, lease: None });
        }
        Ok(Outcome::Changed(Arc::new(self.view_live(&self.live[&id], now))))
    }

    pub(super) fn purge(&mut self, letter: &Letter) -> Result<Outcome, Refusal> {
        let delivery_id = self.find_letter(letter, Event::Purge)?;
        self.dead.remove(&delivery_id);
        Ok(Outcome::Purged)
    }

    fn find_letter(&self, letter: &Letter, event: Event) -> Result<DeliveryId, Refusal> {
        let (found, name) = match letter {
            Letter::Timer(id) => (self.latest_letter(id), id.to_string()),
            Letter::Delivery(delivery_id) => {
                let known = self.dead.contains_key(delivery_id);
                (known.then_some(*delivery_id), delivery_id.to_string())
            }
        };
        match (decide(found.map(|_| State::Dead), event), found) {
            (Decision::Move(_) | Decision::Remove, Some(delivery_id)) => Ok(delivery_id),
            _ => Err(Refusal::NotFound(name)),
        }
    }
}

fn past_2200(delay: Millis) -> Refusal {
    let allowed = format!("short enough that the timer is due before {}", Timestamp::MAX);
    Refusal::Invalid(Invalid::new("delay", delay, allowed))
}
