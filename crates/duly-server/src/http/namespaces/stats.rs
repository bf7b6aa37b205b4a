//! `GET /v1/namespaces/{namespace}/stats`.

use axum::{extract::State, response::Response};
use duly_core::{NamespaceName, shard::ShardId};
use futures::future::try_join_all;

use crate::{
    http::{App, Problem, answer, path::InNamespace, problem::Refusals},
    wire::StatsOut,
};

/// Counts of a namespace.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/stats",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    responses((status = 200, description = "The counts.", body = StatsOut), Refusals)
)]
pub(crate) async fn namespace_stats(
    State(app): State<App>,
    InNamespace(name): InNamespace,
) -> Result<Response, Problem> {
    answer::ok(&app.namespace_stats(name).await?)
}

impl App {
    /// Counts of a namespace, over all shards.
    pub(crate) async fn namespace_stats(&self, name: NamespaceName) -> Result<StatsOut, Problem> {
        let namespace = self.namespace(name.clone()).await?;
        let shards = 0..self.store().shards().max(1);
        let calls = shards.map(|shard| self.store().stats(ShardId(shard), name.clone()));
        let shards: Vec<_> = try_join_all(calls).await?.into_iter().flatten().collect();
        if shards.is_empty() {
            return Err(Problem::no_namespace(name.as_str()));
        }
        let loads = self.node().lanes(&name);
        let settings = &namespace.settings;
        let fallback = settings.fallback.as_ref().map(|_| self.node().fallback(&name));
        Ok(StatsOut::sum(&shards, &loads, fallback, &settings.limits))
    }
}
