//! What every request passes, in one layer: the guard, the time limit, panics, metrics, and the
//! framework's own errors turned into problems.

use std::{panic::AssertUnwindSafe, time::Duration};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};
use duly_core::{Code, error_code::Retry};
use futures::FutureExt;
use http::{StatusCode, header::ALLOW};
use tokio::time::{Instant, timeout};

use super::{App, Problem, lease};
use crate::{telemetry::UNMATCHED, wire::firing::LEASE_WAIT_MAX};

/// The layer.
pub(super) async fn edge(State(app): State<App>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    let response = match app.guard().check(request.uri(), request.headers()) {
        Ok(()) => guarded(time_for(&app, route), request, next).await,
        Err(problem) => problem.into_response(),
    };
    app.routes().record(route, response.status(), started.elapsed());
    response
}

async fn guarded(limit: Duration, request: Request, next: Next) -> Response {
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind();
    match timeout(limit, answered).await {
        Ok(Ok(response)) if response.status() == StatusCode::METHOD_NOT_ALLOWED => {
            method_not_allowed(response)
        }
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => panicked(&*panic).into_response(),
        Err(_) => too_late(limit).into_response(),
    }
}

fn time_for(app: &App, route: &str) -> Duration {
    let limit = app.limits().request_timeout;
    if route == lease::PATH { limit.saturating_add(LEASE_WAIT_MAX.to_std()) } else { limit }
}

fn too_late(limit: Duration) -> Problem {
    let detail = format!(
        "no answer within {} s; whether the change was made is not known: repeat the same call",
        limit.as_secs()
    );
    Problem::new(Code::DeadlineExceeded, detail).with_retry(Retry::Now)
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Problem {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    tracing::error!(panic = text, "a handler panicked");
    Problem::new(Code::Internal, "a fault in Duly; the log has more")
}

/// The framework answers 405 with an `Allow` header and no body.
fn method_not_allowed(response: Response) -> Response {
    let Some(allow) = response.headers().get(ALLOW).cloned() else {
        return response;
    };
    let methods = allow.to_str().unwrap_or_default().replace(',', ", ");
    let detail = format!("this path knows {methods}");
    let problem = Problem::new(Code::MethodNotAllowed, detail).at("method", None, &methods);
    let mut answer = problem.into_response();
    answer.headers_mut().insert(ALLOW, allow);
    answer
}
