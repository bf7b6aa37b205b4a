//! Responds to requests before the store is open.
//!
//! Opening reads a checkpoint and the journal behind it, which takes seconds with very many pending
//! timers. An operator must not mistake that for a hang, and a caller must not wait without information.
//!
//! 1. `/healthz` reports that the process is alive.
//! 2. `/readyz` reports the progress, which `start` sends.
//! 3. `/metrics` and `/openapi.json` respond as usual; the gauges of the store are missing.
//! 4. Every other call is told to retry.

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing,
};

use super::{Problem, cors::Cors, elsewhere, health, openapi, response::HandlerResult, unread};
use crate::{
    operations::{HEALTHZ, METRICS, READYZ},
    service::{StartupProgress, StartupState},
};

/// Returns the router of `server.admin_listen` while the store opens.
pub(crate) fn admin_router(startup: StartupState) -> Router {
    probes()
        .fallback(elsewhere)
        .layer(middleware::from_fn_with_state(startup.clone(), guarded))
        .with_state(startup)
}

/// Returns the router of the service while the store opens.
pub(crate) fn router(startup: StartupState) -> Router {
    probes()
        .route("/openapi.json", routing::get(openapi::openapi))
        .fallback(not_yet)
        .method_not_allowed_fallback(not_yet)
        .layer(middleware::from_fn_with_state(startup.clone(), guarded))
        .with_state(startup)
}

fn probes() -> Router<StartupState> {
    Router::new()
        .route(HEALTHZ, routing::get(health::alive))
        .route(READYZ, routing::get(readyz))
        .route(METRICS, routing::get(scrape))
}

async fn guarded(State(startup): State<StartupState>, request: Request, next: Next) -> Response {
    let cors = Cors::of(&startup.guard, request.headers());
    let checked = startup.guard.check_request(&request);
    let (request, unread) = unread::watch(request);
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => {
            drop(request);
            problem.into_response()
        }
    };
    cors.write_to(&mut response);
    unread.settle(&mut response).await;
    response
}

async fn readyz(State(startup): State<StartupState>) -> HandlerResult {
    let StartupProgress { sentence, progress } = startup.progress.borrow().clone();
    let reasons = if startup.is_guarded { Vec::new() } else { vec![sentence] };
    health::not_ready("recovering", reasons, progress)
}

async fn scrape(State(startup): State<StartupState>) -> Response {
    if startup.is_guarded {
        return startup.not_yet().into_response();
    }
    health::metrics_text(startup.metrics.render(None, false))
}

async fn not_yet(State(startup): State<StartupState>) -> Problem {
    startup.not_yet()
}
