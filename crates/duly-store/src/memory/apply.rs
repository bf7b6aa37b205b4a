//! Operations: passes the known data to the core, and writes its effect into the maps.

use std::time::Duration;

use duly_core::{
    DeliveryId, Millis, Refusal,
    operate::{Cause, Context, Decision, Effect, Known, Operation, Usage, operate},
    timer::DeadLetterId,
};

use super::{
    clock::ClockReading,
    namespace_state::{LiveTimer, NamespaceState, Numbered},
};
use crate::{Answer, Outcome, random::SplitMix64};

impl NamespaceState {
    pub(super) fn apply(
        &mut self,
        operation: Operation,
        answer: Answer,
        random: &mut SplitMix64,
        now: ClockReading,
    ) -> Result<Outcome, Refusal> {
        let letter = self.dead_letter_of(&operation);
        let dead = letter.and_then(|letter| self.dead.get(&letter)).map(|dead| &dead.value);
        let id = operation.id().or(dead.map(|dead| &dead.id));
        let known = Known {
            timer: id.and_then(|id| self.view(id, now)),
            letter: dead.cloned().map(Box::new),
        };
        let forgets = match &operation {
            Operation::Forget { id } => Some(id.clone()),
            _ => None,
        };
        let decision = operate(operation, known, &self.context(random.next_u64(), now))?;
        if let Err(too_large) = answer.check(|| decision.read_bytes(&self.own.name)) {
            return Ok(Outcome::Failed(too_large.into()));
        }
        let Decision { effect, quota_use, .. } = &decision;
        if let (true, Some(rate)) = (quota_use.schedule, self.own.settings.limits.schedule_rate()) {
            self.schedules.take(rate, now.boot, 1);
        }
        match (effect, letter) {
            (Some(Effect::Purge), Some(letter)) => drop(self.dead.remove(&letter)),
            (Some(Effect::Forget), _) => drop(forgets.and_then(|id| self.tombstones.remove(&id))),
            (Some(effect), _) => self.write(effect.clone()),
            (None, _) => {}
        }
        Ok(Outcome::of(decision, &self.own.name, now.wall))
    }

    /// Returns the dead letter that an operation names, or that of the firing that it imports.
    fn dead_letter_of(&self, operation: &Operation) -> Option<DeliveryId> {
        match operation {
            Operation::Import { timer } => Some(timer.delivery_id(self.own.name.as_str())),
            Operation::Redrive { letter, .. } | Operation::Purge { letter } => match letter {
                DeadLetterId::Timer(id) => self.latest_dead_letter(id),
                DeadLetterId::Delivery(delivery_id) => Some(*delivery_id),
            },
            _ => None,
        }
    }

    pub(super) fn context(&self, random: u64, now: ClockReading) -> Context<'_> {
        let rate = self.own.settings.limits.schedule_rate();
        let rate = rate.filter(|rate| self.schedules.available(*rate, now.boot) == 0);
        let usage = Usage {
            pending: self.live.len() as u64,
            dead: self.dead.len() as u64,
            schedule_in: rate.map_or(Duration::ZERO, |rate| self.schedules.next_in(rate, now.boot)),
        };
        Context {
            namespace: &self.own.name,
            settings: &self.own.settings,
            usage,
            now: now.both(),
            random,
        }
    }

    /// Writes an effect into the maps and the totals.
    pub(super) fn write(&mut self, effect: Effect) {
        self.totals.count(effect.totals());
        match effect {
            Effect::Put(cause, timer) => {
                self.add_receiver(timer.spec.destination.as_ref());
                self.tombstones.remove(&timer.id);
                if cause == Cause::Redriven {
                    self.dead.remove(&timer.delivery_id(self.own.name.as_str()));
                }
                self.live.insert(timer.id.clone(), LiveTimer { timer: *timer, lease: None });
            }
            Effect::End(tombstone) => {
                self.live.remove(&tombstone.id);
                if self.own.settings.retention > Millis::ZERO {
                    let number = self.number_next();
                    self.tombstones
                        .insert(tombstone.id.clone(), Numbered { number, value: *tombstone });
                    self.trim_tombstones();
                }
            }
            Effect::DeadLetter(cause, timer) => {
                if cause != Cause::Imported {
                    self.live.remove(&timer.id);
                }
                let number = self.number_next();
                let letter = timer.delivery_id(self.own.name.as_str());
                self.dead.insert(letter, Numbered { number, value: *timer });
            }
            Effect::Stop(id) => {
                let lease = self.live.get_mut(&id).and_then(|live| live.lease.as_mut());
                lease.expect("the timer is in flight").stopped = true;
            }
            Effect::Forget | Effect::Purge | Effect::Extend(_) => {
                unreachable!("the caller knows the letter and the lease")
            }
        }
    }
}
