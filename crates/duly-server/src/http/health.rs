//! `GET /healthz` (liveness: the process needs no restart) and `GET /readyz` (readiness, or the reasons
//! against it).

use std::time::Duration;

use axum::{extract::State, response::Response};
use duly_core::Millis;
use duly_store::Health;
use http::{HeaderValue, StatusCode, header::RETRY_AFTER};

use super::{App, Problem, response};
use duly_api::cluster::{Readiness, Recovery};

/// Time after which an idle loop counts as stuck: each loop runs at least once a second.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Wait before the next question to a service that is not ready.
const READINESS_RETRY: Millis = Millis::from_secs(1);

/// Paths of health and readiness.
pub(super) const HEALTHZ: &str = "/healthz";
pub(super) const READYZ: &str = "/readyz";

/// Liveness: 503 means that the store has ended and the process must be started again.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "service",
    responses(
        (status = 200, description = "It lives.", body = Readiness),
        (status = 503, description = "Its store has ended: start it again.", body = Readiness)
    )
)]
pub(crate) async fn healthz(State(app): State<App>) -> Result<Response, Problem> {
    match app.store().terminal_error() {
        None => alive().await,
        Some(reason) => not_ready("failed", vec![reason], None),
    }
}

/// Responds that the process is alive, before the store is open.
pub(super) async fn alive() -> Result<Response, Problem> {
    let status = "alive";
    response::ok(&Readiness { status, ..Readiness::default() })
}

/// Readiness: 200 if the service can work, otherwise 503 with the reasons.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "service",
    responses(
        (status = 200, description = "It can.", body = Readiness),
        (status = 503, description = "It cannot.", body = Readiness)
    )
)]
pub(crate) async fn readyz(State(app): State<App>) -> Result<Response, Problem> {
    let health = app.store().health();
    let reasons = reasons(&app, &health);
    if reasons.is_empty() {
        let (status, warnings) = ("ready", warnings(&app, health.warnings));
        return response::ok(&Readiness { status, warnings, ..Readiness::default() });
    }
    not_ready("not_ready", reasons, None)
}

/// Responds that the service is not ready, with the time of the next question.
pub(super) fn not_ready(
    status: &'static str,
    reasons: Vec<String>,
    progress: Option<Recovery>,
) -> response::HandlerResult {
    let retry_after_ms = Some(READINESS_RETRY.ms());
    let out = Readiness { status, reasons, progress, retry_after_ms, ..Readiness::default() };
    let mut response = response::json(StatusCode::SERVICE_UNAVAILABLE, &out)?;
    let seconds = HeaderValue::from(READINESS_RETRY.ms().div_ceil(1_000));
    response.headers_mut().insert(RETRY_AFTER, seconds);
    Ok(response)
}

/// Returns the warnings of a service that is ready: those of its store, and the nodes that it waits for.
///
/// In a rolling upgrade, nodes of an older version leave one by one, each after the previous node is
/// ready again. So a node that waits for them has to be ready.
pub(crate) fn warnings(app: &App, mut of_store: Vec<String>) -> Vec<String> {
    let health = app.node().health();
    of_store.extend(health.unleased.iter().map(|namespace| {
        format!(
            "namespace {namespace} has timers due and no consumer leases them: is the name misspelled, or is a \
             webhook missing?"
        )
    }));
    let names = health.waits_for;
    if !names.is_empty() {
        of_store.push(format!(
            "nodes of an older version are still members: {}; until they have stopped, this node \
             accepts calls and starts no attempts: upgrade them",
            names.join(", ")
        ));
    }
    of_store
}

/// Returns the reasons why the service cannot work; none if it can.
pub(crate) fn reasons(app: &App, health: &Health) -> Vec<String> {
    let mut reasons = health.not_ready.clone();
    let node = app.node().health();
    if node.draining {
        reasons.push("the server is stopping".to_owned());
    }
    reasons.extend(node.cut_off_for.map(|silent| {
        format!(
            "no majority of the coordinator shards has acknowledged this node's heartbeats for \
             {silent:.1?}: until one does, the node starts no attempts"
        )
    }));
    let stuck = node.loops.iter().filter(|l| l.idle_for > IDLE_MAX);
    reasons.extend(stuck.map(|l| format!("{} has been stalled for {:?}", l.name, l.idle_for)));
    let neglected = node.neglected.iter();
    reasons
        .extend(neglected.map(|lane| format!("lane {lane} has timers due and makes no progress")));
    reasons
}
