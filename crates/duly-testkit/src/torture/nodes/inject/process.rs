//! Faults of processes: kill, stop, restart.

use std::time::Duration;

use anyhow::Result;
use rand::Rng;
use rand::rngs::SmallRng;

use super::{
    InjectedFault, TestCluster, await_promotion, random_master, random_node, wait_for_return,
    wait_random,
};
use crate::clock::now_us;

/// Time until a killed node starts again, in milliseconds: the others have certainly taken over by
/// then.
const AWAY_MS: std::ops::Range<u64> = 4_000..6_000;

/// Duration of a stop of a node, in milliseconds: longer than the heartbeat timeout.
const STOPPED_MS: std::ops::Range<u64> = 3_000..7_000;

/// Time until a master comes back after a replica has taken its place, in milliseconds.
const REPLACED_MS: std::ops::Range<u64> = 500..2_000;

pub(super) async fn kill_node(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    let node = random_node(cluster, rng);
    let node = &mut cluster.nodes[node];
    let from_us = now_us();
    node.kill()?;
    wait_random(rng, AWAY_MS).await;
    node.start().await?;
    Ok(InjectedFault::new(from_us, &node.host.name))
}

pub(super) async fn stop_node(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    let node = random_node(cluster, rng);
    let node = &mut cluster.nodes[node];
    let from_us = now_us();
    node.freeze()?;
    wait_random(rng, STOPPED_MS).await;
    node.thaw()?;
    let stopped = Duration::from_micros(now_us() - from_us);
    Ok(InjectedFault::new(from_us, format!("{} for {stopped:.1?}", node.host.name)))
}

pub(super) async fn rolling_restart(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let from_us = now_us();
    for node in &mut cluster.nodes {
        node.stop().await?;
        node.start().await?;
    }
    Ok(InjectedFault::new(from_us, "all, one after the other"))
}

pub(super) async fn kill_master(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    let master = random_master(cluster, rng)?;
    let replica = cluster.redis.replicas_of(master)?.first().copied();
    let from_us = now_us();
    cluster.redis.peers[master].kill();
    let promoted = await_promotion(cluster, master, replica).await?;
    wait_for_return(cluster, rng, REPLACED_MS).await;
    let peer = &mut cluster.redis.peers[master];
    let comes_back = if replica.is_some() && rng.random_bool(0.5) {
        peer.lose_data();
        "came back empty"
    } else {
        "came back"
    };
    peer.start_again()?;
    let away = Duration::from_micros(now_us() - from_us);
    Ok(InjectedFault::new(
        from_us,
        format!("{} {comes_back} after {away:.1?}{promoted}", peer.host.name),
    ))
}
