//! `/v1/tenants`: sets of namespaces with limits.

use axum::response::IntoResponse;
use duly_api::access::{ListTenantsResponse, PutTenantRequest, Tenant};
use http::{StatusCode, Uri};

use super::{
    body::JsonBody,
    path::TenantPath,
    query::Query,
    response::{self, HandlerResult},
};
use crate::service::Admitted;

/// Write a tenant: a set of namespaces with limits that its own keys cannot raise.
///
/// An absent field has its default. Only a key with the role admin in all namespaces can do this.
#[utoipa::path(
    put,
    path = "/v1/tenants/{tenant}",
    tag = "keys",
    params(("tenant" = String, Path, description = "Name of the tenant")),
    request_body(content = PutTenantRequest, content_type = "application/json"),
    responses(
        (status = 201, description = "It was made.", body = Tenant),
        (status = 200, description = "It was replaced.", body = Tenant)
    )
)]
pub(crate) async fn put_tenant(
    admitted: Admitted,
    TenantPath(name): TenantPath,
    body: JsonBody,
) -> HandlerResult {
    admitted.note(|notes| notes.target = Some(format!("tenant {name}")));
    let tenant = body.parse::<PutTenantRequest>().await?.check(name)?;
    let (tenant, is_new) = admitted.put_tenant(tenant).await?;
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
    let (limit, cursor) = (query.integer("limit")?, query.get("cursor"));
    response::ok(&admitted.list_tenants(limit, cursor)?)
}

/// One tenant, with its limits and what it uses.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}",
    tag = "keys",
    params(("tenant" = String, Path, description = "Name of the tenant")),
    responses((status = 200, description = "The tenant.", body = Tenant))
)]
pub(crate) async fn get_tenant(admitted: Admitted, TenantPath(name): TenantPath) -> HandlerResult {
    response::ok(&admitted.tenant(&name)?)
}

/// Remove a tenant. Its namespaces and keys stay, without its limits.
#[utoipa::path(
    delete,
    path = "/v1/tenants/{tenant}",
    tag = "keys",
    params(("tenant" = String, Path, description = "Name of the tenant")),
    responses((status = 204, description = "It is gone."))
)]
pub(crate) async fn delete_tenant(
    admitted: Admitted,
    TenantPath(name): TenantPath,
) -> HandlerResult {
    admitted.delete_tenant(&name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
