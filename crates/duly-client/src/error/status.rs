//! Converts gRPC statuses to errors of this crate.
//!
//! 1. A status that Duly made has an `ErrorInfo` with the code of the contract.
//! 2. The list of codes is open: a code that this client does not know counts by its status, as a refusal
//!    or as an unknown outcome.
//! 3. A status without an `ErrorInfo` comes from the gRPC library or from a proxy. Then only a connection
//!    that was never made proves that nothing was done.

use std::error::Error as _;

use duly_api::{Problem, State, Time, Words as _};
use duly_core::{Code, error_code::Repeat};
use tonic::{ConnectError, Status, TimeoutExpired};
use tonic_types::{ErrorDetails, StatusExt};

use super::{Error, Refusal, RetryAdvice};

/// The domain of Duly's `ErrorInfo`.
const DOMAIN: &str = "duly";

/// Returns the error of a failed call.
pub(crate) fn of_status(status: &Status, server: &str) -> Error {
    let details = status.get_error_details();
    let code = details
        .error_info()
        .filter(|info| info.domain == DOMAIN)
        .and_then(|info| info.metadata.get("code"));
    match code {
        Some(code) => said(with_details(problem(code, status), &details)),
        None if is_not_connected(status) => {
            Error::Unreachable { server: server.to_owned(), reason: reason(status) }
        }
        None if speaks_no_http_2(status) => Error::Foreign { server: server.to_owned() },
        None => of_others(status),
    }
}

/// Converts the problem of a refused item.
impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        said(problem)
    }
}

/// Returns the problem of a status with this code.
fn problem(code: &str, status: &Status) -> Problem {
    let Some(known) = code_of(code) else {
        let class = if is_refusal(status.code()) { 400 } else { 500 };
        let detail = status.message().to_owned();
        return Problem { code: code.to_owned(), status: class, detail, ..Problem::default() };
    };
    Problem::new(known, status.message())
}

/// Returns the error that Duly described.
fn said(mut problem: Problem) -> Error {
    name_whole_value(&mut problem);
    let code = code_of(&problem.code).unwrap_or(match problem.status {
        400..500 => Code::InvalidArgument,
        _ => Code::Aborted,
    });
    match code.repeat() {
        Repeat::SameCall => Error::unknown(code, problem.detail),
        Repeat::AfterCheck => {
            Error::Unknown { code, reason: problem.detail, retry: RetryAdvice::Never }
        }
        _ => Error::Refused(Box::new(Refusal { code, problem })),
    }
}

/// Names the field that the caller of this crate wrote. A time or a duration is one value there, and in the message that
/// was sent it has two parts.
fn name_whole_value(problem: &mut Problem) {
    let Some(field) = &problem.field else { return };
    let parts = [(".seconds", "in seconds"), (".nanos", "in nanoseconds")];
    let whole = parts.iter().find_map(|(part, unit)| Some((field.strip_suffix(part)?, unit)));
    if let Some((whole, unit)) = whole {
        problem.detail = problem.detail.replacen(&**field, &format!("{whole} {unit}"), 1);
        problem.field = Some(whole.to_owned());
    }
}

/// Returns `true` for the statuses of refusals: nothing changed.
fn is_refusal(status: tonic::Code) -> bool {
    use tonic::Code as Grpc;
    !matches!(
        status,
        Grpc::Unknown
            | Grpc::DeadlineExceeded
            | Grpc::Aborted
            | Grpc::Internal
            | Grpc::Unavailable
            | Grpc::DataLoss
            | Grpc::Cancelled
    )
}

/// Returns the error of a status that Duly did not make.
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
            refused(Code::MethodNotAllowed, ": check that this is the port of a Duly server")
        }
        Grpc::OutOfRange => Error::bad_response(format!(
            "{}: raise message_bytes_max of the builder, or request less",
            status.message()
        )),
        _ if is_too_late(status) => Error::unknown(Code::DeadlineExceeded, reason(status)),
        _ => {
            Error::unknown(Code::Aborted, format!("the call was interrupted ({})", reason(status)))
        }
    }
}

fn is_not_connected(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<ConnectError>())
}

/// Returns `true` if the first bytes from the peer are no HTTP/2 frame. An HTTP/1 server replies to the
/// HTTP/2 preface with a line of text. Its first letters, read as a frame length, are too large. (A peer
/// that speaks HTTP/2 ends a connection with an error of its own, which is another one.)
fn speaks_no_http_2(status: &Status) -> bool {
    causes(status)
        .filter_map(|cause| cause.downcast_ref::<h2::Error>())
        .any(|error| error.is_library() && error.reason() == Some(h2::Reason::FRAME_SIZE_ERROR))
}

fn is_too_late(status: &Status) -> bool {
    status.code() == tonic::Code::DeadlineExceeded
        || causes(status).any(|cause| cause.is::<TimeoutExpired>())
}

/// Returns the message with its innermost cause.
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

fn with_details(mut problem: Problem, details: &ErrorDetails) -> Problem {
    let Some(info) = details.error_info() else { return problem };
    let text = |name: &str| info.metadata.get(name).cloned();
    let number = |name: &str| text(name).and_then(|text| text.parse().ok());
    problem.field = text("field");
    problem.seen = text("seen");
    problem.allowed = text("allowed");
    problem.outcome = text("outcome");
    let state = text("state").and_then(|text| State::parse(&text));
    problem.state = state.unwrap_or_default().into();
    let leased_until = text("leased_until").map(Time::Text);
    problem.leased_until = leased_until.and_then(|time| time.check("").ok()).map(Time::from);
    problem.attempts = number("attempts");
    problem.maybe_delivered = text("maybe_delivered").and_then(|text| text.parse().ok());
    problem.expected_revision = number("expected_revision");
    problem.actual_revision = number("actual_revision");
    let wait = details.retry_info().and_then(|info| info.retry_delay);
    problem.retry_after_ms = wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    problem
}

/// Returns the code with this name.
fn code_of(word: &str) -> Option<Code> {
    Code::ALL.into_iter().find(|code| code.as_str() == word)
}
