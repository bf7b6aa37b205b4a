//! Tenants: sets of namespaces with limits.
//!
//! Only an administrator of all namespaces can change a tenant: its own keys cannot raise its limits.

use std::time::Duration;

use duly_api::access::{ListTenantsResponse, PutTenantRequest, Tenant, TenantUsage};
use duly_core::{
    Code, Invalid,
    access::{self, ApiKey, NamespacePattern, TenantLimit, TenantName},
};
use duly_store::{AccessChange, AccessRecords};
use tokio::time::timeout;

use super::{
    Admitted, App,
    lists::{first_page, page_limit},
};
use crate::{counting::count_tenant, problem::Problem, tenants::TenantState};

/// Time to count what a new tenant has, before the response.
const COUNT_WITHIN: Duration = Duration::from_secs(2);

impl Admitted {
    /// Notes the tenant of the call for the audit log.
    pub(crate) fn note_tenant(&self, name: &TenantName) {
        self.note(|notes| notes.target = Some(format!("tenant {name}")));
    }

    /// Writes a tenant. Returns the tenant, and `true` if it is new.
    pub(crate) async fn put_tenant(
        &self,
        name: TenantName,
        request: &PutTenantRequest,
    ) -> Result<(Tenant, bool), Problem> {
        let tenant = request.check(name.clone())?;
        self.check_admin()?;
        let present = self.auth.tenants().get(&name).map(|state| state.tenant());
        let is_same =
            |limit| present.as_ref().is_some_and(|it| it.limits[limit] == tenant.limits[limit]);
        let above = self.above_maximum(&tenant).find(|(limit, _)| !is_same(*limit));
        above.map_or(Ok(()), |(_, invalid)| Err(invalid))?;
        let change = |_: &_| Ok(AccessChange::PutTenant(Box::new(tenant.clone())));
        self.change_tenant(change).await?;
        if let Some(state) = self.auth.tenants().get(&name) {
            // It begins with what its namespaces have already.
            let count = count_tenant(&*self.store, state, &*self.clock);
            timeout(COUNT_WITHIN, count).await.ok();
        }
        let straddles = |key: &&ApiKey| {
            let covers = |own: &NamespacePattern| key.namespaces.iter().any(|it| it.overlaps(own));
            tenant.namespaces.iter().any(covers) && !tenant.has_key(key) && !key.covers_all()
        };
        let straddling = self.auth.records().keys.values().filter(straddles).count();
        if straddling > 0 {
            self.set_notice(format!(
                "{straddling} keys cover namespaces of tenant {name} and others: they belong to no tenant, and its \
                 limits of calls, connections and memory do not hold for them"
            ));
        }
        Ok((self.tenant(&name)?, present.is_none()))
    }

    /// Returns a page of the tenants of which the caller covers every namespace.
    pub(crate) fn list_tenants(
        &self,
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<ListTenantsResponse, Problem> {
        let limit = page_limit(limit)?;
        let after = cursor
            .map(TenantName::new)
            .transpose()
            .map_err(|invalid| Invalid { field: "cursor".to_owned(), ..invalid })?;
        let tenants = self.auth.tenants();
        let is_next = |state: &&_| {
            let tenant = TenantState::tenant(state);
            after.as_ref().is_none_or(|it| tenant.name > *it) && is_visible(self, &tenant)
        };
        let page = tenants.iter().map(AsRef::as_ref).filter(is_next);
        let (page, has_more) = first_page(page.map(shown), limit);
        let cursor = page.last().filter(|_| has_more).map(|tenant| tenant.name.clone());
        Ok(ListTenantsResponse { tenants: page, cursor })
    }

    /// Removes a tenant.
    pub(crate) async fn delete_tenant(&self, name: &TenantName) -> Result<(), Problem> {
        let delete = |records: &AccessRecords| match records.tenants.contains_key(name) {
            true => Ok(AccessChange::DeleteTenant(name.clone())),
            false => Err(no_tenant(name)),
        };
        self.change_tenant(delete).await
    }

    /// Returns a tenant that the caller may know of.
    pub(crate) fn tenant(&self, name: &TenantName) -> Result<Tenant, Problem> {
        let tenants = self.auth.tenants();
        let state = tenants.get(name).filter(|state| is_visible(self, &state.tenant()));
        state.map(|state| shown(state)).ok_or_else(|| no_tenant(name))
    }

    async fn change_tenant(
        &self,
        change: impl Fn(&AccessRecords) -> Result<AccessChange, Problem> + Send + Sync,
    ) -> Result<(), Problem> {
        self.check_admin()?;
        self.change_records(|_, records| change(records)).await.map(drop)
    }

    /// Checks that the caller is an administrator of all namespaces, if the server requires keys.
    fn check_admin(&self) -> Result<(), Problem> {
        if !self.auth.is_required() || self.caller().key().is_some_and(ApiKey::is_admin) {
            return Ok(());
        }
        let detail = "only a key with the role admin in all namespaces (*) can change tenants: a tenant cannot \
                      raise its own limits";
        Err(Problem::new(Code::PermissionDenied, detail))
    }
}

impl App {
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
fn is_visible(admitted: &Admitted, tenant: &access::Tenant) -> bool {
    admitted.caller().key().is_some_and(|key| {
        tenant.namespaces.iter().all(|own| key.namespaces.iter().any(|it| own.is_within(it)))
    })
}

/// Returns a tenant with what it uses.
pub(crate) fn shown(state: &TenantState) -> Tenant {
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
