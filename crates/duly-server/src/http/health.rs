//! `GET /healthz` (liveness: the process needs no restart), `GET /readyz` (readiness, or the reasons
//! against it), `GET /v1/cluster` (the state of the service) and `GET /metrics` (for Prometheus).

use axum::response::{IntoResponse, Response};
use duly_api::cluster::{ClusterInfo, Readiness, Recovery};
use duly_core::{Millis, access::Action};
use http::{
    StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};

use super::response::{self, HandlerResult};
use crate::service::{
    Admitted,
    health::{reasons, warnings},
};

/// Wait before the next question to a service that is not ready.
const READINESS_RETRY: Millis = Millis::from_secs(1);

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
pub(crate) async fn healthz(admitted: Admitted) -> HandlerResult {
    match admitted.store.terminal_error() {
        None => alive().await,
        Some(reason) => not_ready("failed", visible(&admitted, vec![reason]), None),
    }
}

/// Responds that the process is alive, before the store is open.
pub(super) async fn alive() -> HandlerResult {
    let status = "alive".to_owned();
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
pub(crate) async fn readyz(admitted: Admitted) -> HandlerResult {
    let health = admitted.store.health();
    let reasons = reasons(&admitted, &health);
    if reasons.is_empty() {
        let warnings = warnings(&admitted, health.warnings);
        let (status, warnings) = ("ready".to_owned(), visible(&admitted, warnings));
        return response::ok(&Readiness { status, warnings, ..Readiness::default() });
    }
    not_ready("not_ready", visible(&admitted, reasons), None)
}

/// Returns the sentences that the caller may read: none without the right to metrics.
fn visible(admitted: &Admitted, sentences: Vec<String>) -> Vec<String> {
    if admitted.caller().permits(Action::Metrics) { sentences } else { Vec::new() }
}

/// Responds that the service is not ready, with the time of the next question.
pub(super) fn not_ready(
    status: &str,
    reasons: Vec<String>,
    progress: Option<Recovery>,
) -> HandlerResult {
    let (status, retry_after_ms) = (status.to_owned(), Some(READINESS_RETRY.ms()));
    let out = Readiness { status, reasons, progress, retry_after_ms, ..Readiness::default() };
    let mut response = response::json(StatusCode::SERVICE_UNAVAILABLE, &out)?;
    response.headers_mut().insert(RETRY_AFTER, READINESS_RETRY.ms().div_ceil(1_000).into());
    Ok(response)
}

/// State of the service: version, shards, readiness, counts over all namespaces.
#[utoipa::path(
    get,
    path = "/v1/cluster",
    tag = "service",
    responses((status = 200, description = "How it is.", body = ClusterInfo))
)]
pub(crate) async fn cluster(admitted: Admitted) -> HandlerResult {
    admitted.recount().await;
    response::ok(&admitted.cluster())
}

/// Metrics in the text format of Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "service",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain; version=0.0.4"))
)]
pub(crate) async fn metrics(admitted: Admitted) -> Response {
    admitted.recount().await;
    let health = admitted.store.health();
    let is_ready = reasons(&admitted, &health).is_empty();
    metrics_text(admitted.metrics.render(Some(&health), is_ready))
}

/// Returns a response in the text format of Prometheus.
pub(super) fn metrics_text(text: String) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], text).into_response()
}
