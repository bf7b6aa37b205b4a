//! What the server says when it refuses something: the same members as an HTTP problem.

use std::time::{Duration, SystemTime};

use duly_core::{Code, State};
use duly_proto::v1;

use super::Retry;
use crate::wire::time::{duration_from, state_from, time_from};

/// Why the server refused a call; what is not known is absent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// What was wrong here, and what to do.
    pub detail: String,
    /// Path of the field at fault.
    pub field: Option<String>,
    /// The value that was seen, shortened.
    pub seen: Option<String>,
    /// What is allowed.
    pub allowed: Option<String>,
    /// After how long another try can help.
    pub retry_after: Option<Duration>,
    /// The state of the timer, where it is the reason.
    pub state: Option<State>,
    /// When the lease of a firing in flight ends.
    pub leased_until: Option<SystemTime>,
    /// Attempts so far.
    pub attempts: Option<u32>,
    /// Whether one of them may have arrived.
    pub maybe_delivered: Option<bool>,
    /// The revision that was asked for.
    pub expected_revision: Option<u32>,
    /// The revision that the timer has.
    pub actual_revision: Option<u32>,
}

impl Refusal {
    /// One with nothing but a code and a sentence.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            field: None,
            seen: None,
            allowed: None,
            retry_after: None,
            state: None,
            leased_until: None,
            attempts: None,
            maybe_delivered: None,
            expected_revision: None,
            actual_revision: None,
        }
    }

    /// The refusal of one item.
    pub(crate) fn of_problem(code: Code, problem: v1::Problem) -> Self {
        Self {
            code,
            detail: problem.detail,
            field: problem.field,
            seen: problem.seen,
            allowed: problem.allowed,
            retry_after: problem.retry_after.map(duration_from),
            state: state_from(problem.state),
            leased_until: problem.leased_until.and_then(time_from),
            attempts: problem.attempts,
            maybe_delivered: problem.maybe_delivered,
            expected_revision: problem.expected_revision,
            actual_revision: problem.actual_revision,
        }
    }

    /// Takes a path off the field at fault and the sentence: the place of an operation in a batch
    /// that the caller knows nothing of.
    pub(crate) fn without_path(mut self, path: &str) -> Self {
        if let Some(rest) = self.field.as_deref().and_then(|field| field.strip_prefix(path)) {
            self.field = Some(rest.to_owned());
            self.detail = self.detail.replace(path, "");
        }
        self
    }

    pub(super) fn retry(&self) -> Retry {
        match self.code {
            Code::AlreadyExists
            | Code::RevisionMismatch
            | Code::InFlight
            | Code::Finished
            | Code::Cancelled
            | Code::Dead
            | Code::NamespaceNotEmpty => Retry::AfterRead,
            Code::Unavailable => Retry::After(self.retry_after.unwrap_or(Duration::from_secs(1))),
            Code::ResourceExhausted => self.retry_after.map_or(Retry::Never, Retry::After),
            _ => Retry::Never,
        }
    }
}
