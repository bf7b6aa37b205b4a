//! Calls on namespaces: settings, state, deletion, repair, counts.

use axum::response::IntoResponse;
use duly_api::{
    Duration, ListNamespacesResponse, MessageFormat, NamespaceField, NamespaceForecast,
    NamespaceSettings, NamespaceStats, RepairNamespaceResponse, ResumeRequest, Words as _,
    json::Nulls,
};
use duly_core::NamespaceName;
use duly_store::{
    forecast::BUCKETS_MAX,
    namespaces::{Activity, DeleteMode},
    query::PAGE_MAX,
};
use http::{StatusCode, Uri};

use super::{
    body::{JsonBody, MaybeBody, NoBody},
    response::{self, HandlerResult, ResponseText},
    target::{CallOn, Query},
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
pub(crate) async fn get_namespace(call: CallOn<NamespaceName>) -> HandlerResult {
    response::ok(&messages::namespace(&call.admitted.namespace(call.target).await?))
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
    let (limit, cursor) = (query.integer("limit", PAGE_MAX)?, query.get("cursor"));
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
pub(crate) async fn put_namespace(call: CallOn<NamespaceName>, body: JsonBody) -> HandlerResult {
    let Nulls { value: settings, names } = body.parse().await?;
    let reset = reset(&names);
    let (namespace, is_new) = call.admitted.put_namespace(call.target, settings, &reset).await?;
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
pub(crate) async fn patch_namespace(call: CallOn<NamespaceName>, body: JsonBody) -> HandlerResult {
    let Nulls { value: settings, names } = body.parse().await?;
    let reset = reset(&names);
    let namespace =
        call.admitted.patch_namespace(call.target, settings, &reset, MessageFormat::Json).await?;
    response::ok(&messages::namespace(&namespace))
}

/// Stop a namespace's firing. After the response no claim is granted; scheduling continues.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/pause",
    tag = "namespaces",
    responses((status = 200, description = "It is paused.", body = duly_api::Namespace))
)]
pub(crate) async fn pause_namespace(call: CallOn<NamespaceName>, _body: NoBody) -> HandlerResult {
    let namespace = call.admitted.set_activity(call.target, Activity::Paused).await?;
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
    call: CallOn<NamespaceName>,
    body: MaybeBody,
) -> HandlerResult {
    let request: ResumeRequest = body.parse_or_default().await?;
    let at = request.at.map(|at| at.check("at")).transpose()?;
    let activity = at.map_or(Activity::Running, Activity::ResumeAt);
    let namespace = call.admitted.set_activity(call.target, activity).await?;
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
pub(crate) async fn delete_namespace(call: CallOn<NamespaceName>, uri: Uri) -> HandlerResult {
    let query = Query::read(&uri, &["force"])?;
    let is_forced = query.flag("force")? == Some(true);
    let mode = if is_forced { DeleteMode::Force } else { DeleteMode::IfEmpty };
    call.admitted.delete_namespace(call.target, mode).await?;
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
    call: CallOn<NamespaceName>,
    uri: Uri,
    _body: NoBody,
) -> HandlerResult {
    let query = Query::read(&uri, &["keep"])?;
    let repaired = call.admitted.repair_namespace(call.target, query.get("keep")).await?;
    response::ok(&messages::repaired(&repaired))
}

/// Counts of a namespace.
///
/// While shards are unavailable, the counts are those of the others, and `unavailable_shards` names the
/// missing ones.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/stats",
    tag = "namespaces",
    responses((status = 200, description = "The counts.", body = NamespaceStats))
)]
pub(crate) async fn namespace_stats(call: CallOn<NamespaceName>) -> HandlerResult {
    let (stats, reservation) = call.admitted.namespace_stats(call.target).await?;
    response::json_within(reservation, StatusCode::OK, &stats)
}

/// Number of pending timers that become claimable in each bucket of time.
///
/// Each timer is counted once: overdue, in flight, in the bucket of its due time or next attempt, or
/// later. Buckets begin at multiples of their length; the first bucket contains the current time. The
/// counts are not a consistent snapshot: a timer that changes during the count may be counted as it was,
/// as it is, or not at all; every other timer is counted exactly once. While shards are unavailable, the counts are those of the
/// others, and `unavailable_shards` names the missing ones.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}/forecast",
    tag = "namespaces",
    params(
        ("bucket" = Option<Duration>, Query, description = "Length of a bucket, 1s to 366d, default 1m"),
        ("count" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "How many buckets, 1 to 1000, default 60")
    ),
    responses((status = 200, description = "The forecast.", body = NamespaceForecast))
)]
pub(crate) async fn namespace_forecast(call: CallOn<NamespaceName>, uri: Uri) -> HandlerResult {
    let query = Query::read(&uri, &["bucket", "count"])?;
    let bucket = query.get("bucket").map(Duration::of_query);
    let count = query.integer("count", BUCKETS_MAX)?;
    let CallOn { admitted, target } = call;
    let (forecast, reservation) =
        admitted.namespace_forecast(target, bucket.as_ref(), count).await?;
    response::json_within(reservation, StatusCode::OK, &forecast)
}
