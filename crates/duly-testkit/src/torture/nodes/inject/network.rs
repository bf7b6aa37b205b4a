//! Faults between hosts: no packet passes in either direction, and neither side is notified.

use anyhow::Result;

use super::{InjectedFault, TestCluster, elapsed, names, sleep, wait_for_failover};
use crate::clock::now_us;
use crate::torture::nodes::network::{HostLink, ISLAND, move_to_bridge, rejoin};

/// Time for which a node is cut off, in milliseconds: longer than the heartbeat timeout.
const CUT_MS: std::ops::Range<u64> = 3_000..8_000;

/// Time for which a master stays cut off after another one has taken its place, in milliseconds.
const REPLACED_MS: std::ops::Range<u64> = 1_000..3_000;

/// Cuts a node off on this link.
pub(super) async fn cut(cluster: &mut TestCluster, link: HostLink) -> Result<InjectedFault> {
    let duration = cluster.random_duration(CUT_MS);
    let node = [cluster.random_node().host.clone()];
    let from_us = now_us();
    move_to_bridge(&node, link, ISLAND)?;
    sleep(duration).await;
    rejoin(&node, link)?;
    let text = format!("{} for {:.1?}", names(&node), elapsed(from_us));
    Ok(InjectedFault { from_us, text })
}

/// Cuts a master off, alone or together with a node.
pub(super) async fn isolate_master(
    cluster: &mut TestCluster,
    with_node: bool,
) -> Result<InjectedFault> {
    let master = cluster.random_master()?;
    let mut island = vec![cluster.redis.peers[master].host.clone()];
    if with_node {
        island.insert(0, cluster.random_node().host.clone());
    }
    let replica = cluster.redis.replicas_of(master)?.first().copied();
    let away = cluster.random_duration(REPLACED_MS);
    let from_us = now_us();
    move_to_bridge(&island, HostLink::Store, ISLAND)?;
    let promoted = wait_for_failover(cluster, master, replica, away).await?;
    rejoin(&island, HostLink::Store)?;
    let text = format!("{} for {:.1?}{promoted}", names(&island), elapsed(from_us));
    Ok(InjectedFault { from_us, text })
}
