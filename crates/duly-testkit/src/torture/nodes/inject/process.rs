//! Faults of processes: kill, stop, restart.

use anyhow::Result;
use rand::Rng;

use super::{InjectedFault, TestCluster, elapsed, sleep, wait_for_failover};
use crate::clock::now_us;

/// Time until a killed node starts again, in milliseconds: the others have certainly taken over by
/// then.
const AWAY_MS: std::ops::Range<u64> = 4_000..6_000;

/// Duration of a stop of a node, in milliseconds: longer than the heartbeat timeout.
const STOPPED_MS: std::ops::Range<u64> = 3_000..7_000;

/// Time until a master comes back after a replica has taken its place, in milliseconds.
const REPLACED_MS: std::ops::Range<u64> = 500..2_000;

pub(super) async fn kill_node(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let away = cluster.random_duration(AWAY_MS);
    let node = cluster.random_node();
    let from_us = now_us();
    node.process()?.kill()?;
    sleep(away).await;
    node.start().await?;
    Ok(InjectedFault { from_us, text: node.host.name.clone() })
}

pub(super) async fn stop_node(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let duration = cluster.random_duration(STOPPED_MS);
    let node = cluster.random_node();
    let from_us = now_us();
    node.process()?.freeze()?;
    sleep(duration).await;
    node.process()?.thaw()?;
    let text = format!("{} for {:.1?}", node.host.name, elapsed(from_us));
    Ok(InjectedFault { from_us, text })
}

pub(super) async fn rolling_restart(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let from_us = now_us();
    for node in &mut cluster.nodes {
        node.stop().await?;
        node.start().await?;
    }
    Ok(InjectedFault { from_us, text: "all, one after the other".to_owned() })
}

pub(super) async fn kill_master(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let master = cluster.random_master()?;
    let replica = cluster.redis.replicas_of(master)?.first().copied();
    let away = cluster.random_duration(REPLACED_MS);
    let is_empty = replica.is_some() && cluster.rng.random_bool(0.5);
    let from_us = now_us();
    cluster.redis.peers[master].server.kill();
    let promoted = wait_for_failover(cluster, master, replica, away).await?;
    let peer = &mut cluster.redis.peers[master];
    if is_empty {
        peer.server.lose_data();
    }
    peer.start_again()?;
    let state = if is_empty { "came back empty" } else { "came back" };
    let text = format!("{} {state} after {:.1?}{promoted}", peer.host.name, elapsed(from_us));
    Ok(InjectedFault { from_us, text })
}
