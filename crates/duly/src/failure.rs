//! The failure of a command. Its message is a sentence for people: the refused value, the allowed values, the
//! next step.

use std::{fmt, io};

use crate::place::Place;

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
    /// The call succeeded and changed nothing. The notice of the response gives the reason.
    Unchanged,
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

    /// Adds the server that was called, and its context, unless the message has them.
    pub(crate) fn at(self, place: &Place) -> Self {
        let has_server = match &self {
            Self::Failed { message, .. } | Self::Refused { message, .. } => {
                message.contains(place.server())
            }
            _ => return self,
        };
        match place.context() {
            None if has_server => self,
            Some(context) if has_server => self.with_note(&format!("context: {context}")),
            _ => self.with_note(&format!("server: {place}")),
        }
    }

    /// Returns a failure of an invalid command line.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// Returns `true` if the same command fails again: its command line is invalid, or no one reads the output.
    pub(crate) const fn is_final(&self) -> bool {
        matches!(self, Self::Usage(_) | Self::OutputClosed)
    }
}

/// The message for people.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => {
                write!(f, "{message}\n\nFor more information, try '--help'.")
            }
            Self::Failed { message, .. }
            | Self::Refused { message, .. }
            | Self::StoreEnded(message) => f.write_str(message),
            Self::OutputClosed | Self::Unchanged => Ok(()),
        }
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
