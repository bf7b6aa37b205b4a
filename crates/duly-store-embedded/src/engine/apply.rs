//! Commands, one after another.
//!
//! The keys of a few commands are made ahead and their places in the index fetched at once: in a
//! large index nearly every search waits for memory, and many can wait together.

use duly_core::{NamespaceName, TimerId, operate::DeadLetterId};
use duly_store::{Command, Outcome, Refusal};

use crate::index::Key;

use super::{Engine, Stop, letters};

/// Commands whose places in the index are fetched at once.
const AHEAD: usize = 64;

impl Engine {
    /// Carries out commands, at most `count_max` of them and no more once `bytes_max` wait to be
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

    /// The keys by which commands find what they are about; `None` where there is no such namespace.
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
                    letters::key_of(self.hash_key, number, *delivery_id)
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
            Err(Stop::Refused(refusal)) => Outcome::Refused(refusal),
            Err(Stop::Unread(error) | Stop::NotNow(error)) => Outcome::Failed(error),
            Err(Stop::Terminal) => Outcome::Failed(duly_store::Error::InDoubt {
                reason: self.terminal_error.clone().unwrap_or_else(|| "a write failed".into()),
            }),
        }
    }
}
