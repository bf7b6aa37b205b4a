//! Output of results: to stdout, as tables for people or as JSON for programs.

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

use self::terminal::{OutputStream, Tone};
use crate::{Outcome, failure::Failure};

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// For programs: the response as one JSON document; errors too
    Json,
    /// For programs that read line by line: the same on one line; a list has one line per item
    Ndjson,
}

/// The amount of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loudness {
    /// Results are printed.
    Normal,
    /// Only errors are printed.
    Quiet,
}

/// Prints a notice of a response to stderr, a sentence for people.
pub(crate) fn note(notice: &str) {
    writeln!(io::stderr(), "note: {}", text::preview(notice, usize::MAX)).ok();
}

/// Prints a warning to stderr.
pub(crate) fn warn(sentence: &str) {
    let label = OutputStream::stderr().paint(Tone::Warning, "warning:");
    // If stderr is closed, the warning is lost.
    writeln!(io::stderr(), "{label} {}", text::lines(sentence)).ok();
}

/// Prints results.
#[derive(Clone, Copy)]
pub(crate) struct Printer {
    format: Format,
    loudness: Loudness,
    screen: OutputStream,
}

impl Printer {
    /// Returns a printer of this format.
    pub(crate) fn new(format: Format, loudness: Loudness) -> Self {
        Self { format, loudness, screen: OutputStream::stdout() }
    }

    /// Returns `true` if programs read the output.
    pub(crate) fn is_json(self) -> bool {
        self.format != Format::Table
    }

    /// Returns `true` if only errors are printed.
    pub(crate) fn is_quiet(self) -> bool {
        self.loudness == Loudness::Quiet
    }

    /// Returns `true` if programs read the output line by line.
    pub(crate) fn is_ndjson(self) -> bool {
        self.format == Format::Ndjson
    }

    /// Returns the properties of stdout.
    pub(crate) fn screen(self) -> OutputStream {
        self.screen
    }

    /// Prints a JSON document unchanged, or the table of it.
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

    /// Prints the items of a list that is the only field of its document: as this document, or one item
    /// per line.
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

    /// Prints a line, and flushes it.
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
