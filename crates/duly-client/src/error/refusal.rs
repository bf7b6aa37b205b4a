//! Refusals of the server: the same members as an HTTP problem.

use std::time::Duration;

use duly_api::Problem;
use duly_core::Code;

use super::RetryAdvice;

/// The refusal of a call, or of one item of it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// The stable code.
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

    pub(super) fn retry(&self) -> RetryAdvice {
        match self.code {
            Code::AlreadyExists
            | Code::RevisionMismatch
            | Code::InFlight
            | Code::Finished
            | Code::Cancelled
            | Code::Dead
            | Code::NamespaceNotEmpty => RetryAdvice::AfterRead,
            Code::Unavailable => {
                RetryAdvice::After(self.retry_after().unwrap_or(Duration::from_secs(1)))
            }
            Code::ResourceExhausted => {
                self.retry_after().map_or(RetryAdvice::Never, RetryAdvice::After)
            }
            _ => RetryAdvice::Never,
        }
    }
}
