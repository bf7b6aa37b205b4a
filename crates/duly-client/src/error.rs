//! Errors, with the advice to repeat a call or not.
//!
//! Every error has a text for people, a stable code ([`Error::code`]) and an advice ([`Error::retry`]).
//! When a call returns an error, the client has already repeated it as far as that is safe, by the rules
//! of [`crate::retry`].

mod status;

use std::{fmt::Debug, time::Duration};

pub(crate) use self::status::of_status;
use duly_api::Problem;
use duly_core::error_code::Repeat;
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
    /// The server refused the call; nothing changed.
    #[error("{} ({})", .0.problem.detail, .0.problem.code)]
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
    /// The peer at the address does not speak HTTP/2, so it cannot speak gRPC.
    #[error(
        "the server at {server} does not use HTTP/2, which gRPC needs: check that it is a Duly server, and that a proxy in front of it forwards gRPC"
    )]
    Foreign {
        /// The URL that was given to the builder.
        server: String,
    },
    /// The time of the call ended before it was sent; nothing was done.
    #[error("nothing was sent within {} ms: {reason}; repeat the call, or give it more time", .limit.as_millis())]
    TooLate {
        /// Time that the call had.
        limit: Duration,
        /// The cause of the delay.
        reason: String,
    },
    /// The call was sent, and its outcome is unknown.
    #[error("the outcome is unknown: {reason}; {}", advice(*.retry))]
    Unknown {
        /// `aborted`, `deadline_exceeded` or `internal`.
        code: Code,
        /// The cause.
        reason: String,
        /// The advice: repeat the same call, or read the timer first.
        retry: RetryAdvice,
    },
    /// A call that changes nothing was sent, and no response came.
    #[error("no response, and nothing was changed: {reason}; repeat the call")]
    NoResponse {
        /// `aborted`, `deadline_exceeded` or `internal`.
        code: Code,
        /// The cause.
        reason: String,
    },
    /// A list came to its end without the timers of shards that were unavailable.
    #[error(
        "the list is incomplete: shards {shards:?} are unavailable, and their timers are missing; list again when they are back"
    )]
    Incomplete {
        /// The shards, in their order.
        shards: Vec<u32>,
    },
    /// The server's response cannot be understood by this client.
    #[error(
        "the response of the server cannot be parsed: {0}; use a client of the server's version or a later one"
    )]
    BadResponse(String),
}

/// The advice of an error: repeat the call or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    /// Do not repeat: the same call is refused again. Change it.
    Never,
    /// Read the timer first: it is, or may be, in another state than the call expected.
    AfterRead,
    /// Repeat the same call, after this wait.
    After(Duration),
}

/// The certainty that a failed call was not carried out, and the wait before the next try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// A repetition would be refused as well.
    Never,
    /// The call was certainly not carried out. A repetition may succeed, after at least this wait.
    Safe(Duration),
    /// The call may have been carried out.
    Unknown(Duration),
}

impl Error {
    /// Returns the stable code of the contract, the same as over HTTP.
    pub fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidArgument,
            Self::Refused(refusal) => refusal.code,
            Self::Unreachable { .. } | Self::Foreign { .. } | Self::Incomplete { .. } => {
                Code::Unavailable
            }
            Self::TooLate { .. } => Code::DeadlineExceeded,
            Self::Unknown { code, .. } | Self::NoResponse { code, .. } => *code,
            Self::BadResponse(_) => Code::Internal,
        }
    }

    /// Returns the advice to repeat the call or not.
    pub fn retry(&self) -> RetryAdvice {
        match self {
            Self::Invalid(_) | Self::Foreign { .. } | Self::BadResponse(_) => RetryAdvice::Never,
            Self::Refused(refusal) => refusal.retry(),
            Self::Unreachable { .. } | Self::Incomplete { .. } => {
                RetryAdvice::After(Duration::from_secs(1))
            }
            Self::TooLate { .. } | Self::NoResponse { .. } => RetryAdvice::After(Duration::ZERO),
            Self::Unknown { retry, .. } => *retry,
        }
    }

    /// Returns `true` if it is certain that nothing was changed.
    pub const fn is_not_done(&self) -> bool {
        !matches!(self, Self::Unknown { .. } | Self::Foreign { .. } | Self::BadResponse(_))
    }

    /// Returns the server's refusal, if the error is one.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Removes a path prefix from the field of a server's refusal.
    pub(crate) fn without_path(self, path: &str) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(Box::new(refusal.without_path(path))),
            other => other,
        }
    }

    pub(crate) fn repetition(&self) -> Repetition {
        match self {
            Self::Unreachable { .. } => Repetition::Safe(Duration::ZERO),
            Self::Refused(refusal) => match (refusal.code.repeat(), refusal.retry_after()) {
                (Repeat::AfterWait, wait) => Repetition::Safe(wait.unwrap_or_default()),
                (Repeat::IfTold, Some(wait)) => Repetition::Safe(wait),
                _ => Repetition::Never,
            },
            Self::Unknown { code, .. } if code.repeat() == Repeat::AfterCheck => Repetition::Never,
            Self::Unknown { retry: RetryAdvice::After(wait), .. } => Repetition::Unknown(*wait),
            Self::Unknown { .. } => Repetition::Unknown(Duration::ZERO),
            Self::Invalid(_)
            | Self::Foreign { .. }
            | Self::TooLate { .. }
            | Self::NoResponse { .. }
            | Self::Incomplete { .. }
            | Self::BadResponse(_) => Repetition::Never,
        }
    }

    /// Returns the error of a call that was sent and got no response in time.
    pub(crate) fn no_response(limit: Duration) -> Self {
        let reason = format!("no response within {} ms", limit.as_millis());
        Self::unknown(Code::DeadlineExceeded, reason)
    }

    /// Returns the error of a call that was sent and may have been carried out: read the timer first.
    pub(crate) fn unknown(code: Code, reason: impl Into<String>) -> Self {
        Self::Unknown { code, reason: reason.into(), retry: RetryAdvice::AfterRead }
    }

    /// Returns the error of a response that lacks a member, or has an unexpected one.
    pub(crate) fn bad_response(what: impl Into<String>) -> Self {
        Self::BadResponse(what.into())
    }
}

/// The refusal of a call, or of one item of it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// The stable code. For a code of a newer server, which only `problem` names, it is
    /// [`Code::InvalidArgument`].
    pub code: Code,
    /// The server's description: the fault, the field, the state of the timer.
    pub problem: Problem,
}

impl Refusal {
    /// Returns a refusal with only a code and a detail text.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, problem: Problem::new(code, detail) }
    }

    /// Returns the time after which a repetition can succeed; none if it cannot.
    pub fn retry_after(&self) -> Option<Duration> {
        self.problem.retry_after_ms.map(Duration::from_millis)
    }

    /// Removes a path prefix from the field and the detail text: the index in a batch, which the caller
    /// did not write.
    pub(crate) fn without_path(mut self, path: &str) -> Self {
        let field = self.problem.field.as_deref();
        if let Some(rest) = field.and_then(|field| field.strip_prefix(path)) {
            self.problem.field = Some(rest.to_owned());
            self.problem.detail = self.problem.detail.replace(path, "");
        }
        self
    }

    fn retry(&self) -> RetryAdvice {
        let wait = self.retry_after();
        match self.code.repeat() {
            Repeat::AfterRead => RetryAdvice::AfterRead,
            Repeat::AfterWait => RetryAdvice::After(wait.unwrap_or(Duration::from_secs(1))),
            Repeat::IfTold => wait.map_or(RetryAdvice::Never, RetryAdvice::After),
            Repeat::Never | Repeat::SameCall | Repeat::AfterCheck => RetryAdvice::Never,
        }
    }
}

/// Checks that the response has a result for each item of the request.
pub(crate) fn check_count(results: usize, items: usize, what: &str) -> Result<()> {
    if results == items {
        return Ok(());
    }
    Err(Error::bad_response(format!("{results} results for {items} {what}")))
}

/// Checks that the caller runs within a Tokio runtime.
pub(crate) fn check_runtime(field: &str, allowed: &str) -> Result<(), Invalid> {
    tokio::runtime::Handle::try_current()
        .map(drop)
        .map_err(|_outside| Invalid::unseen(field, allowed))
}

/// Checks that a number or a duration is within its bounds.
pub(crate) fn within<T: PartialOrd + Debug>(
    field: &str,
    value: T,
    min: T,
    max: T,
) -> Result<(), Invalid> {
    if value >= min && value <= max {
        return Ok(());
    }
    Err(Invalid::new(field, format_args!("{value:?}"), format!("from {min:?} to {max:?}")))
}

fn advice(retry: RetryAdvice) -> &'static str {
    match retry {
        RetryAdvice::Never => "report it with the lines of the server's log",
        RetryAdvice::AfterRead => "read the timer before you repeat the call",
        RetryAdvice::After(_) => "repeat the same call",
    }
}

#[cfg(test)]
mod tests;
