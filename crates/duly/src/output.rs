//! Where answers go: stdout, as tables for people or as JSON for programs.

pub(crate) mod fields;
pub(crate) mod progress;
pub(crate) mod table;
pub(crate) mod terminal;
pub(crate) mod text;
pub(crate) mod timers;
pub(crate) mod when;

use std::{
    fmt::Display,
    io::{self, Write as _},
};

use clap::ValueEnum;

use self::terminal::{Screen, Tone};
use crate::{Outcome, failure::Failure};

/// How answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs: the answer as one JSON document; errors too
    Json,
    /// For programs that read line by line: the same on one line, of lists a line for each item
    Ndjson,
}

/// Whether what went well is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loudness {
    /// Answers are printed.
    Normal,
    /// Nothing is, but errors.
    Quiet,
}

/// Prints to stderr what an answer says for people beside its purpose.
pub(crate) fn note(notice: &str) {
    writeln!(io::stderr(), "note: {}", text::preview(notice, usize::MAX)).ok();
}

/// Prints to stderr what somebody should look at.
pub(crate) fn warn(sentence: &str) {
    let label = Screen::stderr().paint(Tone::Warning, "warning:");
    // There is nowhere else to say it.
    writeln!(io::stderr(), "{label} {}", text::lines(sentence)).ok();
}

/// Prints answers.
#[derive(Clone, Copy)]
pub(crate) struct Printer {
    format: Format,
    loudness: Loudness,
    screen: Screen,
}

impl Printer {
    /// A printer of this format.
    pub(crate) fn new(format: Format, loudness: Loudness) -> Self {
        Self { format, loudness, screen: Screen::stdout() }
    }

    /// Whether programs read the output.
    pub(crate) fn is_json(self) -> bool {
        self.format != Format::Table
    }

    /// Whether nothing is printed but errors.
    pub(crate) fn is_quiet(self) -> bool {
        self.loudness == Loudness::Quiet
    }

    /// Whether programs read the output line by line.
    pub(crate) fn is_ndjson(self) -> bool {
        self.format == Format::Ndjson
    }

    /// Where it goes.
    pub(crate) fn screen(self) -> Screen {
        self.screen
    }

    /// Prints a JSON document as it is, or what `table` shows of it.
    pub(crate) fn document(
        self,
        document: &str,
        table: impl FnOnce() -> Result<String, Failure>,
    ) -> Outcome {
        if self.is_json() { self.json(document) } else { self.line(&table()?) }
    }

    /// Prints a JSON document.
    pub(crate) fn json(self, document: &str) -> Outcome {
        let line;
        let document = if self.is_ndjson() {
            line = text::one_line(document);
            &line
        } else {
            document
        };
        if self.screen.is_terminal() {
            self.line(&text::json(document))
        } else {
            self.line(document)
        }
    }

    /// Prints the items of a list that is the only field of its document: as this document, or a
    /// line for each.
    pub(crate) fn json_list(
        self,
        name: &str,
        items: impl IntoIterator<Item = impl Display>,
    ) -> Outcome {
        let mut items = items.into_iter().map(|item| item.to_string());
        if self.is_ndjson() {
            return items.try_for_each(|item| self.json(&item));
        }
        let items: Vec<_> = items.collect();
        self.json(&format!(r#"{{"{name}":[{}]}}"#, items.join(",")))
    }

    /// Prints a line at once.
    pub(crate) fn line(self, text: &str) -> Outcome {
        if self.is_quiet() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.trim_end_matches('\n').as_bytes())?;
        stdout.write_all(b"\n")?;
        stdout.flush()?;
        Ok(())
    }
}
