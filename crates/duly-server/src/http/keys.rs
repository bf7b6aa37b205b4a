//! `/v1/keys`: the keys of callers. `GET /v1/whoami`: the caller itself.
//!
//! A secret is shown once, in the response that creates it.

use axum::response::IntoResponse;
use duly_api::access::{
    CallerInfo, CreateKeyRequest, Key, ListKeysResponse, NewKey, PatchKeyRequest, RotateKeyRequest,
};
use http::{StatusCode, Uri};

use super::{
    body::{JsonBody, MaybeBody},
    path::KeyPath,
    query::Query,
    response::{self, HandlerResult},
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
    let (limit, cursor) = (query.integer("limit")?, query.get("cursor"));
    response::ok(&admitted.list_keys(limit, cursor)?)
}

/// One key, without its secret.
#[utoipa::path(
    get,
    path = "/v1/keys/{id}",
    tag = "keys",
    params(("id" = String, Path, description = "Id of the key")),
    responses((status = 200, description = "The key.", body = Key))
)]
pub(crate) async fn get_key(admitted: Admitted, KeyPath(id): KeyPath) -> HandlerResult {
    response::ok(&admitted.get_key(&id)?)
}

/// Change a key: an absent field stays, `null` for `expires_at` and `networks` removes the limit.
#[utoipa::path(
    patch,
    path = "/v1/keys/{id}",
    tag = "keys",
    params(("id" = String, Path, description = "Id of the key")),
    request_body(content = PatchKeyRequest, content_type = "application/json"),
    responses((status = 200, description = "The key as it is now.", body = Key))
)]
pub(crate) async fn patch_key(
    admitted: Admitted,
    KeyPath(id): KeyPath,
    body: JsonBody,
) -> HandlerResult {
    response::ok(&admitted.patch_key(&id, body.parse().await?).await?)
}

/// Give a key a new secret. The old one stays valid for `keep_old`.
#[utoipa::path(
    post,
    path = "/v1/keys/{id}/rotate",
    tag = "keys",
    params(("id" = String, Path, description = "Id of the key")),
    request_body(content = RotateKeyRequest, content_type = "application/json"),
    responses((status = 200, description = "The key with its new secret.", body = NewKey))
)]
pub(crate) async fn rotate_key(
    admitted: Admitted,
    KeyPath(id): KeyPath,
    MaybeBody(body): MaybeBody,
) -> HandlerResult {
    let request: RotateKeyRequest = match body {
        Some(body) => body.parse().await?,
        None => RotateKeyRequest::default(),
    };
    response::ok(&admitted.rotate_key(&id, request).await?)
}

/// Remove a key. It permits nothing from the response on.
#[utoipa::path(
    delete,
    path = "/v1/keys/{id}",
    tag = "keys",
    params(("id" = String, Path, description = "Id of the key")),
    responses((status = 204, description = "It is gone."))
)]
pub(crate) async fn delete_key(admitted: Admitted, KeyPath(id): KeyPath) -> HandlerResult {
    admitted.delete_key(&id).await?;
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
