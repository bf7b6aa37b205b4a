//! What a call of `duly-client` failed of: the problem document of HTTP for programs, and its
//! sentence for people.

use duly_client::{Code, Error, Refusal};
use serde::Serialize;

use super::TimeOut;
use crate::{
    failure::Failure,
    http::{self, Hint},
};

#[derive(Serialize)]
struct ProblemOut<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
    /// The definite answer to a cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leased_until: Option<TimeOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maybe_delivered: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_revision: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    actual_revision: Option<u32>,
}

/// The failure that an error is, with what to type next after a refusal with one of these codes.
pub(crate) fn failure(error: &Error, hints: &[Hint]) -> Failure {
    with_outcome(error, None, hints)
}

/// The failure of a cancel, whose refusals are definite answers.
pub(crate) fn of_cancel(error: &Error, hints: &[Hint]) -> Failure {
    let outcome = match error.code() {
        code @ (Code::InFlight | Code::Finished | Code::Dead | Code::NotFound) => {
            Some(code.as_str())
        }
        _ => None,
    };
    with_outcome(error, outcome, hints)
}

/// The problem document of a refused item.
pub(crate) fn of_item(error: &Error) -> String {
    match error.refusal() {
        Some(refusal) => document(refusal, None),
        None => bare(error.code(), &error.to_string()),
    }
}

fn with_outcome(error: &Error, outcome: Option<&'static str>, hints: &[Hint]) -> Failure {
    match error {
        Error::Refused(refusal) => http::refused(document(refusal, outcome), hints),
        Error::Invalid(invalid) => Failure::usage(invalid),
        Error::Unreachable { server, reason } => http::nobody_there(server, reason),
        Error::Foreign { server } => http::foreign(server),
        Error::Unknown { code: Code::Internal, reason, .. } => {
            http::refused(bare(Code::Internal, reason), hints)
        }
        Error::Unknown { reason, .. } => http::unknown(reason),
        Error::NoAnswer { .. } => Failure::coded("no_answer", error),
        Error::Answer(_) => Failure::coded("not_duly", error),
        _ => Failure::new(error),
    }
}

fn bare(code: Code, detail: &str) -> String {
    super::json(&out(code, detail))
}

fn document(refusal: &Refusal, outcome: Option<&'static str>) -> String {
    let wait_ms =
        refusal.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    super::json(&ProblemOut {
        field: refusal.field.as_deref(),
        seen: refusal.seen.as_deref(),
        allowed: refusal.allowed.as_deref(),
        retry_after_ms: wait_ms,
        state: refusal.state.map(|state| state.as_str()),
        outcome,
        leased_until: refusal.leased_until.map(TimeOut),
        attempts: refusal.attempts,
        maybe_delivered: refusal.maybe_delivered,
        expected_revision: refusal.expected_revision,
        actual_revision: refusal.actual_revision,
        ..out(refusal.code, &refusal.detail)
    })
}

fn out(code: Code, detail: &str) -> ProblemOut<'_> {
    ProblemOut {
        r#type: format!("urn:duly:problem:{}", code.as_str()),
        title: code.title(),
        status: code.http_status(),
        code: code.as_str(),
        detail,
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
