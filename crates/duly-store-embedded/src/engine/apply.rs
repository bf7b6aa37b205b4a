//! Commands: carries them out one after another.
//!
//! Nearly every search in a large index waits for memory, and many searches can wait at the same time. So
//! the keys of up to `AHEAD` commands are computed first, and their index entries are prefetched
//! together.

use duly_core::{NamespaceName, TimerId, operate::DeadLetterId};
use duly_store::{Command, Outcome, Refusal};

use crate::index::Key;

use super::{Engine, NotWritten, dead_letters};

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
}
