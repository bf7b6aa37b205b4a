//! A problem as RFC 9457 has it, with Duly's own members.

use duly_core::{Code, State, error_code::Retry};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::TimeOut;

/// Why a request, or an item of one, was refused.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemOut {
    /// `urn:duly:problem:` and the code.
    #[serde(rename = "type", serialize_with = "urn")]
    #[schema(value_type = String, example = "urn:duly:problem:invalid_argument")]
    kind: Code,
    /// One per code, for people.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// The stable code.
    #[serde(serialize_with = "word")]
    #[schema(value_type = String, example = "invalid_argument")]
    code: Code,
    /// What was wrong here, and what to do.
    pub detail: String,
    /// Path of the field at fault: `operations[3].schedule.due_at`, a query parameter, a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The value that was seen, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
    /// What is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// When another try can help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The state of the timer, where it is the reason.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "state")]
    #[schema(value_type = Option<String>)]
    pub state: Option<State>,
    /// The definite answer to a cancel: `in_flight`, `finished`, `dead` or `not_found`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<&'static str>,
    /// When the lease of a firing in flight ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub leased_until: Option<TimeOut>,
    /// Attempts so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Whether one of them may have arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maybe_delivered: Option<bool>,
    /// The revision that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_revision: Option<u32>,
    /// The revision that the timer has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual_revision: Option<u32>,
}

impl ProblemOut {
    /// A problem with nothing but its code and a sentence.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: code,
            title: code.title(),
            status: code.http_status(),
            code,
            detail: detail.into(),
            field: None,
            seen: None,
            allowed: None,
            retry_after_ms: None,
            state: None,
            outcome: None,
            leased_until: None,
            attempts: None,
            maybe_delivered: None,
            expected_revision: None,
            actual_revision: None,
        }
    }

    /// Its code.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Says when another try can help.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry_after_ms = match retry {
            Retry::Never => None,
            Retry::Now => Some(0),
            Retry::After(wait) => Some(wait.ms()),
        };
        self
    }
}

fn urn<S: Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("urn:duly:problem:{}", code.as_str()))
}

fn word<S: Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.as_str())
}

fn state<S: Serializer>(state: &Option<State>, serializer: S) -> Result<S::Ok, S::Error> {
    match state {
        Some(state) => serializer.serialize_str(state.as_str()),
        None => serializer.serialize_none(),
    }
}
