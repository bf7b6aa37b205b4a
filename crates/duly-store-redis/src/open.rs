//! Opens a store: connects, checks the servers' settings, and creates the deployment or joins it.

use std::{collections::BTreeSet, sync::Arc};

use duly_core::error_code::Retry;

use crate::{
    OpenError, Opened, Options,
    address::Address,
    bootstrap, checks,
    connection::{ConnectOptions, RequiredCopies},
    deployment::Deployment,
    keys::SHARDS_MAX,
    marker::MarkerState,
    router::Router,
};

/// Connects to the servers and joins the deployment.
pub(crate) async fn open(options: &Options) -> Opened<Arc<Deployment>> {
    let address = Address::new(options)?;
    let mut warnings = BTreeSet::new();
    warnings.extend(checks::check_failover(&address, options)?);
    let copies = (options.min_replicas > 0 || options.on_disk).then_some(RequiredCopies {
        replicas: options.min_replicas,
        on_disk: options.on_disk,
        within: options.replication_timeout,
    });
    let router = |shards, deployment: &str| {
        let (address, connect_options) =
            (address.clone(), ConnectOptions::new(options, deployment));
        Router::new(address, connect_options, options.connections, shards, copies)
    };
    let first = router(SHARDS_MAX, "");
    warnings.extend(check_servers(&first, &address, options).await?);
    let identity = bootstrap::identify(&first, options).await?;
    let router = router(identity.shards, &identity.id);
    router.refresh_owners().await?;
    let (mut lists, mut progress, mut is_sealed) = (Vec::new(), Vec::new(), false);
    for (shard, marker) in bootstrap::markers(&router, identity.shards).await {
        // A shard that does not reply is polled again while the node runs.
        if let Ok(marker) = marker {
            router.set_marker_state(shard, MarkerState::of(marker.as_ref(), &identity.id));
            if let Some(marker) = marker.filter(|marker| marker.identity == identity) {
                lists.push(marker.list);
                progress.push((shard, marker.progress));
                is_sealed |= marker.is_sealed;
            }
        }
    }
    let newest = lists.into_iter().max_by_key(|list| list.own.version);
    let list = newest.ok_or_else(|| OpenError::Unreachable {
        address: address.servers[0].clone(),
        reason: "no shard replied with the list of coordinator shards".to_owned(),
    })?;
    let deployment = Deployment::new(router, identity, list, is_sealed, options);
    for (shard, progress) in progress {
        deployment.rollbacks.note_seen(shard, progress);
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Ok(Arc::new(deployment))
}

/// Finds the servers and checks the settings of those that can be used. Returns warnings about weak
/// settings, and about servers that cannot be used yet.
///
/// # Errors
/// When a server fails with an error that does not pass by itself, or when no server can be used.
async fn check_servers(
    router: &Router,
    address: &Address,
    options: &Options,
) -> Opened<Vec<String>> {
    router.refresh_owners().await?;
    let mut warnings = Vec::new();
    let mut waits_for = None;
    let mut is_usable = false;
    for server in router.owners().into_keys() {
        match check_server(router, address, options, &server).await {
            Ok(weak) => {
                warnings.extend(weak);
                is_usable = true;
            }
            Err(error) if error.retry() == Retry::Never => return Err(error),
            Err(error) => {
                warnings.push(format!("a server cannot be used yet: {error}"));
                waits_for = Some(error);
            }
        }
    }
    waits_for.filter(|_| !is_usable).map_or(Ok(warnings), Err)
}

/// Connects to a server and checks its settings. Returns warnings about weak ones.
async fn check_server(
    router: &Router,
    address: &Address,
    options: &Options,
    server: &str,
) -> Opened<Vec<String>> {
    let connection =
        router.connection(server).await.map_err(|error| OpenError::of(server, &error))?;
    let warnings = checks::check(&connection, server, options).await?;
    let cluster = checks::info(&connection, server, "cluster").await.unwrap_or_default();
    let is_cluster = cluster.lines().any(|line| line.trim() == "cluster_enabled:1");
    if !address.cluster && is_cluster {
        let text = format!("{server} is part of a Cluster: use redis-cluster://");
        return Err(OpenError::Url(text));
    }
    Ok(warnings)
}
