//! `POST /v1/namespaces/{namespace}/{pause,resume}`: stops and resumes the firing of a namespace.

use axum::{extract::State, response::Response};
use duly_api::ResumeRequest;
use duly_store::namespaces::Activity;

use crate::{
    http::{
        App, Problem,
        body::{MaybeBody, NoBody},
        path::NamespacePath,
        problem::Refusals,
        response,
    },
    messages,
};

/// Stop a namespace's firing. After the response no claim is granted; scheduling continues.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/pause",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    responses((status = 200, description = "It is paused.", body = duly_api::Namespace), Refusals)
)]
pub(crate) async fn pause_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    _body: NoBody,
) -> Result<Response, Problem> {
    let namespace = app.store().set_activity(name, Activity::Paused).await?;
    response::ok(&messages::namespace(&namespace))
}

/// Let a namespace fire again, at once or at a time.
///
/// With a time it stays paused until then. A namespace that is not paused stays as it is.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/resume",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = ResumeRequest, content_type = "application/json"),
    responses((status = 200, description = "It runs, or will.", body = duly_api::Namespace), Refusals)
)]
pub(crate) async fn resume_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    MaybeBody(body): MaybeBody,
) -> Result<Response, Problem> {
    let request: Option<ResumeRequest> = match body {
        Some(body) => Some(body.parse().await?),
        None => None,
    };
    let at = request.and_then(|resume| resume.at).map(|at| at.check("at")).transpose()?;
    let activity = at.map_or(Activity::Running, Activity::ResumeAt);
    let namespace = app.store().set_activity(name, activity).await?;
    response::ok(&messages::namespace(&namespace))
}
