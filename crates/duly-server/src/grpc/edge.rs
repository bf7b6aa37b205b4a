//! The one layer that every gRPC request passes: the guard, the time limits of caller and server,
//! panics, metrics, the bounds of requests and responses, and the conversion of library errors into
//! Duly's.

use std::{panic::AssertUnwindSafe, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use duly_core::{Code, invalid::shorten};
use futures::FutureExt;
use http::{StatusCode, Uri};
use tokio::time::{Instant, timeout};
use tonic::Status;

use super::{
    deadline, inbound, methods, outbound,
    status::{of_library, too_late},
};
use crate::{
    http::{
        App, ChangesNothing, Made, Problem, Taken, body::check_content_encoding, budget::Budget,
        notice::noticed,
    },
    telemetry::UNMATCHED,
};

/// Runs the layer.
pub(super) async fn edge(State(app): State<App>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = methods::known(request.uri().path());
    let taken = request.extensions().get::<Taken>().cloned();
    let under_way = taken.as_ref().map(Taken::begin);
    let checked = app
        .guard()
        .check(request.uri(), request.headers())
        .and_then(|()| check_content_encoding(request.headers()))
        .and_then(|()| method.ok_or_else(|| unknown(request.uri())))
        .and_then(|method| {
            method.made.check_room(&app)?;
            Ok((method, deadline::given(request.headers())?))
        });
    let response = match checked {
        Ok((method, given)) => {
            let ours = method.limit(&app);
            let budget = match method.made {
                Made::Reading | Made::Change => app.budget(),
                Made::Probe => app.probes(),
                Made::Health => app.health(),
            };
            let mut request = inbound::bounded(&app, method, budget, request);
            let changes_nothing = ChangesNothing::by(method.made);
            request.extensions_mut().insert(changes_nothing.clone());
            guarded(budget, Limits { ours, given }, &changes_nothing, request, next).await
        }
        Err(problem) => refuse(problem),
    };
    let status = response.extensions().get::<Status>().map_or(tonic::Code::Ok, Status::code);
    let route = method.map_or(UNMATCHED, |method| method.path.as_str());
    app.routes().record(route, counted_as(status), started.elapsed());
    match taken.zip(under_way) {
        Some((taken, call)) => taken.watch(response, call),
        None => response,
    }
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
struct Limits {
    /// The server's limit; none for a stream.
    ours: Option<Duration>,
    /// The caller's limit.
    given: Option<Duration>,
}

async fn guarded(
    budget: &Budget,
    limits: Limits,
    changes_nothing: &ChangesNothing,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let answered = AssertUnwindSafe(noticed(next.run(request))).catch_unwind();
    let least = limits.ours.into_iter().chain(limits.given).min();
    let response = match least {
        Some(least) => match timeout(least, answered).await {
            Ok(answered) => answered,
            Err(_elapsed) => {
                let limit = limits.ours.filter(|ours| *ours == least);
                return refuse(too_late(limit, changes_nothing));
            }
        },
        None => answered.await,
    };
    match response {
        Ok(response) => {
            // A stream has its response at once; the caller's limit ends it later.
            let until = limits.given.filter(|_| limits.ours.is_none()).map(|given| began + given);
            outbound::bounded(budget, ours(response), until)
        }
        Err(panic) => refuse(Problem::panicked(&*panic)),
    }
}

/// Returns the response, with a status of the library replaced by one of Duly's.
fn ours(mut response: Response) -> Response {
    let Some(status) = response.extensions_mut().remove::<Status>() else { return response };
    let said: Response<Body> = of_library(status).into_http();
    let (said, body) = said.into_parts();
    let mut response = response.map(|_| body);
    // Other headers of the library stay, such as the encodings that it supports.
    response.headers_mut().extend(said.headers);
    response.extensions_mut().extend(said.extensions);
    response
}

/// Returns the HTTP status that stands for a code in the metrics, which are those of HTTP.
const fn counted_as(code: tonic::Code) -> StatusCode {
    use tonic::Code;
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::FailedPrecondition | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}
