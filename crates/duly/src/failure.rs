//! How a command ends when it does not succeed: one message on stderr and an exit code.
//!
//! Messages are sentences for a person: what was refused, what is allowed, what to do. Nothing is
//! printed as `Debug`.

use std::{fmt, io, io::Write as _, process::ExitCode};

/// Exit code of what was refused or failed.
const FAILED: u8 = 1;
/// Exit code of what was typed wrong.
const USAGE: u8 = 2;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line says something that is not allowed.
    Usage(String),
    /// It was refused, or it failed.
    Failed(String),
    /// Nobody reads the output any more: not an error.
    OutputClosed,
}

impl Failure {
    /// A refusal or failure with this message.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }

    /// A mistake on the command line.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// Prints the message and names the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (message, code) = match self {
            Self::OutputClosed => return ExitCode::SUCCESS,
            Self::Usage(message) => {
                (format!("{message}\n\nFor more information, try '--help'."), USAGE)
            }
            Self::Failed(message) => (message, FAILED),
        };
        // There is nowhere left to complain when stderr is closed.
        writeln!(io::stderr(), "error: {message}").ok();
        ExitCode::from(code)
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
