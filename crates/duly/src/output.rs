//! Output of results: to stdout, as tables for people or as JSON for programs.

mod failure_report;
mod fields;
pub(crate) mod progress;
pub(crate) mod table;
mod terminal;
pub(crate) mod text;
pub(crate) mod timers;
pub(crate) mod when;

pub(crate) use self::failure_report::report_usage;
pub(crate) use self::fields::Fields;
pub(crate) use self::progress::Progress;
pub(crate) use self::table::Table;
pub(crate) use self::terminal::{OutputStream, Tone};

use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, Write as _},
};

use clap::ValueEnum;
use duly_server::telemetry::logging;
use tracing::Level;

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

/// Prints a notice of a response to stderr, a sentence for people.
pub(crate) fn note(notice: &str) {
    writeln!(io::stderr(), "note: {}", text::line(notice)).ok();
}

/// Warns that a result is without the timers of these unavailable shards, if there are any.
pub(crate) fn warn_if_incomplete(unavailable_shards: &[u32]) {
    if let Some(sentence) = text::incomplete(unavailable_shards) {
        warn(&sentence);
    }
}

/// Prints a warning to stderr.
pub(crate) fn warn(sentence: &str) {
    let label = OutputStream::stderr().paint(Tone::Warning, "warning:");
    // If stderr is closed, the warning is lost.
    let text = format!("{label} {}\n", text::lines(sentence));
    write!(io::stderr(), "{}", logging::message(Level::WARN, &text)).ok();
}

/// Prints results.
#[derive(Clone, Copy)]
pub(crate) struct Printer {
    format: Format,
    /// `true`: only errors are printed.
    pub(crate) is_quiet: bool,
    /// The properties of stdout.
    pub(crate) screen: OutputStream,
}

impl Printer {
    /// Returns a printer of this format.
    pub(crate) fn new(format: Format) -> Self {
        Self { format, is_quiet: false, screen: OutputStream::stdout() }
    }

    /// Returns the printer without `--quiet`, for a result that cannot be had again.
    pub(crate) const fn aloud(self) -> Self {
        Self { is_quiet: false, ..self }
    }

    /// Returns `true` if programs read the output.
    pub(crate) fn is_json(self) -> bool {
        self.format != Format::Table
    }

    /// Returns `true` if programs read the output line by line.
    pub(crate) fn is_ndjson(self) -> bool {
        self.format == Format::Ndjson
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
        let mut document = Cow::Borrowed(document);
        if self.is_ndjson() {
            document = text::one_line(&document).into();
        }
        if self.screen.is_terminal {
            document = text::json(&document).into();
        }
        self.line(&document)
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

    /// Prints a table, or `none` if it has no rows.
    pub(crate) fn table(self, table: &Table) -> Outcome {
        if table.is_empty() { self.line("none") } else { self.line(&table.text(self.screen)) }
    }

    /// Prints a line, and flushes it.
    pub(crate) fn line(self, text: &str) -> Outcome {
        if self.is_quiet {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.trim_end_matches('\n').as_bytes())?;
        stdout.write_all(b"\n")?;
        stdout.flush()?;
        Ok(())
    }
}
