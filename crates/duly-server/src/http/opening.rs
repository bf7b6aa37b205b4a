//! What is answered before the store is open: that the process lives, what it waits for, and to
//! every other call that it is to be repeated.
//!
//! Opening reads a checkpoint and the journal behind it, which takes seconds where very many timers
//! are pending. Who watches the process must not mistake that for a hang, and a caller must not wait
//! for it in the dark. Nothing here knows the store; `start` says how far it is.

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing,
};
use duly_core::{Code, Millis, error_code::Retry};
use tokio::sync::watch;

use super::{
    Guard, Problem, answer::Answer, cors::Cors, elsewhere, health, metrics, openapi, unread,
};
use crate::telemetry::Metrics;
use duly_api::cluster::Recovery;

/// When a call may be tried again.
const RETRY: Millis = Millis::from_secs(1);

/// What the server waits for before it can work.
#[derive(Debug, Clone)]
pub(crate) struct Awaited {
    /// As a sentence without its full stop.
    pub(crate) sentence: String,
    /// How far it is, once something is read.
    pub(crate) progress: Option<Recovery>,
}

/// What the calls need that are answered while the store opens; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    /// Who may call.
    pub(crate) guard: Guard,
    /// What the server waits for.
    pub(crate) waits_for: watch::Receiver<Awaited>,
    /// The recorder behind `/metrics`.
    pub(crate) metrics: Metrics,
}

/// Everything that is answered at `server.admin_listen` while the store opens.
pub(crate) fn admin_router(opening: Opening) -> Router {
    Router::new()
        .route(health::HEALTHZ, routing::get(health::alive))
        .route(health::READYZ, routing::get(readyz))
        .route(metrics::PATH, routing::get(scrape))
        .fallback(elsewhere)
        .layer(middleware::from_fn_with_state(opening.clone(), guarded))
        .with_state(opening)
}

/// Everything that is answered while the store opens.
pub(crate) fn router(opening: Opening) -> Router {
    Router::new()
        .route(health::HEALTHZ, routing::get(health::alive))
        .route(health::READYZ, routing::get(readyz))
        .route(metrics::PATH, routing::get(scrape))
        .route("/openapi.json", routing::get(openapi::openapi))
        .fallback(not_yet)
        .method_not_allowed_fallback(not_yet)
        .layer(middleware::from_fn_with_state(opening.clone(), guarded))
        .with_state(opening)
}

async fn guarded(State(opening): State<Opening>, request: Request, next: Next) -> Response {
    let cors = Cors::of(&opening.guard, request.headers());
    let checked = opening.guard.check_request(&request);
    let (request, unread) = unread::watch(request);
    let mut answer = match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => {
            drop(request);
            problem.into_response()
        }
    };
    cors.write_to(&mut answer);
    unread.settle(&mut answer).await;
    answer
}

async fn readyz(State(opening): State<Opening>) -> Answer {
    let Awaited { sentence, progress } = opening.waits_for.borrow().clone();
    health::not_ready("recovering", vec![sentence], progress)
}

async fn scrape(State(opening): State<Opening>) -> Response {
    metrics::text(opening.metrics.render_without_store())
}

async fn not_yet(State(opening): State<Opening>) -> Problem {
    opening.not_yet()
}

impl Opening {
    /// The answer to a call that needs the store.
    pub(crate) fn not_yet(&self) -> Problem {
        let waits_for = self.waits_for.borrow().sentence.clone();
        let detail =
            format!("the server is starting: {waits_for}; nothing was done, repeat the call");
        Problem::new(Code::Unavailable, detail).with_retry(Retry::After(RETRY))
    }
}
