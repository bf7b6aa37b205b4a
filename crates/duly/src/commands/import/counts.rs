//! The counts of an import, and the faults of single lines.

use serde::Serialize;
use serde_json::{json, value::RawValue};

/// The results of the timers of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// Timers that were imported.
    pub(super) imported: u64,
    /// Timers that existed before.
    pub(super) existing: u64,
    /// Timers that existed before and were cancelled.
    pub(super) cancelled: u64,
    /// Lines with a fault.
    pub(super) failed: u64,
    /// Timers that were not sent, since their namespace does not exist.
    pub(super) skipped: u64,
}

impl Counts {
    /// Returns the number of timers that were processed.
    pub(super) fn done(self) -> u64 {
        self.imported + self.existing + self.cancelled
    }

    /// Returns the counts as text.
    pub(super) fn sentence(self) -> String {
        let Self { imported, existing, cancelled, failed, skipped } = self;
        let mut sentence = format!("{imported} imported, {existing} existing");
        for (count, words) in
            [(cancelled, "cancelled here and kept"), (skipped, "not sent"), (failed, "failed")]
        {
            if count > 0 {
                sentence.push_str(&format!(", {count} {words}"));
            }
        }
        sentence
    }
}

/// The fault of a line.
pub(super) struct Fault {
    /// Line number.
    pub(super) number: u64,
    /// Message for people.
    pub(super) sentence: String,
    /// Error document for programs.
    error: Option<Box<RawValue>>,
}

impl Fault {
    /// Returns the fault of a line that is invalid itself.
    pub(super) fn of(number: u64, sentence: impl Into<String>) -> Self {
        Self { number, sentence: sentence.into(), error: None }
    }

    /// Returns the fault of a line that the server refused.
    pub(super) fn refused(number: u64, sentence: String, error: Box<RawValue>) -> Self {
        Self { number, sentence, error: Some(error) }
    }

    /// Returns the fault as JSON, in the form of a line's result in a batch.
    pub(super) fn document(&self) -> String {
        let own = || {
            json!({ "code": "damaged_line", "title": "The line cannot be read", "detail": self.sentence })
                .to_string()
        };
        let error = self.error.as_ref().map_or_else(own, |error| error.get().to_owned());
        format!(r#"{{"line":{},"error":{error}}}"#, self.number)
    }
}
