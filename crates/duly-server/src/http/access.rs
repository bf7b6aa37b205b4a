//! `/v1/keys`: the keys of callers, and `GET /v1/whoami`: the caller itself. `/v1/tenants`: sets of namespaces with
//! limits. `GET /v1/audit`: what administrators have done, as the store keeps it.
//!
//! A secret is shown once, in the response that creates it.

use axum::response::IntoResponse;
use duly_api::access::{
    CallerInfo, CreateKeyRequest, Key, ListAuditResponse, ListKeysResponse, ListTenantsResponse,
    NewKey, PatchKeyRequest, PutTenantRequest, RotateKeyRequest, Tenant,
};
use duly_core::access::{KeyId, TenantName};
use duly_store::query::PAGE_MAX;
use http::{StatusCode, Uri};

use super::{
    body::{JsonBody, MaybeBody},
    response::{self, HandlerResult},
    target::{CallOn, Query},
};
use crate::service::Admitted;

/// Create a key.
///
/// The response has the secret, which cannot be shown again. The new key must not permit more than the
/// key of the call.
#[utoipa::path(
    post,
    path = "/v1/keys",
    tag = "keys",
    request_body(content = CreateKeyRequest, content_type = "application/json"),
    responses((status = 201, description = "The key with its secret.", body = NewKey))
)]
pub(crate) async fn create_key(admitted: Admitted, body: JsonBody) -> HandlerResult {
    let new = admitted.create_key(body.parse().await?).await?;
    response::json(StatusCode::CREATED, &new)
}

/// Keys in the order of their ids, without their secrets: those that permit no more than that of the call.
#[utoipa::path(
    get,
    path = "/v1/keys",
    tag = "keys",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Most keys of the page, 1 to 1000, default 100"),
        ("cursor" = Option<String>, Query, description = "Where to go on: the cursor of the page before")
    ),
    responses((status = 200, description = "A page.", body = ListKeysResponse))
)]
pub(crate) async fn list_keys(admitted: Admitted, uri: Uri) -> HandlerResult {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let (limit, cursor) = (query.integer("limit", PAGE_MAX)?, query.get("cursor"));
    response::ok(&admitted.list_keys(limit, cursor)?)
}

/// One key, without its secret.
#[utoipa::path(
    get,
    path = "/v1/keys/{id}",
    tag = "keys",
    responses((status = 200, description = "The key.", body = Key))
)]
pub(crate) async fn get_key(call: CallOn<KeyId>) -> HandlerResult {
    response::ok(&call.admitted.get_key(&call.target)?)
}

/// Change a key: an absent field stays, `null` for `expires_at` and `networks` removes the limit.
#[utoipa::path(
    patch,
    path = "/v1/keys/{id}",
    tag = "keys",
    request_body(content = PatchKeyRequest, content_type = "application/json"),
    responses((status = 200, description = "The key as it is now.", body = Key))
)]
pub(crate) async fn patch_key(call: CallOn<KeyId>, body: JsonBody) -> HandlerResult {
    response::ok(&call.admitted.patch_key(&call.target, body.parse().await?).await?)
}

/// Give a key a new secret. The old one stays valid for `keep_old`.
#[utoipa::path(
    post,
    path = "/v1/keys/{id}/rotate",
    tag = "keys",
    request_body(content = RotateKeyRequest, content_type = "application/json"),
    responses((status = 200, description = "The key with its new secret.", body = NewKey))
)]
pub(crate) async fn rotate_key(call: CallOn<KeyId>, body: MaybeBody) -> HandlerResult {
    let request = body.parse_or_default().await?;
    response::ok(&call.admitted.rotate_key(&call.target, request).await?)
}

/// Remove a key. It permits nothing from the response on.
#[utoipa::path(
    delete,
    path = "/v1/keys/{id}",
    tag = "keys",
    responses((status = 204, description = "It is gone."))
)]
pub(crate) async fn delete_key(call: CallOn<KeyId>) -> HandlerResult {
    call.admitted.delete_key(&call.target).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The caller: its key and its rights, and the limits and use of its tenant.
#[utoipa::path(
    get,
    path = "/v1/whoami",
    tag = "keys",
    responses((status = 200, description = "The caller.", body = CallerInfo))
)]
pub(crate) async fn whoami(admitted: Admitted) -> HandlerResult {
    response::ok(&admitted.whoami())
}

/// Write a tenant: a set of namespaces with limits that its own keys cannot raise.
///
/// An absent field has its default. Only a key with the role admin in all namespaces can do this.
#[utoipa::path(
    put,
    path = "/v1/tenants/{tenant}",
    tag = "keys",
    request_body(content = PutTenantRequest, content_type = "application/json"),
    responses(
        (status = 201, description = "It was made.", body = Tenant),
        (status = 200, description = "It was replaced.", body = Tenant)
    )
)]
pub(crate) async fn put_tenant(call: CallOn<TenantName>, body: JsonBody) -> HandlerResult {
    let request: PutTenantRequest = body.parse().await?;
    let (tenant, is_new) = call.admitted.put_tenant(call.target, &request).await?;
    response::json(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &tenant)
}

/// Tenants in the order of their names: those of which the key of the call covers every namespace.
#[utoipa::path(
    get,
    path = "/v1/tenants",
    tag = "keys",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Most tenants of the page, 1 to 1000, default 100"),
        ("cursor" = Option<String>, Query, description = "Where to go on: the cursor of the page before")
    ),
    responses((status = 200, description = "A page.", body = ListTenantsResponse))
)]
pub(crate) async fn list_tenants(admitted: Admitted, uri: Uri) -> HandlerResult {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let (limit, cursor) = (query.integer("limit", PAGE_MAX)?, query.get("cursor"));
    response::ok(&admitted.list_tenants(limit, cursor)?)
}

/// One tenant, with its limits and what it uses.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}",
    tag = "keys",
    responses((status = 200, description = "The tenant.", body = Tenant))
)]
pub(crate) async fn get_tenant(call: CallOn<TenantName>) -> HandlerResult {
    response::ok(&call.admitted.tenant(&call.target)?)
}

/// Remove a tenant. Its namespaces and keys stay, without its limits.
#[utoipa::path(
    delete,
    path = "/v1/tenants/{tenant}",
    tag = "keys",
    responses((status = 204, description = "It is gone."))
)]
pub(crate) async fn delete_tenant(call: CallOn<TenantName>) -> HandlerResult {
    call.admitted.delete_tenant(&call.target).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// What administrators have done: the newest 10,000 changes of the last 90 days, the newest first.
///
/// Refused calls, and the changes of timers, are only in the file of `audit.file`. A key that does not cover
/// all namespaces sees the records of those that it covers.
#[utoipa::path(
    get,
    path = "/v1/audit",
    tag = "keys",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Most records of the page, 1 to 1000, default 100"),
        ("cursor" = Option<String>, Query, description = "Where to go on: the cursor of the page before")
    ),
    responses((status = 200, description = "A page.", body = ListAuditResponse))
)]
pub(crate) async fn list_audit(admitted: Admitted, uri: Uri) -> HandlerResult {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let (limit, cursor) = (query.integer("limit", PAGE_MAX)?, query.get("cursor"));
    response::ok(&admitted.list_audit(limit, cursor).await?)
}
