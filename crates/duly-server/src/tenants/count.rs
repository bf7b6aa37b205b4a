//! Counts what the namespaces of a tenant have.

use std::time::Duration;

use duly_core::{NamespaceName, access::NamespacePattern, env::Clock};
use duly_store::{Result, Sharded, Store};
use tokio::time::Instant;

use super::{TenantState, Use};

/// Namespaces of one page.
const PAGE: usize = 100;

/// Counts what the namespaces of a tenant have. While shards are unavailable, its last count stays.
pub(crate) async fn count_tenant(store: &dyn Store, state: &TenantState, clock: &dyn Clock) {
    let tenant = state.tenant();
    match sum_of(store, &tenant.namespaces).await {
        // After a change of its namespaces, the count is one of others.
        Ok(counted) if state.tenant().namespaces == tenant.namespaces => {
            state.use_count(counted, clock.now());
        }
        Ok(_) => {}
        Err(error) => {
            tracing::debug!(tenant = %tenant.name, %error, "a tenant could not be counted");
        }
    }
}

impl TenantState {
    /// Returns `true` if it is time for a count, which is under way then.
    pub(crate) fn begin_count(&self) -> bool {
        let mut next = self.next_count.lock();
        next.is_some_and(|at| at <= Instant::now()) && next.take().is_some()
    }

    /// Notes the end of a count, and the wait until the next one.
    pub(crate) fn end_count(&self, wait: Duration) {
        *self.next_count.lock() = Some(Instant::now() + wait);
    }
}

async fn sum_of(store: &dyn Store, patterns: &[NamespacePattern]) -> Result<Use> {
    let mut sum = Use::default();
    for pattern in patterns {
        let mut page = first_page(store, pattern).await?;
        while !page.is_empty() {
            let last = page.last().cloned();
            page.retain(|name| pattern.matches(name.as_str()));
            let is_over = last.as_ref().is_none_or(|last| !pattern.matches(last.as_str()));
            let counts = Sharded::new(store).counts(&page).await?.whole()?;
            for stats in counts.into_iter().flatten() {
                sum = sum.plus(Use {
                    namespaces: 1,
                    pending: stats.pending(),
                    pending_bytes: stats.pending_bytes,
                    dead: stats.dead,
                    ..Use::default()
                });
            }
            page = if is_over { Vec::new() } else { names(store, last).await? };
        }
    }
    Ok(sum)
}

/// Returns the first names that a pattern may match.
async fn first_page(store: &dyn Store, pattern: &NamespacePattern) -> Result<Vec<NamespaceName>> {
    let Ok(stem) = NamespaceName::new(pattern.stem()) else { return names(store, None).await };
    let own = store.get_namespace(stem.clone()).await?.map(|namespace| namespace.name);
    let mut page: Vec<_> = own.into_iter().collect();
    if pattern.stem() != pattern.as_str() {
        page.extend(names(store, Some(stem)).await?);
    }
    Ok(page)
}

async fn names(store: &dyn Store, after: Option<NamespaceName>) -> Result<Vec<NamespaceName>> {
    let page = store.list_namespaces(after, PAGE).await?;
    Ok(page.into_iter().map(|namespace| namespace.name).collect())
}
