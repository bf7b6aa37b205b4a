//! Statuses of gRPC as errors of this crate.
//!
//! What Duly itself says carries an `ErrorInfo` with the code of the contract. Without one it was
//! said by the library, by a proxy in between, or by nobody: then only a connection that was never
//! made is a proof that nothing was done.

use std::error::Error as _;

use duly_core::{Code, State, Timestamp};
use duly_proto::v1;
use tonic::{ConnectError, Status, TimeoutExpired};
use tonic_types::{ErrorDetails, StatusExt};

use super::{Error, Refusal, Retry};
use crate::wire::time::moment;

/// Who makes the reasons of `ErrorInfo`.
const DOMAIN: &str = "duly";

/// The error that a failed call is.
pub(crate) fn of_status(status: &Status, server: &str) -> Error {
    let details = status.get_error_details();
    let code = details
        .error_info()
        .filter(|info| info.domain == DOMAIN)
        .and_then(|info| info.metadata.get("code"))
        .and_then(|code| code_of(code));
    match code {
        Some(code) => said(code, status.message().to_owned(), |code, detail| {
            with_details(Refusal::new(code, detail), &details)
        }),
        None if is_not_connected(status) => {
            Error::Unreachable { server: server.to_owned(), reason: reason(status) }
        }
        None if speaks_no_http_2(status) => Error::Foreign { server: server.to_owned() },
        None => of_others(status),
    }
}

/// The error that a refused item is.
pub(crate) fn of_problem(problem: v1::Problem) -> Error {
    let Some(code) = code_of(&problem.code) else {
        return Error::answer(format!("the code {} is not known", problem.code));
    };
    let detail = problem.detail.clone();
    said(code, detail, |code, _| Refusal::of_problem(code, problem))
}

/// What Duly said.
fn said(code: Code, detail: String, refusal: impl FnOnce(Code, String) -> Refusal) -> Error {
    match code {
        Code::Aborted | Code::DeadlineExceeded => {
            Error::Unknown { code, reason: detail, retry: Retry::AfterRead }
        }
        Code::Internal => Error::Unknown { code, reason: detail, retry: Retry::Never },
        _ => Error::Refused(Box::new(refusal(code, detail))),
    }
}

/// What somebody else said.
fn of_others(status: &Status) -> Error {
    use tonic::Code as Grpc;
    let refused = |code, hint: &str| {
        let detail = format!("{}{hint}", status.message());
        Error::Refused(Box::new(Refusal::new(code, detail)))
    };
    match status.code() {
        Grpc::Unauthenticated => refused(Code::Unauthenticated, ": give the builder a token"),
        Grpc::PermissionDenied => refused(Code::PermissionDenied, ""),
        Grpc::InvalidArgument => refused(Code::InvalidArgument, ""),
        Grpc::Unimplemented => {
            refused(Code::MethodNotAllowed, ": is this the port of a Duly server?")
        }
        Grpc::OutOfRange => Error::answer(format!(
            "{}: raise message_bytes_max of the builder, or ask for less",
            status.message()
        )),
        _ if is_too_late(status) => Error::Unknown {
            code: Code::DeadlineExceeded,
            reason: reason(status),
            retry: Retry::AfterRead,
        },
        _ => Error::Unknown {
            code: Code::Aborted,
            reason: format!("the call broke off ({})", reason(status)),
            retry: Retry::AfterRead,
        },
    }
}

fn is_not_connected(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<ConnectError>())
}

/// Whether the first thing that came is no frame of HTTP/2. Servers of HTTP/1 answer the opening of
/// HTTP/2 by a line of text, whose first letters are the length of a frame that nobody takes.
/// (One that speaks HTTP/2 ends a connection with an error of its own, which is not this one.)
fn speaks_no_http_2(status: &Status) -> bool {
    causes(status)
        .filter_map(|cause| cause.downcast_ref::<h2::Error>())
        .any(|error| error.is_library() && error.reason() == Some(h2::Reason::FRAME_SIZE_ERROR))
}

fn is_too_late(status: &Status) -> bool {
    status.code() == tonic::Code::DeadlineExceeded
        || causes(status).any(|cause| cause.is::<TimeoutExpired>())
}

/// The message and what lies behind it, innermost last.
fn reason(status: &Status) -> String {
    let innermost = causes(status).last().map(ToString::to_string);
    match innermost {
        Some(cause) if !status.message().contains(&cause) => {
            format!("{}: {cause}", status.message())
        }
        _ => status.message().to_owned(),
    }
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let mut next = status.source();
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

fn with_details(mut refusal: Refusal, details: &ErrorDetails) -> Refusal {
    let Some(info) = details.error_info() else { return refusal };
    let text = |name: &str| info.metadata.get(name).cloned();
    let number = |name: &str| text(name).and_then(|text| text.parse().ok());
    refusal.field = text("field");
    refusal.seen = text("seen");
    refusal.allowed = text("allowed");
    refusal.state = text("state").and_then(|text| State::parse(&text));
    refusal.leased_until =
        text("leased_until").and_then(|text| Timestamp::parse(&text).ok()).map(moment);
    refusal.attempts = number("attempts");
    refusal.maybe_delivered = text("maybe_delivered").and_then(|text| text.parse().ok());
    refusal.expected_revision = number("expected_revision");
    refusal.actual_revision = number("actual_revision");
    refusal.retry_after = details.retry_info().and_then(|info| info.retry_delay);
    refusal
}

/// A code by its word.
fn code_of(word: &str) -> Option<Code> {
    Code::ALL.into_iter().find(|code| code.as_str() == word)
}
