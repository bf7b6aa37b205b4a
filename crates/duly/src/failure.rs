//! How a command ends when it does not succeed: one message on stderr and an exit code.
//!
//! Messages are sentences for a person: what was refused, what is allowed, what to do. Nothing is
//! printed as `Debug`. With `--output json` the message is a JSON object on one line: the problem
//! document of the server, or one with the same fields `code`, `title` and `detail`.

use std::{fmt, io, io::Write as _, process::ExitCode};

use serde_json::json;

use crate::output::{
    terminal::{Screen, Tone},
    text,
};

/// Exit code of what was refused or failed.
const FAILED: u8 = 1;
/// Exit code of what was typed wrong.
const USAGE: u8 = 2;
/// Exit code of a server whose store has ended: `EX_IOERR` of `sysexits.h`.
const STORE_ENDED: u8 = 74;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line says something that is not allowed.
    Usage(String),
    /// It was refused, or it failed, in this process.
    Failed {
        /// Names the kind of failure for programs.
        code: &'static str,
        /// For people.
        message: String,
    },
    /// The server refused it.
    Refused {
        /// The problem document that it answered.
        problem: String,
        /// For people.
        message: String,
    },
    /// The store of a server has ended for this reason, which is logged and not printed.
    StoreEnded(String),
    /// Nobody reads the output any more: not an error.
    OutputClosed,
}

/// Who reads the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A person.
    Person,
    /// A program that asked for JSON.
    Program,
}

impl Failure {
    /// A refusal or failure with this message.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self::coded("failed", message)
    }

    /// A failure that programs know by this code.
    pub(crate) fn coded(code: &'static str, message: impl fmt::Display) -> Self {
        Self::Failed { code, message: message.to_string() }
    }

    /// With a sentence for people about what it means here.
    pub(crate) fn with_note(mut self, note: &str) -> Self {
        if let Self::Failed { message, .. } | Self::Refused { message, .. } = &mut self {
            message.push_str("\n  ");
            message.push_str(note);
        }
        self
    }

    /// A mistake on the command line.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// Prints the message and names the exit code.
    pub(crate) fn report(self, reader: Reader) -> ExitCode {
        match self {
            Self::OutputClosed => return ExitCode::SUCCESS,
            Self::StoreEnded(_) => return ExitCode::from(STORE_ENDED),
            _ => {}
        }
        let screen = Screen::stderr();
        let text = match reader {
            Reader::Program if screen.is_terminal() => text::json(&self.document()),
            Reader::Program => self.document(),
            Reader::Person => {
                let label = screen.paint(Tone::Bad, "error:");
                format!("{label} {}", text::lines(&self.sentence()))
            }
        };
        // There is nowhere left to complain when stderr is closed.
        writeln!(io::stderr(), "{text}").ok();
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

    /// The failure as a JSON object on one line.
    fn document(&self) -> String {
        let (code, title, detail) = match self {
            Self::Refused { problem, .. } => return text::one_line(problem),
            Self::Usage(message) => ("usage", "It was typed wrong", message.as_str()),
            Self::Failed { code, message } => (*code, "It failed", message.as_str()),
            // Not printed.
            Self::StoreEnded(_) | Self::OutputClosed => return String::new(),
        };
        json!({ "code": code, "title": title, "detail": detail }).to_string()
    }
}

/// Prints what clap says of a command line that it refused, for programs, and names the exit code.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    let text = error.to_string();
    let message = text.trim().strip_prefix("error: ").unwrap_or(text.trim());
    let message = message.split("\n\nFor more information").next().unwrap_or(message);
    Failure::usage(message).report(Reader::Program)
}

/// The message for people.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())
    }
}

/// Failing to print: a closed pipe is quiet.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::OutputClosed
        } else {
            Self::new(format_args!("cannot write the output: {error}"))
        }
    }
}
