//! `/v1/tenants`: sets of namespaces with limits.
//!
//! Only an administrator of all namespaces can change a tenant: its own keys cannot raise its limits.

use std::time::Duration;

use axum::{extract::State, response::IntoResponse};
use duly_api::access::{ListTenantsResponse, PutTenantRequest, Tenant, TenantUsage};
use duly_core::{
    Code, Invalid,
    access::{self, ApiKey, NamespacePattern, TenantLimit, TenantName},
};
use duly_store::AccessChange;
use http::{StatusCode, Uri};
use tokio::time::timeout;

use super::{
    App, Problem,
    body::JsonBody,
    path::TenantPath,
    query::Query,
    response::{self, HandlerResult},
    timers::list::page_limit,
};
use crate::{
    call,
    tenants::{TenantState, count::count_tenant},
};

/// Time to count what a new tenant has, before the response.
const COUNT_WITHIN: Duration = Duration::from_secs(2);

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
    State(app): State<App>,
    TenantPath(name): TenantPath,
    body: JsonBody,
) -> HandlerResult {
    note_target(&name);
    let tenant = body.parse::<PutTenantRequest>().await?.check(name.clone())?;
    let present = app.auth.tenants().get(&name).map(|state| state.tenant());
    let is_same =
        |limit| present.as_ref().is_some_and(|it| it.limits[limit] == tenant.limits[limit]);
    let above = app.above_maximum(&tenant).find(|(limit, _)| !is_same(*limit));
    above.map_or(Ok(()), |(_, invalid)| Err(invalid))?;
    let is_new = present.is_none();
    let change = |_: &_| Ok(AccessChange::PutTenant(Box::new(tenant.clone())));
    app.change_tenant(&name, change).await?;
    if let Some(state) = app.auth.tenants().get(&name) {
        // It begins with what its namespaces have already.
        let count = count_tenant(&*app.store, state, &*app.clock);
        timeout(COUNT_WITHIN, count).await.ok();
    }
    let straddles = |key: &&ApiKey| {
        let covers = |own: &NamespacePattern| key.namespaces.iter().any(|it| it.overlaps(own));
        tenant.namespaces.iter().any(covers) && !tenant.has_key(key) && !key.covers_all()
    };
    let straddling = app.auth.records().keys.values().filter(straddles).count();
    if straddling > 0 {
        call::set_notice(format!(
            "{straddling} keys cover namespaces of tenant {name} and others: they belong to no tenant, and its \
             limits of calls, connections and memory do not hold for them"
        ));
    }
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    response::json(status, &app.tenant(&name)?)
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
pub(crate) async fn list_tenants(State(app): State<App>, uri: Uri) -> HandlerResult {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let limit = page_limit(query.integer("limit")?)?;
    let after = query
        .get("cursor")
        .map(TenantName::new)
        .transpose()
        .map_err(|invalid| Invalid { field: "cursor".to_owned(), ..invalid })?;
    let tenants = app.auth.tenants();
    let is_next = |state: &&_| {
        let tenant = TenantState::tenant(state);
        after.as_ref().is_none_or(|it| tenant.name > *it) && is_visible(&tenant)
    };
    let page = tenants.iter().map(AsRef::as_ref).filter(is_next);
    let mut page: Vec<_> = page.take(limit + 1).map(shown).collect();
    let has_more = page.len() > limit;
    page.truncate(limit);
    let cursor = page.last().filter(|_| has_more).map(|tenant| tenant.name.clone());
    response::ok(&ListTenantsResponse { tenants: page, cursor })
}

/// One tenant, with its limits and what it uses.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}",
    tag = "keys",
    params(("tenant" = String, Path, description = "Name of the tenant")),
    responses((status = 200, description = "The tenant.", body = Tenant))
)]
pub(crate) async fn get_tenant(
    State(app): State<App>,
    TenantPath(name): TenantPath,
) -> HandlerResult {
    response::ok(&app.tenant(&name)?)
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
    State(app): State<App>,
    TenantPath(name): TenantPath,
) -> HandlerResult {
    let delete = |is_there: bool| match is_there {
        true => Ok(AccessChange::DeleteTenant(name.clone())),
        false => Err(no_tenant(&name)),
    };
    app.change_tenant(&name, |records| delete(records.tenants.contains_key(&name))).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl App {
    /// Returns a tenant that the caller may know of.
    fn tenant(&self, name: &TenantName) -> Result<Tenant, Problem> {
        let tenants = self.auth.tenants();
        let state = tenants.get(name).filter(|state| is_visible(&state.tenant()));
        state.map(|state| shown(state)).ok_or_else(|| no_tenant(name))
    }

    async fn change_tenant(
        &self,
        name: &TenantName,
        change: impl Fn(&duly_store::AccessRecords) -> Result<AccessChange, Problem> + Send + Sync,
    ) -> Result<(), Problem> {
        note_target(name);
        self.change_records(|records| {
            if !call::caller().key().is_some_and(ApiKey::is_admin) {
                let detail = "only a key with the role admin in all namespaces (*) can change tenants: a tenant \
                              cannot raise its own limits";
                return Err(Problem::new(Code::PermissionDenied, detail));
            }
            change(records)
        })
        .await
        .map(drop)
    }

    /// Returns the limits of a tenant that are above what the server has in all.
    fn above_maximum(
        &self,
        tenant: &access::Tenant,
    ) -> impl Iterator<Item = (TenantLimit, Invalid)> {
        self.limits.tenant_limits_max.iter().filter_map(|(limit, max)| {
            let own = tenant.limits[limit].filter(|own| *own > max)?;
            let allowed = format!("at most {max}, which is {} of this server", key_of(limit));
            Some((limit, Invalid::new(limit.as_str(), own, allowed).within("limits")))
        })
    }

    /// Logs the tenants whose limits are above what the server has in all.
    pub(crate) fn warn_of_tenants(&self) {
        for state in self.auth.tenants().iter() {
            let tenant = state.tenant();
            for (_, invalid) in self.above_maximum(&tenant) {
                tracing::warn!(
                    tenant = %tenant.name,
                    %invalid,
                    "a limit of a tenant is above the maximum of this server; the maximum applies"
                );
            }
        }
    }
}

/// Notes the tenant for the audit log.
fn note_target(name: &TenantName) {
    call::note(|notes| notes.target = Some(format!("tenant {name}")));
}

/// Returns the key of the configuration that bounds a limit of tenants.
const fn key_of(limit: TenantLimit) -> &'static str {
    match limit {
        TenantLimit::MaxNamespaces => "limits.namespaces_max",
        TenantLimit::MaxConnections => "server.connections_max",
        TenantLimit::MaxWaitingCalls => "delivery.pull_waiters_max",
        TenantLimit::MaxRequestBytes => "server.request_memory_max",
        _ => "the maximum",
    }
}

/// Returns `true` if the caller covers every namespace of a tenant.
fn is_visible(tenant: &access::Tenant) -> bool {
    let caller = call::caller();
    caller.key().is_some_and(|key| {
        tenant.namespaces.iter().all(|own| key.namespaces.iter().any(|it| own.is_within(it)))
    })
}

/// Returns a tenant with what it uses.
pub(super) fn shown(state: &TenantState) -> Tenant {
    let usage = state.usage();
    let counted = usage.counted;
    let usage = TenantUsage {
        namespaces: counted.namespaces,
        pending: counted.pending,
        pending_bytes: counted.pending_bytes,
        dead: counted.dead,
        connections: usage.connections as u64,
        waiting_calls: usage.waiting as u64,
        request_bytes: usage.request_bytes as u64,
        counted_at: usage.counted_at.map(Into::into),
    };
    Tenant::new(&state.tenant(), usage)
}

fn no_tenant(name: &TenantName) -> Problem {
    let detail = format!("there is no tenant {name}: GET /v1/tenants lists all");
    Problem::new(Code::NotFound, detail)
}
