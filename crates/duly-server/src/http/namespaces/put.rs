//! `PUT /v1/namespaces/{namespace}`: settings, whole.

use axum::{extract::State, response::Response};
use duly_core::NamespaceName;
use duly_store::namespaces::Namespace;
use http::StatusCode;

use crate::{
    http::{App, Problem, answer, body::JsonBody, path::InNamespace, problem::Refusals},
    wire::{NamespaceIn, NamespaceOut},
};

/// Write a namespace's settings, whole.
///
/// An absent field is its default, but absent `signing_secrets` keep those that are there.
#[utoipa::path(
    put,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = NamespaceIn, content_type = "application/json"),
    responses(
        (status = 201, description = "It was made.", body = NamespaceOut),
        (status = 200, description = "Its settings were replaced.", body = NamespaceOut),
        Refusals
    )
)]
pub(crate) async fn put_namespace(
    State(app): State<App>,
    InNamespace(name): InNamespace,
    body: JsonBody,
) -> Result<Response, Problem> {
    let (namespace, is_new) = app.put_namespace(name, body.parse().await?).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    answer::json(status, &NamespaceOut::from(&namespace))
}

impl App {
    /// Writes settings, whole; answers whether the namespace is new.
    pub(crate) async fn put_namespace(
        &self,
        name: NamespaceName,
        request: NamespaceIn,
    ) -> Result<(Namespace, bool), Problem> {
        let put = request.into_put()?;
        self.check_settings(&put, None)?;
        let _turn = self.patches().lock().await;
        Ok(self.store().put_namespace(name, put).await?)
    }
}
