//! `DELETE /v1/namespaces/{namespace}`: deletes a namespace with everything in it.

use axum::{extract::State, response::Response};
use duly_core::NamespaceName;
use duly_store::namespaces::DeleteMode;
use http::{StatusCode, Uri};

use crate::http::{App, Problem, path::NamespacePath, problem::Refusals, query::Query};

/// Delete a namespace with all its timers, tombstones and dead letters.
///
/// A namespace that has pending timers or dead letters is refused unless `force=true`.
#[utoipa::path(
    delete,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    params(
        ("namespace" = String, Path, description = "Name of the namespace"),
        ("force" = Option<bool>, Query, description = "`true`: although it has pending timers or dead letters")
    ),
    responses((status = 204, description = "It is gone."), Refusals)
)]
pub(crate) async fn delete_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    uri: Uri,
) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["force"])?;
    let mode = match query.flag("force")? {
        Some(true) => DeleteMode::Force,
        Some(false) | None => DeleteMode::IfEmpty,
    };
    app.delete_namespace(name, mode).await?;
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

impl App {
    /// Deletes a namespace.
    pub(crate) async fn delete_namespace(
        &self,
        name: NamespaceName,
        mode: DeleteMode,
    ) -> Result<(), Problem> {
        // Without the lock, a patch that has read the namespace would write it back after the deletion.
        let _turn = self.patches().lock().await;
        Ok(self.store().delete_namespace(name, mode).await?)
    }
}
