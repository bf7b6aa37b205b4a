//! Opening a store: connect, look at the servers' settings, create the deployment or join it.

use std::sync::Arc;

use redis::cmd;

use crate::{
    OpenError, Options,
    address::Address,
    bootstrap, checks,
    deployment::Deployment,
    keys::SHARDS_MAX,
    link::{Copies, Dial},
    marker::Mark,
    router::Router,
};

/// Connects and joins.
pub(crate) async fn open(options: &Options) -> Result<Arc<Deployment>, OpenError> {
    let address = Address::new(options)?;
    let copies = (options.min_replicas > 0 || options.on_disk).then_some(Copies {
        replicas: options.min_replicas,
        on_disk: options.on_disk,
        within: options.replicas_within,
    });
    let router = |shards, deployment: &str| {
        let (address, dial) = (address.clone(), Dial::new(options, deployment));
        Router::new(address, dial, options.connections, shards, copies)
    };
    let first = router(SHARDS_MAX, "");
    reach(&first, &address, options).await?;
    let identity = bootstrap::identify(&first, options).await?;
    let router = router(identity.shards, &identity.id);
    router
        .look_around()
        .await
        .map_err(|reason| OpenError::Unreachable { address: address.servers[0].clone(), reason })?;
    let (mut lists, mut progress, mut is_sealed) = (Vec::new(), Vec::new(), false);
    for (shard, marker) in bootstrap::markers(&router, identity.shards).await {
        // A shard that does not answer is looked at again while the node runs.
        if let Ok(marker) = marker {
            router.set_mark(shard, Mark::of(marker.as_ref(), &identity.id));
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
        reason: "no shard tells which are the coordination shards".to_owned(),
    })?;
    let deployment = Deployment::new(router, identity, list, is_sealed, options.on_rollback);
    for (shard, progress) in progress {
        deployment.rollbacks.saw(shard, progress);
    }
    Ok(Arc::new(deployment))
}

/// Finds the servers and looks at the settings of those that answer.
async fn reach(router: &Router, address: &Address, options: &Options) -> Result<(), OpenError> {
    let unreachable = |address: &str, reason: String| OpenError::Unreachable {
        address: address.to_owned(),
        reason: once(&reason).to_owned(),
    };
    router.look_around().await.map_err(|reason| unreachable(&address.servers[0], reason))?;
    let mut silent = None;
    let mut has_answered = false;
    for server in router.owners().into_keys() {
        let link = match router.link(&server).await {
            Ok(link) => link,
            Err(error) => {
                let error = unreachable(&server, error.to_string());
                tracing::warn!(%error, "a server is away: its settings are not known");
                silent = Some(error);
                continue;
            }
        };
        has_answered = true;
        checks::check(&link, &server, options).await?;
        if !address.cluster && is_cluster(&link).await {
            let text = format!("{server} is part of a Cluster: use redis-cluster://");
            return Err(OpenError::Url(text));
        }
    }
    silent.filter(|_| !has_answered).map_or(Ok(()), Err)
}

/// What is said of each command of a pipeline, once.
fn once(reason: &str) -> &str {
    let first = reason.split_once("(Index 0, error: ").map_or(reason, |(_, first)| first);
    first.split_once("), (Index ").map_or(first, |(first, _)| first)
}

async fn is_cluster(link: &crate::link::Link) -> bool {
    let info = link.command(cmd("INFO").arg("cluster")).await;
    let text = match info {
        Ok(redis::Value::BulkString(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Ok(redis::Value::VerbatimString { text, .. }) => text,
        _ => String::new(),
    };
    text.lines().any(|line| line.trim() == "cluster_enabled:1")
}
