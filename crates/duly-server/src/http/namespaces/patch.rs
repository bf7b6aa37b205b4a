//! `PATCH /v1/namespaces/{namespace}`: some settings.

use axum::{extract::State, response::Response};

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
    let request: NamespaceIn = body.parse().await?;
    let _turn = app.patches().lock().await;
    let Some(present) = app.store().get_namespace(name.clone()).await? else {
        return Err(Problem::no_namespace(name.as_str()));
    };
    let put = request.into_patch(&present.settings)?;
    app.check_settings(&put, Some(&present.settings))?;
    let (namespace, _) = app.store().put_namespace(name, put).await?;
    answer::ok(&NamespaceOut::from(&namespace))
}
