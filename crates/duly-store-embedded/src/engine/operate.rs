//! Operations: loads the known state of a key, asks the core for a decision, and writes the effect to the
//! journal.
//!
//! Nearly every search in a large index waits for memory, and many searches can wait at the same time. So
//! the keys of up to `AHEAD` commands are computed first, and their index entries are prefetched
//! together.
//!
//! A cancel of a timer without attempts uses its index entry alone and reads no record. So there, and
//! nowhere else, an id whose 72-bit hash equals that of another id is taken for it.

use std::time::Duration;

use duly_core::{
    Invalid, NamespaceName, Timer, TimerId, Timestamp, Tombstone,
    operate::{self, Context, Decision, Effect, Level, Now, Operation, Usage},
    timer::DeadLetterId,
};
use duly_store::{Command, Outcome, Refusal, TimerView};

use crate::{
    format::record::Record,
    index::{AttemptKind, Flags, Key, Location},
};

use super::{Engine, NotWritten, dead_letters, time::may_be_damaged, view::Known};

/// Commands whose index entries are prefetched together.
const AHEAD: usize = 64;

impl Engine {
    /// Carries out commands: at most `count_max`, and no more once `bytes_max` bytes wait to be
    /// committed.
    pub(crate) fn apply_some(
        &mut self,
        commands: &mut std::vec::IntoIter<Command>,
        count_max: usize,
        bytes_max: usize,
        outcomes: &mut Vec<Outcome>,
    ) {
        let mut keys = Vec::with_capacity(AHEAD);
        let mut left = count_max;
        while left > 0 && commands.len() > 0 {
            self.keys_of(&commands.as_slice()[..commands.len().min(left).min(AHEAD)], &mut keys);
            self.namespaces.warm(keys.iter().copied().flatten());
            for (key, command) in keys.drain(..).zip(commands.by_ref()) {
                left -= 1;
                outcomes.push(self.apply_keyed(key, command));
                if self.uncommitted_bytes() >= bytes_max {
                    return;
                }
            }
        }
    }

    /// Carries out one command.
    #[cfg(test)]
    pub(crate) fn apply(&mut self, command: Command) -> Outcome {
        let mut keys = Vec::with_capacity(1);
        self.keys_of(std::slice::from_ref(&command), &mut keys);
        self.apply_keyed(keys.pop().flatten(), command)
    }

    /// Computes the index keys of commands; `None` if the namespace does not exist.
    fn keys_of(&self, commands: &[Command], keys: &mut Vec<Option<Key>>) {
        let mut known: Option<(&NamespaceName, Option<u32>)> = None;
        for command in commands {
            let number = match known {
                Some((name, number)) if *name == command.namespace => number,
                _ => self.namespaces.number_of(&command.namespace),
            };
            known = Some((&command.namespace, number));
            let operation = &command.operation;
            keys.push(number.map(|number| match (operation.id(), operation.letter()) {
                (None, Some(DeadLetterId::Delivery(delivery_id))) => {
                    dead_letters::key_of(self.hash_key, number, *delivery_id)
                }
                (id, _) => self.key(number, id.map_or("", TimerId::as_str)),
            }));
        }
    }

    fn apply_keyed(&mut self, key: Option<Key>, command: Command) -> Outcome {
        if let Err(error) = self.check_usable() {
            return Outcome::Failed(error);
        }
        let answer = command.answer;
        let Some(key) = key else {
            return Outcome::Refused(Refusal::UnknownNamespace(command.namespace));
        };
        match self.operate(key, command) {
            Ok(outcome) => outcome.answering(answer),
            Err(NotWritten::Refused(refusal)) => Outcome::Refused(refusal),
            Err(NotWritten::Unread(error) | NotWritten::NotNow(error)) => Outcome::Failed(error),
            Err(NotWritten::Terminal) => Outcome::Failed(duly_store::Error::InDoubt {
                reason: self.terminal_error.clone().unwrap_or_else(|| "a write failed".into()),
            }),
        }
    }

    /// Carries out a command on the timer with this key. A dead letter that is named by its delivery id
    /// has a key of its own.
    fn operate(&mut self, key: Key, command: Command) -> Result<Outcome, NotWritten> {
        let Command { namespace: name, operation, answer } = command;
        let number = key.namespace();
        if let Operation::Purge { letter } = &operation {
            return self.purge(number, letter);
        }
        let known = self.look_up(key);
        if operation.level() == Level::Head
            && let Some(due_at) = unattempted(known)
            && let Operation::Cancel { id, .. } = operation
        {
            let decision = self.with_context(number, 0, |context| {
                operate::cancel_without_record(id, due_at, context)
            });
            return self.carry_out(key, &name, decision);
        }
        let (key, known) = self.known(key, &name, &operation, known)?;
        let random = match operation {
            Operation::Schedule { .. } => self.random_u64(),
            _ => 0,
        };
        let decided = self
            .with_context(number, random, |context| operate::operate(operation, known, context));
        let decision = decided.map_err(NotWritten::Refused)?;
        answer
            .check(|| decision.read_bytes(&name))
            .map_err(|error| NotWritten::Unread(error.into()))?;
        self.carry_out(key, &name, decision)
    }

    /// Loads the known state for an operation. Returns it with the key of the timer.
    fn known(
        &mut self,
        key: Key,
        name: &NamespaceName,
        operation: &Operation,
        known: Known,
    ) -> Result<(Key, operate::Known), NotWritten> {
        let number = key.namespace();
        let (key, known, letter) = match operation {
            Operation::Redrive { letter, .. } => {
                let letter = self.load_dead_letter(number, letter)?;
                let key = letter.as_ref().map_or(key, |it| self.key(number, it.id.as_str()));
                let live = self.namespaces.live(key);
                (key, live.map_or(Known::Nothing, |entry| Known::Live(key, entry)), letter)
            }
            Operation::Import { timer } => {
                (key, known, self.dead_letter_of_firing(name, number, timer)?)
            }
            _ => (key, known, None),
        };
        let view = self.view_or_quarantine(name, known)?;
        let timer = match (operation.id(), view) {
            (Some(id), Some(view)) if view.id() != id => match operation {
                Operation::Schedule { .. } | Operation::Import { .. } => {
                    let allowed =
                        "another id: this one's hash in this store is that of another timer";
                    let invalid = Invalid::new("id", id.as_str(), allowed);
                    return Err(NotWritten::Refused(Refusal::Invalid(invalid)));
                }
                _ => None,
            },
            (_, view) => view,
        };
        Ok((key, operate::Known { timer, letter }))
    }

    /// Loads the dead letter with this name.
    fn load_dead_letter(
        &mut self,
        number: u32,
        named: &DeadLetterId,
    ) -> Result<Option<Box<Timer>>, NotWritten> {
        let Some((_, location)) = self.find_dead_letter(number, named) else {
            return Ok(None);
        };
        self.load_timer(location).map(Some).or_else(|error| {
            may_be_damaged(&error)?;
            Err(NotWritten::Refused(Refusal::PayloadLost { letter: named.clone() }))
        })
    }

    /// Loads the dead letter of the timer's current firing, if there is one.
    fn dead_letter_of_firing(
        &mut self,
        name: &NamespaceName,
        number: u32,
        timer: &Timer,
    ) -> Result<Option<Box<Timer>>, NotWritten> {
        let letter = dead_letters::key_of(self.hash_key, number, timer.delivery_id(name.as_str()));
        let location = self.namespace(number).dead_letters.get(letter);
        let view = self.view_or_quarantine(name, location.map_or(Known::Nothing, Known::Dead))?;
        Ok(view.filter(|view| view.is_of_firing(timer)).and_then(TimerView::into_timer))
    }

    /// Returns the key and the location of the dead letter with this name.
    fn find_dead_letter(&self, number: u32, named: &DeadLetterId) -> Option<(Key, Location)> {
        let dead_letters = &self.namespaces.get(number)?.dead_letters;
        match named {
            DeadLetterId::Timer(id) => dead_letters.latest(self.key(number, id.as_str())),
            DeadLetterId::Delivery(delivery_id) => {
                let letter = dead_letters::key_of(self.hash_key, number, *delivery_id);
                Some((letter, dead_letters.get(letter)?))
            }
        }
    }

    /// Returns the view of a known timer. A damaged record is quarantined, and `None` returned. If the
    /// disk does not read the record now, it fails.
    fn view_or_quarantine(
        &mut self,
        name: &NamespaceName,
        known: Known,
    ) -> Result<Option<TimerView>, NotWritten> {
        self.view(name, known).or_else(|error| {
            may_be_damaged(&error)?;
            match known {
                Known::Live(key, entry) => self.quarantine(key, &entry, &error)?,
                Known::Ended(key, _) => self.quarantine_tombstone(key, &error)?,
                Known::Dead(_) | Known::Nothing => {}
            }
            Ok(None)
        })
    }

    /// Asks the core for a decision about an existing namespace.
    pub(super) fn with_context<T>(
        &self,
        number: u32,
        random: u64,
        decide: impl FnOnce(&Context<'_>) -> T,
    ) -> T {
        let namespace = self.namespaces.get(number).expect("the caller found it");
        let boot = Duration::from_millis(self.now.boot_ms);
        let rate = namespace.record.settings.limits.schedule_rate();
        let rate = rate.filter(|rate| namespace.schedules.available(*rate, boot) == 0);
        decide(&Context {
            namespace: &namespace.record.name,
            settings: &namespace.record.settings,
            usage: Usage {
                pending: namespace.pending(),
                dead: namespace.dead(),
                schedule_in: rate
                    .map_or(Duration::ZERO, |rate| namespace.schedules.next_in(rate, boot)),
            },
            now: Now { wall: self.now.wall(), steady: self.now.steady() },
            random,
        })
    }

    fn carry_out(
        &mut self,
        key: Key,
        name: &NamespaceName,
        mut decision: Decision,
    ) -> Result<Outcome, NotWritten> {
        let takes_rate = decision.quota_use.schedule;
        if decision.effect.as_ref().is_some_and(Effect::has_new_content) {
            self.admit_new().map_err(NotWritten::Refused)?;
        }
        if let Some(effect) = decision.effect {
            decision.effect = self.persist(key, effect)?;
        }
        if takes_rate {
            let boot = Duration::from_millis(self.now.boot_ms);
            let namespace = self.namespace(key.namespace());
            if let Some(rate) = namespace.record.settings.limits.schedule_rate() {
                namespace.schedules.take(rate, boot, 1);
            }
        }
        Ok(Outcome::of(decision, name, self.now.wall()))
    }

    /// Writes an effect. Returns it if it contains a whole timer.
    pub(super) fn persist(
        &mut self,
        key: Key,
        effect: Effect,
    ) -> Result<Option<Effect>, NotWritten> {
        let record = match effect {
            Effect::Put(cause, timer) => Record::Pending(cause, timer),
            Effect::DeadLetter(cause, timer) => Record::Dead(cause, timer),
            Effect::Forget => Record::Lost { key: key.pack() },
            Effect::End(tombstone) => return self.write_ended(key, tombstone).map(|()| None),
            Effect::Stop(id) => return self.stop_lease(key, id).map(|()| None),
            Effect::Purge | Effect::Extend(_) => {
                unreachable!("the caller knows the letter and the lease")
            }
        };
        self.write_keyed(key, &record)?;
        Ok(match record {
            Record::Pending(cause, timer) => Some(Effect::Put(cause, timer)),
            Record::Dead(cause, timer) => Some(Effect::DeadLetter(cause, timer)),
            _ => None,
        })
    }

    /// Writes that a timer has ended, with the end of its tombstone. Then evicts tombstones past
    /// `max_retained`.
    fn write_ended(&mut self, key: Key, tombstone: Box<Tombstone>) -> Result<(), NotWritten> {
        let number = key.namespace();
        let namespace = self.namespace(number);
        let retention = namespace.record.settings.retention;
        #[expect(clippy::cast_possible_truncation, reason = "it counts modulo 2^32")]
        let order = namespace.ended() as u32;
        let keeps = retention.ms() > 0;
        let expires_at = keeps.then(|| tombstone.ended_at.saturating_add(retention));
        self.write_keyed(key, &Record::Ended { tombstone, expires_at, number: order })?;
        self.evict_tombstones(number);
        Ok(())
    }

    /// Removes a dead letter, readable or not.
    fn purge(&mut self, number: u32, named: &DeadLetterId) -> Result<Outcome, NotWritten> {
        let found = self.find_dead_letter(number, named);
        let decided =
            self.with_context(number, 0, |context| operate::purge(named, found.is_some(), context));
        decided.map_err(NotWritten::Refused)?;
        let Some((letter, location)) = found else { return Ok(Outcome::Purged) };
        let timer = match (self.load_timer(location), named) {
            (Ok(timer), _) => self.key(number, timer.id.as_str()),
            (Err(_), DeadLetterId::Timer(id)) => self.key(number, id.as_str()),
            (Err(_), DeadLetterId::Delivery(_)) => dead_letters::unknown_timer(number),
        };
        self.write(number, &Record::Purged { letter: letter.pack(), timer: timer.pack() })?;
        Ok(Outcome::Purged)
    }
}

/// Returns the due time of a live timer without a lease and without attempts.
fn unattempted(known: Known) -> Option<Timestamp> {
    match known {
        Known::Live(_, entry)
            if entry.claimable().kind == AttemptKind::First
                && !entry.flags().has(Flags::LEASED) =>
        {
            Some(Timestamp::saturating_from_unix_ms(entry.claimable().at_ms))
        }
        _ => None,
    }
}
