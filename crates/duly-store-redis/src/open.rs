//! Opening a store: connect, look at the servers' settings, found the deployment or join it.

use std::sync::Arc;

use redis::cmd;
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    OpenError, Options,
    address::Address,
    checks,
    deployment::Deployment,
    keys::SHARDS_MAX,
    link::{Call, Copies, Dial},
    record::FORMAT,
    reply::Reply,
    router::Router,
    script::Script,
};

/// Connects and joins.
pub(crate) async fn open(options: &Options) -> Result<Arc<Deployment>, OpenError> {
    let address = Address::new(options)?;
    let wanted = options.shards.clamp(1, SHARDS_MAX);
    let copies = (options.min_replicas > 0 || options.on_disk).then_some(Copies {
        replicas: options.min_replicas,
        on_disk: options.on_disk,
        within: options.replicas_within,
    });
    let dial = Dial::new(options);
    let router = |shards, copies| {
        let (address, dial) = (address.clone(), dial.clone());
        Router::new(address, dial, options.connections, shards, copies)
    };
    // Shard 0 is in the same slot whatever the number of shards.
    let first = router(1, None);
    reach(&first, &address, options).await?;
    let (shards, name) = found(&first, &address, wanted, options.deployment.as_deref()).await?;
    let router = router(shards, copies);
    reach(&router, &address, options).await?;
    Ok(Arc::new(Deployment::new(router, shards, xxh3_64(name.as_bytes()))))
}

/// Finds the servers and looks at their settings.
async fn reach(router: &Router, address: &Address, options: &Options) -> Result<(), OpenError> {
    let unreachable = |address: &str, reason: String| OpenError::Unreachable {
        address: address.to_owned(),
        reason: once(&reason).to_owned(),
    };
    router.look_around().await.map_err(|reason| unreachable(&address.servers[0], reason))?;
    for server in router.owners().into_keys() {
        let link = router.link(&server).await;
        let link = link.map_err(|error| unreachable(&server, error.to_string()))?;
        checks::check(&link, &server, options).await?;
        if !address.cluster && is_cluster(&link).await {
            let text = format!("{server} is part of a Cluster: use redis-cluster://");
            return Err(OpenError::Url(text));
        }
    }
    Ok(())
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

/// Founds a deployment in an empty database, or reads which one is there.
async fn found(
    router: &Router,
    address: &Address,
    shards: u16,
    wanted: Option<&str>,
) -> Result<(u16, String), OpenError> {
    let refused =
        |reason: String| OpenError::Refused { address: address.servers[0].clone(), reason };
    let name = wanted.map_or_else(|| format!("{:032x}", rand::random::<u128>()), str::to_owned);
    let arguments =
        vec![FORMAT.to_string().into_bytes(), shards.to_string().into_bytes(), name.into_bytes()];
    let shard = duly_core::shard::ShardId(0);
    let answer = router.call(shard, Call::new(Script::Found, arguments)).await;
    let told = async {
        let mut reply = Reply::list(answer?)?;
        Ok::<_, duly_store::Error>((reply.text()?, reply.number()?, reply.text()?))
    };
    let (format, shards, name) = told.await.map_err(|error| refused(error.to_string()))?;
    if format != FORMAT.to_string() {
        return Err(OpenError::Format { found: format, known: FORMAT });
    }
    if let Some(wanted) = wanted.filter(|wanted| *wanted != name) {
        let (address, wanted) = (address.servers[0].clone(), wanted.to_owned());
        return Err(OpenError::Deployment { address, found: name, wanted });
    }
    let shards = u16::try_from(shards).ok().filter(|shards| (1..=SHARDS_MAX).contains(shards));
    let shards = shards.ok_or_else(|| refused("it names an impossible number of shards".into()))?;
    Ok((shards, name))
}
