//! Counts what namespaces have: those with a label in metrics, and those of tenants.
//!
//! A count reads the counts of each of these namespaces in every shard. The next one begins after a second, or after
//! ten times the duration of the count, so counting takes at most a tenth of the time.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use duly_core::{
    NamespaceName,
    access::{NamespacePattern, TenantLimits},
    env::Clock,
};
use duly_node::ReasonLimit;
use duly_store::{Result, Sharded, Store};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    auth::Auth,
    telemetry,
    tenants::{TenantState, Usage, Use},
};

/// Time between two counts.
const EVERY: Duration = Duration::from_secs(1);
/// A count takes at most this part of the time: one tenth.
const SHARE: u32 = 10;

/// Time after which it is checked which tenants are to be counted.
const TICK: Duration = Duration::from_millis(250);
/// Tenants that are counted at the same time.
const AT_ONCE: usize = 8;
/// Namespaces of one page.
const PAGE: usize = 100;
/// Namespaces with a label of their own.
const LABELS_MAX: usize = 100;

/// Returns the limit of the reasons of failed attempts: they are a part of the bytes of a tenant's pending timers.
pub(crate) fn reason_limit(auth: &Auth) -> ReasonLimit {
    let auth = auth.clone();
    ReasonLimit::new(move |namespace, bytes| {
        let tenants = auth.tenants();
        let tenant = tenants.of_namespace(namespace.as_str());
        tenant.is_none_or(|tenant| tenant.admit_reason(bytes as u64))
    })
}

/// Counts until it is aborted.
pub(crate) async fn run(auth: Auth, store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    let labelled = count_all_labelled(Arc::clone(&store), Arc::clone(&clock));
    tokio::join!(labelled, count_tenants(auth, store, clock));
}

async fn count_all_labelled(store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    let mut labelled = BTreeSet::new();
    loop {
        let began = Instant::now();
        // While shards are unavailable, the last counts stay.
        if let Err(error) = count_labelled(&*store, &mut labelled, &*clock).await {
            tracing::debug!(%error, "namespaces could not be counted");
        }
        sleep(EVERY.max(began.elapsed() * SHARE)).await;
    }
}

/// Counts the tenants, each on its own: one with very many namespaces delays no other.
async fn count_tenants(auth: Auth, store: Arc<dyn Store>, clock: Arc<dyn Clock>) {
    let (mut measured, mut counts) = (BTreeSet::new(), JoinSet::new());
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        while counts.try_join_next().is_some() {}
        let mut gone = std::mem::take(&mut measured);
        for state in auth.tenants().iter() {
            let tenant = state.tenant();
            let usage = state.usage();
            telemetry::set_tenant_use(&tenant.name, &tenant.limits, |limit| usage.of(limit));
            gone.remove(&tenant.name);
            measured.insert(tenant.name.clone());
            if !state.begin_count() {
                continue;
            }
            let (state, store, clock) = (Arc::clone(state), Arc::clone(&store), Arc::clone(&clock));
            let slots = Arc::clone(&slots);
            counts.spawn(async move {
                let _slot = slots.acquire_owned().await;
                let began = Instant::now();
                count_tenant(&*store, &state, &*clock).await;
                state.end_count(EVERY.max(began.elapsed() * SHARE));
            });
        }
        for name in gone {
            let nothing = Usage::default();
            telemetry::set_tenant_use(&name, &TenantLimits::default(), |limit| nothing.of(limit));
        }
        sleep(TICK).await;
    }
}

async fn count_labelled(
    store: &dyn Store,
    labelled: &mut BTreeSet<NamespaceName>,
    clock: &dyn Clock,
) -> Result<()> {
    for namespace in store.list_namespaces(None, LABELS_MAX).await? {
        if labelled.len() < LABELS_MAX {
            labelled.insert(namespace.name);
        }
    }
    let names: Vec<_> = labelled.iter().cloned().collect();
    let counts = Sharded::new(store).counts(&names).await?.whole()?;
    for (name, counts) in names.iter().zip(counts) {
        // A namespace that is gone has nothing.
        telemetry::set_namespace(name, &counts.unwrap_or_default(), clock.now());
    }
    Ok(())
}

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
