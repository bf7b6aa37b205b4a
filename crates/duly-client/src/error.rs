//! Errors, and the advice to repeat a call or not.
//!
//! Every error has a text that says what happened, a stable code ([`Error::code`]) and an advice
//! ([`Error::retry`]). When a call returns an error, the client has already repeated it as far as that is safe;
//! the rules are those of [`crate::retry`].

mod refusal;
mod status;

use std::time::Duration;

pub use self::refusal::Refusal;
pub(crate) use self::status::of_status;
pub use duly_core::{Code, Invalid};

/// Result of a call.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a call, or of one item of it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value is not allowed; nothing was sent.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The server refused it; nothing changed.
    #[error("{} ({})", .0.problem.detail, .0.code.as_str())]
    Refused(Box<Refusal>),
    /// There is no connection to the server; nothing was sent.
    #[error(
        "no connection to {server}: {reason}; nothing was done. Check that the server runs and that the address is right"
    )]
    Unreachable {
        /// The URL that was given to the builder.
        server: String,
        /// The cause.
        reason: String,
    },
    /// The peer at the address speaks no HTTP/2, and so no gRPC.
    #[error(
        "what answers at {server} speaks no HTTP/2, which gRPC needs: is it a Duly server, and does a proxy in front of it pass gRPC on?"
    )]
    Foreign {
        /// The URL that was given to the builder.
        server: String,
    },
    /// The time of the call was over before it was sent; nothing was done.
    #[error("nothing was sent within {} ms: {reason}; repeat the call, or give it more time", .limit.as_millis())]
    TooLate {
        /// Time that the call had.
        limit: Duration,
        /// The operation or resource that it waited for.
        reason: String,
    },
    /// It was sent, and no answer says whether it was done.
    #[error("whether it was done is not known: {reason}; {}", advice(*.retry))]
    Unknown {
        /// `aborted`, `deadline_exceeded` or `internal`.
        code: Code,
        /// The cause.
        reason: String,
        /// The advice: repeat the same call, or read the timer first.
        retry: RetryAdvice,
    },
    /// A call that changes nothing was sent, and was not answered.
    #[error("no answer, and nothing was changed: {reason}; repeat the call")]
    NoAnswer {
        /// `aborted`, `deadline_exceeded` or `internal`.
        code: Code,
        /// The cause.
        reason: String,
    },
    /// The server answered something that this client does not understand.
    #[error(
        "the answer of the server cannot be read: {0}; use a client that is as new as the server"
    )]
    Answer(String),
}

/// The advice of an error: another try helps or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    /// The same call is refused again: change it.
    Never,
    /// Read the timer first: it is in another state than the call expected, or may be.
    AfterRead,
    /// The same call again, after this wait.
    After(Duration),
}

/// The certainty that a failed call was not carried out, and the wait before another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// It is refused again.
    No,
    /// It was surely not carried out, and may be next time, after this wait at least.
    NotDone(Duration),
    /// It may have been carried out.
    Perhaps(Duration),
}

impl Error {
    /// Returns the stable code of the contract, the same as over HTTP.
    pub fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidArgument,
            Self::Refused(refusal) => refusal.code,
            Self::Unreachable { .. } | Self::Foreign { .. } => Code::Unavailable,
            Self::TooLate { .. } => Code::DeadlineExceeded,
            Self::Unknown { code, .. } | Self::NoAnswer { code, .. } => *code,
            Self::Answer(_) => Code::Internal,
        }
    }

    /// Returns the advice to repeat the call or not.
    pub fn retry(&self) -> RetryAdvice {
        match self {
            Self::Invalid(_) | Self::Foreign { .. } | Self::Answer(_) => RetryAdvice::Never,
            Self::Refused(refusal) => refusal.retry(),
            Self::Unreachable { .. } => RetryAdvice::After(Duration::from_secs(1)),
            Self::TooLate { .. } | Self::NoAnswer { .. } => RetryAdvice::After(Duration::ZERO),
            Self::Unknown { retry, .. } => *retry,
        }
    }

    /// Returns `true` if it is certain that nothing was changed.
    pub const fn is_not_done(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::Foreign { .. } | Self::Answer(_))
    }

    /// Returns the refusal of the server, if it is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Takes a path off the field at fault, where the server refused.
    pub(crate) fn without_path(self, path: &str) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(Box::new(refusal.without_path(path))),
            other => other,
        }
    }

    pub(crate) fn again(&self) -> Again {
        match self {
            Self::Unreachable { .. } => Again::NotDone(Duration::ZERO),
            Self::Refused(refusal) => match (refusal.code, refusal.retry_after()) {
                (Code::Unavailable, wait) => Again::NotDone(wait.unwrap_or_default()),
                (Code::ResourceExhausted, Some(wait)) => Again::NotDone(wait),
                _ => Again::No,
            },
            Self::Unknown { code: Code::Internal, .. } => Again::No,
            Self::Unknown { retry: RetryAdvice::After(wait), .. } => Again::Perhaps(*wait),
            Self::Unknown { .. } => Again::Perhaps(Duration::ZERO),
            Self::Invalid(_)
            | Self::Foreign { .. }
            | Self::TooLate { .. }
            | Self::NoAnswer { .. }
            | Self::Answer(_) => Again::No,
        }
    }

    /// The call was sent, and its time is over.
    pub(crate) fn no_answer(limit: Duration) -> Self {
        let reason = format!("no answer came within {} ms", limit.as_millis());
        Self::unknown(Code::DeadlineExceeded, reason)
    }

    /// The call was sent, and may have been carried out: read the timer first.
    pub(crate) fn unknown(code: Code, reason: impl Into<String>) -> Self {
        Self::Unknown { code, reason: reason.into(), retry: RetryAdvice::AfterRead }
    }

    /// The answer lacks something, or has what it should not.
    pub(crate) fn answer(what: impl Into<String>) -> Self {
        Self::Answer(what.into())
    }
}

/// Checks that the answer has a result for each item of the request.
pub(crate) fn check_count(results: usize, items: usize, what: &str) -> Result<()> {
    if results == items {
        return Ok(());
    }
    Err(Error::answer(format!("{results} results for {items} {what}")))
}

fn advice(retry: RetryAdvice) -> &'static str {
    match retry {
        RetryAdvice::Never => "report it with the lines of the server's log",
        RetryAdvice::AfterRead => "look at it before you repeat the call",
        RetryAdvice::After(_) => "repeat the same call",
    }
}

#[cfg(test)]
mod tests;
