//! What an import came to, and what was wrong with single lines.

use serde::Serialize;
use serde_json::{json, value::RawValue};

/// What became of the timers of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// They are there now.
    pub(super) imported: u64,
    /// They had been there before.
    pub(super) existing: u64,
    /// They had been there and were cancelled since.
    pub(super) cancelled: u64,
    /// Lines with which something is wrong.
    pub(super) failed: u64,
    /// Timers that were not sent, since their namespace is not there.
    pub(super) skipped: u64,
}

impl Counts {
    /// Timers that were dealt with.
    pub(super) fn done(self) -> u64 {
        self.imported + self.existing + self.cancelled
    }

    /// For people.
    pub(super) fn sentence(self) -> String {
        let Self { imported, existing, cancelled, failed, skipped } = self;
        let mut sentence = format!("{imported} imported, {existing} there already");
        for (count, words) in [
            (cancelled, "cancelled there meanwhile, which stay so"),
            (skipped, "not sent"),
            (failed, "failed"),
        ] {
            if count > 0 {
                sentence.push_str(&format!(", {count} {words}"));
            }
        }
        sentence
    }
}

/// What is wrong with a line.
pub(super) struct Fault {
    /// Its number.
    pub(super) number: u64,
    /// For people.
    pub(super) sentence: String,
    /// For programs.
    error: Option<Box<RawValue>>,
}

impl Fault {
    /// The line itself is not right.
    pub(super) fn of(number: u64, sentence: impl Into<String>) -> Self {
        Self { number, sentence: sentence.into(), error: None }
    }

    /// The server refused it.
    pub(super) fn refused(number: u64, sentence: String, error: Box<RawValue>) -> Self {
        Self { number, sentence, error: Some(error) }
    }

    /// For programs: as a line of a batch is answered.
    pub(super) fn document(&self) -> String {
        let own = || {
            json!({ "code": "damaged_line", "title": "The line cannot be read", "detail": self.sentence })
                .to_string()
        };
        let error = self.error.as_ref().map_or_else(own, |error| error.get().to_owned());
        format!(r#"{{"line":{},"error":{error}}}"#, self.number)
    }
}
