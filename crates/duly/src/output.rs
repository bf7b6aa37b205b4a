//! Where answers go: stdout, as tables for people or as the server's JSON.

pub(crate) mod fields;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod timers;
pub(crate) mod when;

use std::io::{self, Write as _};

use clap::ValueEnum;

use crate::{Outcome, client::Answer, failure::Failure};

/// How answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Prints answers.
#[derive(Clone, Copy)]
pub(crate) struct Printer {
    format: Format,
}

impl Printer {
    /// A printer of this format.
    pub(crate) fn new(format: Format) -> Self {
        Self { format }
    }

    /// Whether programs read the output.
    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// Prints an answer: as it came, or as `table` shows it.
    pub(crate) fn answer(
        self,
        answer: &Answer,
        table: impl FnOnce() -> Result<String, Failure>,
    ) -> Outcome {
        if self.is_json() { self.line(&answer.text) } else { self.line(&table()?) }
    }

    /// Prints a line at once.
    pub(crate) fn line(self, text: &str) -> Outcome {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.trim_end_matches('\n').as_bytes())?;
        stdout.write_all(b"\n")?;
        stdout.flush()?;
        Ok(())
    }

    /// Refuses `--output json` for a command that prints for people only.
    pub(crate) fn people_only(self, command: &str) -> Outcome {
        if self.is_json() {
            return Err(Failure::usage(format_args!(
                "`{command}` has no --output json: leave it out"
            )));
        }
        Ok(())
    }
}
