//! The one layer that every gRPC request passes: admission, the time limits of caller and server, panics, metrics,
//! the bounds of requests and responses, and the conversion of library errors into Duly's.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use duly_core::{Code, Invalid, invalid::shorten};
use http::{HeaderMap, StatusCode, Uri};
use tokio::time::Instant;
use tonic::Status;

use super::{
    Problem, inbound, outbound,
    status::{CALLER_LIMIT, from_library, http_status},
};
use crate::{
    admission::{self, Arrival, Decision, admit},
    connection::Connection,
    memory::budget::Budget,
    operations::{self, CallKind, Right, UNKNOWN_PATH},
    service::{Admitted, App},
    telemetry::UNMATCHED,
};

/// The allowed form of `grpc-timeout`, the time limit of a caller.
const TIMEOUT_ALLOWED: &str = "1 to 8 digits and one of the units H, M, S, m, u, n";

/// Runs the layer.
pub(super) async fn edge(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let operation = operations::of_grpc(request.uri().path());
    let route = operation.and_then(|it| it.grpc).unwrap_or(UNMATCHED);
    let connection = request.extensions_mut().remove::<Connection>();
    let arrival = Arrival {
        protocol: "grpc",
        operation: operation.unwrap_or(&UNKNOWN_PATH),
        request: &request,
        connection: connection.as_ref(),
    };
    let mut caller = None;
    let form = || {
        operation.ok_or_else(|| unknown(request.uri()))?;
        caller = caller_limit(request.headers())?;
        Ok(())
    };
    let Decision { admitted, audited, kind, budget } = admit(&app, arrival, form);
    let response = match admitted {
        Ok(admitted) => {
            let budget = match kind {
                CallKind::Read | CallKind::Change => budget,
                CallKind::Probe | CallKind::Static => app.probes().clone(),
                CallKind::Health => app.health().clone(),
            };
            let operation = admitted.operation();
            let server = operation.time_limit.within(app.limits.request_timeout);
            let request = inbound::bounded(&app, operation, &budget, request);
            guarded(&budget, CallTimeLimits { server, caller }, admitted, request, next).await
        }
        Err(problem) => refuse(problem),
    };
    // Metrics and the audit log have the statuses of HTTP.
    let status = response.extensions().get::<Status>().map_or(StatusCode::OK, http_status);
    app.routes().record(route, status, started.elapsed());
    if let Some(audited) = audited {
        audited.end(status);
    }
    response
}

/// Returns the problem of an unknown path.
fn unknown(uri: &Uri) -> Problem {
    let path = shorten(uri.path());
    let detail = format!(
        "there is no method {path}: server reflection lists all, as does docs/reference/grpc.md"
    );
    Problem::new(Code::MethodNotAllowed, detail)
}

/// Returns the response to a refused call.
pub(super) fn refuse(problem: impl Into<Status>) -> Response {
    problem.into().into_http()
}

/// Time limits of a call.
#[derive(Debug, Clone, Copy)]
struct CallTimeLimits {
    /// The server's limit; none for a stream.
    server: Option<Duration>,
    /// The caller's limit.
    caller: Option<Duration>,
}

async fn guarded(
    budget: &Budget,
    limits: CallTimeLimits,
    admitted: Admitted,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let least = limits.server.into_iter().chain(limits.caller).min();
    let name = (limits.server != least).then_some(CALLER_LIMIT);
    let limit = least.unwrap_or(Duration::MAX);
    let is_stream = limits.server.is_none() && admitted.operation().right != Right::Open;
    let checked = is_stream.then(|| admitted.clone());
    match admission::run(admitted, limit, name, request, next).await {
        Ok(response) => {
            // A stream has its response at once; the caller's limit ends it later.
            let deadline =
                limits.caller.filter(|_| limits.server.is_none()).map(|caller| began + caller);
            outbound::bounded(budget, with_duly_status(response), deadline, checked)
        }
        Err(problem) => refuse(problem),
    }
}

/// Returns the response, with a status of the library replaced by one of Duly's.
fn with_duly_status(mut response: Response) -> Response {
    let Some(status) = response.extensions_mut().remove::<Status>() else { return response };
    let converted: Response<Body> = from_library(status).into_http();
    let (converted, body) = converted.into_parts();
    let mut response = response.map(|_| body);
    // Other headers of the library stay, such as the encodings that it supports.
    response.headers_mut().extend(converted.headers);
    response.extensions_mut().extend(converted.extensions);
    response
}

/// Returns the caller's time limit, if it has one.
fn caller_limit(headers: &HeaderMap) -> Result<Option<Duration>, Invalid> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let text = value.to_str().unwrap_or("unreadable");
    parse_timeout(text).map(Some).ok_or_else(|| Invalid::new("grpc-timeout", text, TIMEOUT_ALLOWED))
}

fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3_600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_of_the_protocol_is_known_and_nothing_else() {
        for (text, expected) in [
            ("1H", Duration::from_secs(3_600)),
            ("2M", Duration::from_secs(120)),
            ("99999999S", Duration::from_secs(99_999_999)),
            ("5m", Duration::from_millis(5)),
            ("6u", Duration::from_micros(6)),
            ("7n", Duration::from_nanos(7)),
        ] {
            assert_eq!(parse_timeout(text), Some(expected), "{text}");
        }
        for text in ["", "S", "1", "1s", "123456789S", "-1S", "1.5S", " 1S", "1S ", "1é"] {
            assert_eq!(parse_timeout(text), None, "{text}");
        }
    }
}
