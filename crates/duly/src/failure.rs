//! The failure of a command: one message on stderr and an exit code.
//!
//! Messages are sentences for people: the refused value, the allowed values, the next step. Nothing is
//! printed as `Debug`. With `--output json` the message is a JSON object on one line: the server's
//! problem document, or one with the same fields `code`, `title` and `detail`.

use std::{fmt, io, io::Write as _, process::ExitCode};

use duly_server::telemetry::logging;
use serde_json::json;
use tracing::Level;

use crate::output::{Format, OutputStream, Tone, text};

/// Exit code of a command that was refused or failed.
const FAILED: u8 = 1;
/// Exit code of an invalid command line.
const USAGE: u8 = 2;
/// Exit code of a server whose store has ended: `EX_IOERR` of `sysexits.h`.
const STORE_ENDED: u8 = 74;

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is invalid.
    Usage(String),
    /// The command was refused, or failed, in this process.
    Failed {
        /// The kind of failure, for programs.
        code: &'static str,
        /// Message for people.
        message: String,
    },
    /// The server refused the request.
    Refused {
        /// The server's problem document.
        problem: String,
        /// Message for people.
        message: String,
    },
    /// The store of a server has ended for this reason. It is logged and not printed.
    StoreEnded(String),
    /// The reader of the output has closed it: not an error.
    OutputClosed,
}

impl Failure {
    /// Returns a failure with this message.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self::coded("failed", message)
    }

    /// Returns a failure with this code for programs.
    pub(crate) fn coded(code: &'static str, message: impl fmt::Display) -> Self {
        Self::Failed { code, message: message.to_string() }
    }

    /// Adds a sentence for people about the consequences.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        if let Self::Failed { message, .. } | Self::Refused { message, .. } = &mut self {
            message.push_str("\n  ");
            message.push_str(note);
        }
        self
    }

    /// Returns a failure of an invalid command line.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// Returns `true` if the same command fails again: its command line is invalid, or no one reads the output.
    pub(crate) const fn is_final(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::OutputClosed)
    }

    /// Prints the message, as text or as JSON, and returns the exit code.
    pub(crate) fn report(self, format: Format) -> ExitCode {
        match self {
            Self::OutputClosed => return ExitCode::SUCCESS,
            Self::StoreEnded(_) => return ExitCode::from(STORE_ENDED),
            _ => {}
        }
        let screen = OutputStream::stderr();
        let text = match format {
            Format::Table => {
                let label = screen.paint(Tone::Bad, "error:");
                format!("{label} {}", text::lines(&self.sentence()))
            }
            Format::Json | Format::Ndjson if screen.is_terminal => text::json(&self.document()),
            Format::Json | Format::Ndjson => self.document(),
        };
        // If stderr is closed, the error cannot be printed.
        write!(io::stderr(), "{}", logging::message(Level::ERROR, &format!("{text}\n"))).ok();
        ExitCode::from(if matches!(self, Self::Usage(_)) { USAGE } else { FAILED })
    }

    fn sentence(&self) -> String {
        match self {
            Self::Usage(message) => format!("{message}\n\nFor more information, try '--help'."),
            Self::Failed { message, .. } | Self::Refused { message, .. } => message.clone(),
            Self::StoreEnded(reason) => reason.clone(),
            Self::OutputClosed => String::new(),
        }
    }

    /// Returns the failure as a JSON object on one line.
    fn document(&self) -> String {
        let (code, title, detail) = match self {
            Self::Refused { problem, .. } => return text::one_line(problem),
            Self::Usage(message) => ("usage", "The command line is invalid", message.as_str()),
            Self::Failed { code, message } => (*code, "The command failed", message.as_str()),
            // These two are not printed.
            Self::StoreEnded(_) | Self::OutputClosed => return String::new(),
        };
        json!({ "code": code, "title": title, "detail": detail }).to_string()
    }
}

/// Prints clap's error about a command line, for programs, and returns the exit code.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    let text = error.to_string();
    let message = text.trim().strip_prefix("error: ").unwrap_or(text.trim());
    let message = message.split("\n\nFor more information").next().unwrap_or(message);
    Failure::usage(message).report(Format::Json)
}

/// The message for people.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())
    }
}

/// An error of writing the output. A closed pipe is silent.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::new(format_args!("cannot write the output: {error}"))
        }
    }
}
