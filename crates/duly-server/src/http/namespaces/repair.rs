//! `POST /v1/namespaces/{namespace}/repair`: restores the record of a namespace.

use axum::{extract::State, response::Response};
use duly_api::RepairNamespaceResponse;
use duly_core::NamespaceName;
use duly_store::namespaces::Repaired;
use http::Uri;

use crate::{
    http::{
        App, Problem, body::NoBody, path::NamespacePath, problem::Refusals, query::Query, response,
    },
    messages,
};

/// Restore the record of a namespace that its coordinator shard has lost, from the other shards.
///
/// Without a lost record nothing changes. If the shards hold the namespace under several numbers, `keep`
/// names the number that is kept; the timers under the other numbers are lost.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/repair",
    tag = "namespaces",
    params(
        ("namespace" = String, Path, description = "Name of the namespace"),
        ("keep" = Option<String>, Query, description = "Number under which the namespace is kept")
    ),
    responses((status = 200, description = "It wants no repair any more.", body = RepairNamespaceResponse), Refusals)
)]
pub(crate) async fn repair_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    uri: Uri,
    _body: NoBody,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["keep"])?;
    let repaired = app.repair_namespace(name, query.get("keep")).await?;
    response::ok(&messages::repaired(&repaired))
}

impl App {
    /// Restores the record of a namespace.
    pub(crate) async fn repair_namespace(
        &self,
        name: NamespaceName,
        keep: Option<&str>,
    ) -> Result<Repaired, Problem> {
        let _turn = self.patches().lock().await;
        Ok(self.store().repair_namespace(name, keep.map(str::to_owned)).await?)
    }
}
