//! Converts problems into gRPC statuses, with rich details for programs.
//!
//! 1. Every status that leaves the server has an `ErrorInfo` with the code of the contract.
//! 2. A field at fault is a `BadRequest`; a wait that helps is a `RetryInfo`.
//! 3. An error of the library becomes a problem first, so that it names a remedy as well.

use std::{collections::HashMap, time::Duration};

use duly_api::{State, Words as _};
use duly_core::{Code, error_code::Retry};
use http::StatusCode;
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

use crate::{problem::Problem, service::no_response};

/// The time limit of a caller.
pub(super) const CALLER_LIMIT: &str = "within the caller's grpc-timeout";
/// Name of the code of the contract in the metadata of `ErrorInfo`.
const CODE: &str = "code";
/// The domain of the reasons in `ErrorInfo`.
const DOMAIN: &str = "duly";

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        let code = problem.code();
        let problem = *problem.into_body();
        let mut details = ErrorDetails::new();
        let mut metadata = HashMap::from([(CODE.to_owned(), code.as_str().to_owned())]);
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                metadata.insert(name.to_owned(), value);
            }
        };
        add("field", problem.field.clone());
        add("seen", problem.seen);
        add("allowed", problem.allowed.clone());
        let state =
            State::try_from(problem.state).ok().filter(|state| *state != State::Unspecified);
        add("state", state.map(|state| state.as_str().to_owned()));
        add("outcome", problem.outcome);
        add("leased_until", problem.leased_until.map(|until| until.to_string()));
        add("attempts", problem.attempts.map(|count| count.to_string()));
        add("maybe_delivered", problem.maybe_delivered.map(|it| it.to_string()));
        add("expected_revision", problem.expected_revision.map(|it| it.to_string()));
        add("actual_revision", problem.actual_revision.map(|it| it.to_string()));
        details.set_error_info(code.as_str().to_ascii_uppercase(), DOMAIN, metadata);
        let status = tonic::Code::from_i32(code.grpc_status());
        if let Some(field) = problem.field.filter(|_| status == tonic::Code::InvalidArgument) {
            let allowed = problem.allowed.unwrap_or_default();
            details.add_bad_request_violation(field, format!("must be {allowed}"));
        }
        if let Some(wait_ms) = problem.retry_after_ms {
            details.set_retry_info(Some(Duration::from_millis(wait_ms)));
        }
        Self::with_error_details(status, problem.detail, details)
    }
}

/// Returns the HTTP status of the code that a status carries.
pub(super) fn http_status(status: &Status) -> StatusCode {
    let info = status.get_details_error_info();
    let name = info.and_then(|mut info| info.metadata.remove(CODE)).unwrap_or_default();
    let code = Code::ALL.into_iter().find(|code| code.as_str() == name).unwrap_or(Code::Internal);
    StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Returns a status of the library as one of Duly's.
pub(super) fn from_library(status: Status) -> Status {
    if !status.details().is_empty() {
        return status;
    }
    let message = status.message();
    match status.code() {
        // An invalid or missing message.
        tonic::Code::Internal => {
            let detail = format!(
                "the message cannot be read ({message}): send one as the .proto files define it"
            );
            Problem::new(Code::InvalidArgument, detail)
                .at("message", None, "an encoded message of the method's type")
                .into()
        }
        tonic::Code::OutOfRange => {
            Problem::new(Code::RequestTooLarge, format!("{message}: split the request")).into()
        }
        // The protocol requires this code, so it stays; `message` names a remedy.
        tonic::Code::Unimplemented => Problem::new(Code::MethodNotAllowed, message).into(),
        tonic::Code::DeadlineExceeded => stream_deadline_exceeded(),
        _ => {
            let detail = format!("the call broke off ({message}): repeat it");
            Problem::new(Code::Aborted, detail).with_retry(Retry::Now).into()
        }
    }
}

/// Returns the status of a stream over its caller's time limit, whose last change may have been made or not.
pub(super) fn stream_deadline_exceeded() -> Status {
    no_response(false, CALLER_LIMIT).into()
}

/// Returns the status of a call that waits while the server stops.
pub(super) fn stopping() -> Status {
    let detail = "the server is stopping: reconnect, and repeat the call";
    Problem::temporary(Code::Unavailable, detail).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_counts_with_its_http_status() {
        for code in Code::ALL {
            let status = Status::from(Problem::new(code, "x"));
            assert_eq!(http_status(&status).as_u16(), code.http_status(), "{code:?}");
        }
        let unknown = from_library(Status::unimplemented("x"));
        assert_eq!(http_status(&unknown), StatusCode::METHOD_NOT_ALLOWED);
    }
}
