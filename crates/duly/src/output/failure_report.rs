//! The report of a failure: one message on stderr and an exit code.
//!
//! Nothing is printed as `Debug`. With `--output json` the message is a JSON object on one line: the server's
//! problem document, or one with the same fields `code`, `title` and `detail`.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use duly_server::telemetry::logging;
use serde_json::json;
use tracing::Level;

use super::{Format, OutputStream, Tone, text};
use crate::failure::Failure;

/// Exit code of a command that was refused or failed.
const FAILED: u8 = 1;
/// Exit code of an invalid command line.
const USAGE: u8 = 2;
/// Exit code of a call that succeeded and changed nothing.
const UNCHANGED: u8 = 3;
/// Exit code of a server whose store has ended: `EX_IOERR` of `sysexits.h`.
const STORE_ENDED: u8 = 74;

impl Failure {
    /// Prints the message, as text or as JSON, and returns the exit code.
    pub(crate) fn report(self, format: Format) -> ExitCode {
        match self {
            Self::OutputClosed => return ExitCode::SUCCESS,
            Self::StoreEnded(_) => return ExitCode::from(STORE_ENDED),
            Self::Unchanged => return ExitCode::from(UNCHANGED),
            _ => {}
        }
        let screen = OutputStream::stderr();
        let text = match format {
            Format::Table => {
                let label = screen.paint(Tone::Bad, "error:");
                format!("{label} {}", text::lines(&self.to_string()))
            }
            Format::Json | Format::Ndjson if screen.is_terminal => text::json(&self.document()),
            Format::Json | Format::Ndjson => self.document(),
        };
        // If stderr is closed, the error cannot be printed.
        write!(io::stderr(), "{}", logging::message(Level::ERROR, &format!("{text}\n"))).ok();
        ExitCode::from(if matches!(self, Self::Usage(_)) { USAGE } else { FAILED })
    }

    /// Returns the failure as a JSON object on one line.
    fn document(&self) -> String {
        let (code, title, detail) = match self {
            Self::Refused { problem, .. } => return text::one_line(problem),
            Self::Usage(message) => ("usage", "The command line is invalid", message.as_str()),
            Self::Failed { code, message } => (*code, "The command failed", message.as_str()),
            // These are not printed.
            Self::StoreEnded(_) | Self::OutputClosed | Self::Unchanged => return String::new(),
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
