//! `GET /healthz` (liveness: the process needs no restart), `GET /readyz` (readiness, or the reasons
//! against it), `GET /v1/cluster` (the state of the service) and `GET /metrics` (for Prometheus).
//!
//! `POST /v1/store/backup`: a copy of the running store in another directory.
//! `POST /v1/store/repair`: lets shards of a store on Redis take calls again, and decides which of its keys
//! count after a rollback.
//!
//! Every caller may start a backup, and so have files written. Three rules bound this:
//!
//! 1. A backup goes only below the one directory that the operator names (`store.backup_dir`).
//! 2. Its directory is empty or new.
//! 3. The operator limits the number of backups and the time between them: a backup keeps the disk space of
//!    files that the store has released, and a copy takes disk bandwidth from commits.

use std::path::PathBuf;

use axum::response::{IntoResponse, Response};
use duly_api::cluster::{Backup, BackupMade, ClusterInfo, Readiness, Recovery, Repair, Repaired};
use duly_core::Millis;
use http::{
    StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER},
};

use super::{
    body::JsonBody,
    response::{self, HandlerResult},
};
use crate::{messages, service::Admitted};

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
    match admitted.end_reason() {
        None => alive().await,
        Some(reasons) => not_ready("failed", reasons, None),
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
    match admitted.readiness() {
        Ok(warnings) => {
            let status = "ready".to_owned();
            response::ok(&Readiness { status, warnings, ..Readiness::default() })
        }
        Err(reasons) => not_ready("not_ready", reasons, None),
    }
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
    let is_ready = admitted.reasons(&health).is_empty();
    metrics_text(admitted.metrics.render(Some(&health), is_ready))
}

/// Returns a response in the text format of Prometheus.
pub(super) fn metrics_text(text: String) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], text).into_response()
}

/// Copy the running store into an empty or new directory.
///
/// Calls continue meanwhile. The response comes when the copy is durable; a copy that fails leaves
/// nothing. A store that is restored from it has every namespace paused.
#[utoipa::path(
    post,
    path = "/v1/store/backup",
    tag = "service",
    request_body(content = Backup, content_type = "application/json"),
    responses((status = 200, description = "The copy is there.", body = BackupMade))
)]
pub(crate) async fn backup(admitted: Admitted, body: JsonBody) -> HandlerResult {
    let path = PathBuf::from(body.parse::<Backup>().await?.path);
    response::ok(&messages::backup(admitted.make_backup(path).await?))
}

/// Accept that shards have lost data, or decide which keys and tenants count after a rollback.
///
/// An emptied shard gets its marker and the settings of namespaces from the other shards; its timers are
/// lost. A shard that came back with older data is confirmed. Shards that take calls stay as they are.
/// After all masters came back with older data, nodes that ran on know newer keys and tenants; `keys`
/// decides which ones count.
#[utoipa::path(
    post,
    path = "/v1/store/repair",
    tag = "service",
    request_body(content = Repair, content_type = "application/json"),
    responses((status = 200, description = "The shards take calls, and keys can be changed.", body = Repaired))
)]
pub(crate) async fn repair(admitted: Admitted, body: JsonBody) -> HandlerResult {
    response::ok(&admitted.repair_store(body.parse().await?).await?)
}
