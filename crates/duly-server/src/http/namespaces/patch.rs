//! `PATCH /v1/namespaces/{namespace}`: some settings.

use axum::{extract::State, response::Response};
use duly_core::NamespaceName;
use duly_store::namespaces::Namespace;

use crate::{
    http::{App, Problem, answer, body::JsonBody, path::InNamespace, problem::Refusals},
    wire::{NamespaceIn, NamespaceOut},
};

/// Change some of a namespace's settings.
///
/// Absent keeps, `null` resets to the default, a value replaces the field whole (`retry` and
/// `limits` too).
#[utoipa::path(
    patch,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = NamespaceIn, content_type = "application/json"),
    responses((status = 200, description = "The namespace as it is now.", body = NamespaceOut), Refusals)
)]
pub(crate) async fn patch_namespace(
    State(app): State<App>,
    InNamespace(name): InNamespace,
    body: JsonBody,
) -> Result<Response, Problem> {
    let namespace = app.patch_namespace(name, body.parse().await?).await?;
    answer::ok(&NamespaceOut::from(&namespace))
}

impl App {
    /// Writes some settings.
    pub(crate) async fn patch_namespace(
        &self,
        name: NamespaceName,
        request: NamespaceIn,
    ) -> Result<Namespace, Problem> {
        let _turn = self.patches().lock().await;
        let present = self.namespace(name.clone()).await?;
        let put = request.into_patch(&present.settings)?;
        self.check_settings(&put, Some(&present.settings))?;
        let (namespace, _) = self.store().put_namespace(name, put).await?;
        Ok(namespace)
    }
}
