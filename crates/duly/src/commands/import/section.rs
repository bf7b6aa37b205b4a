//! The section of a namespace in a file, from its first line to its end line, and the check that it is
//! complete.

use duly_core::NamespaceName;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::batch::Fault;
use crate::{commands::export::line::NamespaceEnd, output::text};

/// A namespace whose timers are being read.
#[derive(Default)]
pub(super) struct Section {
    /// The namespace's name; none if it cannot be read.
    pub(super) name: Option<NamespaceName>,
    /// `true`: its timers are sent. `false`: they are skipped, since their namespace does not exist.
    pub(super) is_sent: bool,
    pub(super) timers: u64,
    pub(super) dead: u64,
    /// Lines that cannot be read, and could be a timer or a dead letter.
    pub(super) damaged: u64,
}

impl Section {
    /// Returns the namespace that the timers are sent to, if they are sent.
    pub(super) fn target(&self) -> Option<&NamespaceName> {
        self.name.as_ref().filter(|_| self.is_sent)
    }

    /// Counts a timer or dead letter.
    pub(super) fn count(&mut self, timer: &RawValue) {
        #[derive(Deserialize)]
        struct Peek {
            dead_letter: Option<serde::de::IgnoredAny>,
        }
        let is_dead =
            serde_json::from_str(timer.get()).is_ok_and(|peek: Peek| peek.dead_letter.is_some());
        *(if is_dead { &mut self.dead } else { &mut self.timers }) += 1;
    }

    /// Returns the fault of the end line, if it has one.
    pub(super) fn end(&self, number: u64, end: &NamespaceEnd) -> Option<Fault> {
        if let Some(name) = self.name.as_ref().filter(|name| name.as_str() != end.namespace) {
            let sentence =
                format!("the end of {}, but {name} was begun: lines are missing", end.namespace);
            return Some(Fault::of(number, sentence));
        }
        let is_whole = if self.damaged == 0 {
            (self.timers, self.dead) == (end.timers, end.dead)
        } else {
            self.timers + self.dead + self.damaged == end.timers.saturating_add(end.dead)
        };
        if is_whole {
            return None;
        }
        let sentence = format!(
            "{} and {} of {} were exported, but the file contains {} and {}: export again",
            text::count(end.timers, "timer"),
            text::count(end.dead, "dead letter"),
            end.namespace,
            self.timers,
            self.dead
        );
        Some(Fault::of(number, sentence))
    }

    /// Returns the fault of a section without an end line.
    pub(super) fn truncated(&self, number: u64) -> Fault {
        let name = self.name.as_ref().map_or("a namespace", NamespaceName::as_str);
        let sentence = format!(
            "the export of {name} ends here without its end line: the file is truncated. Its lines \
             were processed; export again, and import that file too"
        );
        Fault::of(number, sentence)
    }
}
