//! Calls on namespaces: settings, state, deletion, repair. The counts are in the module `counts`.

pub(crate) mod counts;

use axum::response::IntoResponse;
use duly_api::{
    ListNamespacesResponse, NamespaceField, NamespaceSettings, RepairNamespaceResponse,
    ResumeRequest, Words as _, json::Nulls,
};
use duly_core::Invalid;
use duly_store::namespaces::{Activity, DeleteMode};
use http::{StatusCode, Uri};

use super::{
    body::{JsonBody, MaybeBody, NoBody},
    path::NamespacePath,
    query::Query,
    response::{self, HandlerResult},
    text::ResponseText,
    timers::list::end_page,
};
use crate::{messages, service::Admitted};

/// One namespace. Signing secrets are shown as fingerprints only.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    responses((status = 200, description = "The namespace.", body = duly_api::Namespace))
)]
pub(crate) async fn get_namespace(
    admitted: Admitted,
    NamespacePath(name): NamespacePath,
) -> HandlerResult {
    response::ok(&messages::namespace(&admitted.namespace(name).await?))
}

/// Namespaces in order of their names.
#[utoipa::path(
    get,
    path = "/v1/namespaces",
    tag = "namespaces",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Most namespaces of the page, 1 to 1000, default 100"),
        ("cursor" = Option<String>, Query, description = "Where to go on: the cursor of the page before")
    ),
    responses((status = 200, description = "A page.", body = ListNamespacesResponse))
)]
pub(crate) async fn list_namespaces(admitted: Admitted, uri: Uri) -> HandlerResult {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let (limit, cursor) = (query.integer("limit")?, query.get("cursor"));
    let mut text = ResponseText::new(admitted.budget().empty_reservation());
    text.raw(r#"{"namespaces":["#)?;
    let next = admitted
        .namespaces(limit, cursor, |namespace| text.item(&messages::namespace(namespace)))
        .await?;
    end_page(&mut text, next)?;
    text.raw("}")?;
    Ok(text.into_response(StatusCode::OK))
}

/// Write all settings of a namespace.
///
/// An absent field has its default, but absent `signing_secrets` keep the present ones.
#[utoipa::path(
    put,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    request_body(content = NamespaceSettings, content_type = "application/json"),
    responses(
        (status = 201, description = "It was made.", body = duly_api::Namespace),
        (status = 200, description = "Its settings were replaced.", body = duly_api::Namespace)
    )
)]
pub(crate) async fn put_namespace(
    admitted: Admitted,
    NamespacePath(name): NamespacePath,
    body: JsonBody,
) -> HandlerResult {
    let Nulls { value: settings, names } = body.parse().await?;
    let (namespace, is_new) = admitted.put_namespace(name, settings, &reset(&names)).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    response::json(status, &messages::namespace(&namespace))
}

/// Returns the settings whose names a JSON body gave as `null`.
fn reset(names: &[String]) -> Vec<i32> {
    let fields = names.iter().filter_map(|name| NamespaceField::parse(name));
    fields.map(i32::from).collect()
}

/// Change some of a namespace's settings.
///
/// An absent field is kept, `null` resets it to its default, a value replaces the whole field (`retry`
/// and `limits` too).
#[utoipa::path(
    patch,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    request_body(content = NamespaceSettings, content_type = "application/json"),
    responses((status = 200, description = "The namespace as it is now.", body = duly_api::Namespace))
)]
pub(crate) async fn patch_namespace(
    admitted: Admitted,
    NamespacePath(name): NamespacePath,
    body: JsonBody,
) -> HandlerResult {
    let Nulls { value: settings, names } = body.parse().await?;
    if settings == NamespaceSettings::default() && names.is_empty() {
        return Err(Invalid::new("body", "{}", "an object with a field to change").into());
    }
    let namespace = admitted.patch_namespace(name, settings, &reset(&names)).await?;
    response::ok(&messages::namespace(&namespace))
}

/// Stop a namespace's firing. After the response no claim is granted; scheduling continues.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/pause",
    tag = "namespaces",
    responses((status = 200, description = "It is paused.", body = duly_api::Namespace))
)]
pub(crate) async fn pause_namespace(
    admitted: Admitted,
    NamespacePath(name): NamespacePath,
    _body: NoBody,
) -> HandlerResult {
    let namespace = admitted.set_activity(name, Activity::Paused).await?;
    response::ok(&messages::namespace(&namespace))
}

/// Let a namespace fire again, at once or at a time.
///
/// With a time it stays paused until then. A namespace that is not paused stays as it is.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/resume",
    tag = "namespaces",
    request_body(content = ResumeRequest, content_type = "application/json"),
    responses((status = 200, description = "It runs, or will.", body = duly_api::Namespace))
)]
pub(crate) async fn resume_namespace(
    admitted: Admitted,
    NamespacePath(name): NamespacePath,
    MaybeBody(body): MaybeBody,
) -> HandlerResult {
    let request: Option<ResumeRequest> = match body {
        Some(body) => Some(body.parse().await?),
        None => None,
    };
    let at = request.and_then(|resume| resume.at).map(|at| at.check("at")).transpose()?;
    let activity = at.map_or(Activity::Running, Activity::ResumeAt);
    let namespace = admitted.set_activity(name, activity).await?;
    response::ok(&messages::namespace(&namespace))
}

/// Delete a namespace with all its timers, tombstones and dead letters.
///
/// A namespace that has pending timers or dead letters is refused unless `force=true`.
#[utoipa::path(
    delete,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    params(("force" = Option<bool>, Query, description = "`true`: although it has pending timers or dead letters")),
    responses((status = 204, description = "It is gone."))
)]
pub(crate) async fn delete_namespace(
    admitted: Admitted,
    NamespacePath(name): NamespacePath,
    uri: Uri,
) -> HandlerResult {
    let query = Query::read(&uri, &["force"])?;
    let is_forced = query.flag("force")? == Some(true);
    let mode = if is_forced { DeleteMode::Force } else { DeleteMode::IfEmpty };
    admitted.delete_namespace(name, mode).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Restore the record of a namespace that its coordinator shard has lost, from the other shards.
///
/// Without a lost record nothing changes. If the shards hold the namespace under several numbers, `keep`
/// names the number that is kept; the timers under the other numbers are lost.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/repair",
    tag = "namespaces",
    params(("keep" = Option<String>, Query, description = "Number under which the namespace is kept")),
    responses((status = 200, description = "It wants no repair any more.", body = RepairNamespaceResponse))
)]
pub(crate) async fn repair_namespace(
    admitted: Admitted,
    NamespacePath(name): NamespacePath,
    uri: Uri,
    _body: NoBody,
) -> HandlerResult {
    let query = Query::read(&uri, &["keep"])?;
    let repaired = admitted.repair_namespace(name, query.get("keep")).await?;
    response::ok(&messages::repaired(&repaired))
}
