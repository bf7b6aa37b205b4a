//! Refusals: the same members as an HTTP problem.

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
    /// The description of the server: the fault, the field, the state of the timer.
    pub problem: Problem,
}

impl Refusal {
    /// Returns a refusal with nothing but a code and a sentence.
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, problem: Problem::new(code, detail) }
    }

    /// Returns the time after which another try can help; none where none can.
    pub fn retry_after(&self) -> Option<Duration> {
        self.problem.retry_after_ms.map(Duration::from_millis)
    }

    /// Takes a path off the field at fault and the sentence: the place in a batch that the caller did not
    /// write.
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
