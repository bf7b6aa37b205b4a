//! `GET /healthz` (the process lives) and `GET /readyz` (it can work, or says why not).

use std::time::Duration;

use axum::{extract::State, response::Response};
use duly_store::Health;
use http::StatusCode;

use super::{App, Problem, answer};
use crate::wire::health::ReadinessOut;

/// A loop that has not turned for so long is stuck: each turns at least once a second.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Whether the process lives.
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "service",
    responses((status = 200, description = "It lives.", body = ReadinessOut))
)]
pub(crate) async fn healthz() -> Result<Response, Problem> {
    answer::ok(&ReadinessOut { status: "alive", reasons: Vec::new(), progress: None })
}

/// Whether the service can work; if not, why.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "service",
    responses(
        (status = 200, description = "It can.", body = ReadinessOut),
        (status = 503, description = "It cannot.", body = ReadinessOut)
    )
)]
pub(crate) async fn readyz(State(app): State<App>) -> Result<Response, Problem> {
    let reasons = reasons(&app, &app.store().health());
    let (status, word) = if reasons.is_empty() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not_ready")
    };
    answer::json(status, &ReadinessOut { status: word, reasons, progress: None })
}

/// Why the service cannot work; nothing when it can.
pub(crate) fn reasons(app: &App, health: &Health) -> Vec<String> {
    let mut reasons = health.not_ready.clone();
    let node = app.node().health();
    if node.draining {
        reasons.push("the server is stopping".to_owned());
    }
    let stuck = node.loops.iter().filter(|l| l.idle_for > IDLE_MAX);
    reasons.extend(stuck.map(|l| format!("{} has stood still for {:?}", l.name, l.idle_for)));
    let neglected = node.neglected.iter();
    reasons
        .extend(neglected.map(|lane| format!("nobody works on lane {lane}, which has timers due")));
    reasons
}
