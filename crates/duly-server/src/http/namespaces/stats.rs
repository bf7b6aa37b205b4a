//! `GET /v1/namespaces/{namespace}/stats`: returns the counts of a namespace.

use axum::{extract::State, response::Response};
use duly_api::NamespaceStats;
use duly_core::NamespaceName;
use http::StatusCode;

use crate::{
    http::{App, Problem, budget::Reservation, path::NamespacePath, problem::Refusals, response},
    messages,
};

/// Memory of the counts of one shard: a namespace has at most a few hundred lanes.
const STATS_BYTES: usize = 64 * 1024;

/// Counts of a namespace.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/stats",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    responses((status = 200, description = "The counts.", body = NamespaceStats), Refusals)
)]
pub(crate) async fn namespace_stats(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
) -> Result<Response, Problem> {
    let (stats, reservation) = app.namespace_stats(name).await?;
    response::json_within(reservation, StatusCode::OK, &stats)
}

impl App {
    /// Returns the counts of a namespace over all shards, with their memory reservation, which has the
    /// same size for the text.
    pub(crate) async fn namespace_stats(
        &self,
        name: NamespaceName,
    ) -> Result<(NamespaceStats, Reservation), Problem> {
        let shards = self.sharded().shards().len();
        let mut reservation = self.budget().reserve(shards * STATS_BYTES)?;
        let namespace = self.namespace(name.clone()).await?;
        let stats = self.sharded().stats(&name).await?;
        let stats = stats.ok_or_else(|| Problem::no_namespace(name.as_str()))?;
        let loads = self.node().lanes(&name);
        let settings = &namespace.settings;
        let fallback = settings.fallback.as_ref().map(|_| self.node().fallback(&name));
        let stats = messages::stats(stats, &loads, fallback, &settings.limits);
        reservation.shrink_to(STATS_BYTES);
        Ok((stats, reservation))
    }
}
