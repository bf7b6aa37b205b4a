//! `POST /v1/namespaces/{namespace}/{pause,resume}`.

use axum::{extract::State, response::Response};
use duly_store::namespaces::Activity;

use crate::{
    http::{App, Problem, answer, body::NoBody, path::InNamespace, problem::Refusals},
    wire::NamespaceOut,
};

/// Stop a namespace's firing. After the answer no claim is granted; scheduling goes on.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/pause",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    responses((status = 200, description = "It is paused.", body = NamespaceOut), Refusals)
)]
pub(crate) async fn pause_namespace(
    State(app): State<App>,
    InNamespace(name): InNamespace,
    _body: NoBody,
) -> Result<Response, Problem> {
    let namespace = app.store().set_activity(name, Activity::Paused).await?;
    answer::ok(&NamespaceOut::from(&namespace))
}

/// Let a namespace fire again.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/resume",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    responses((status = 200, description = "It runs.", body = NamespaceOut), Refusals)
)]
pub(crate) async fn resume_namespace(
    State(app): State<App>,
    InNamespace(name): InNamespace,
    _body: NoBody,
) -> Result<Response, Problem> {
    let namespace = app.store().set_activity(name, Activity::Running).await?;
    answer::ok(&NamespaceOut::from(&namespace))
}
