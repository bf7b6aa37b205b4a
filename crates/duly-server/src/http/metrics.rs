//! `GET /metrics`: the metrics for Prometheus.

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use http::header::CONTENT_TYPE;

use super::{App, health};
use crate::telemetry::Readiness;

/// Path of the route.
pub(super) const PATH: &str = "/metrics";

/// Metrics in the text format of Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "service",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain; version=0.0.4"))
)]
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    app.recount().await;
    let health = app.store.health();
    let is_ready = health::reasons(&app, &health).is_empty();
    let readiness = if is_ready { Readiness::Ready } else { Readiness::NotReady };
    text(app.metrics.render(Some(&health), readiness))
}

/// Returns a response in the text format of Prometheus.
pub(super) fn text(text: String) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], text).into_response()
}
