//! The section of a namespace in a file, from its first line to its end line, and the check that it is
//! complete.

use duly_core::NamespaceName;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::counts::Fault;
use crate::{commands::export::line::NamespaceEnd, output::text};

/// A namespace whose timers are being read.
pub(super) struct Section {
    /// The namespace's name; none if it cannot be read.
    name: Option<NamespaceName>,
    /// The handling of its timers.
    handling: TimerHandling,
    timers: u64,
    dead: u64,
    /// Lines that could be a timer or a dead letter.
    damaged: u64,
}

/// The handling of the timers of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerHandling {
    /// The timers are sent.
    Sent,
    /// The timers are skipped: their namespace does not exist.
    Skipped,
}

impl Section {
    /// Returns a section that begins.
    pub(super) fn new(name: Option<NamespaceName>, handling: TimerHandling) -> Self {
        Self { name, handling, timers: 0, dead: 0, damaged: 0 }
    }

    /// Returns the namespace that the timers are sent to, if they are sent.
    pub(super) fn target(&self) -> Option<&NamespaceName> {
        self.name.as_ref().filter(|_| self.handling == TimerHandling::Sent)
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

    /// Counts a line that cannot be read.
    pub(super) fn count_damaged(&mut self) {
        self.damaged += 1;
    }

    /// Returns the fault of the end line, if it has one.
    pub(super) fn end(&self, number: u64, end: &NamespaceEnd) -> Option<Fault> {
        if let Some(name) = self.name.as_ref().filter(|name| name.as_str() != end.namespace) {
            let sentence =
                format!("the end of {}, but {name} was begun: lines are missing", end.namespace);
            return Some(Fault::of(number, sentence));
        }
        let expected = end.timers.saturating_add(end.dead);
        let found = self.timers + self.dead + self.damaged;
        let is_whole = if self.damaged == 0 {
            (self.timers, self.dead) == (end.timers, end.dead)
        } else {
            found == expected
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
