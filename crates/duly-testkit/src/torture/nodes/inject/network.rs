//! Faults between hosts: no packet passes in either direction, and neither side is notified.

use std::time::Duration;

use anyhow::Result;
use rand::rngs::SmallRng;

use super::{
    InjectedFault, TestCluster, await_promotion, random_master, random_node, wait_for_return,
    wait_random,
};
use crate::clock::now_us;
use crate::torture::nodes::network::{Host, HostLink, cut_off, rejoin};

/// Time for which a node is cut off, in milliseconds: longer than the heartbeat timeout.
const CUT_MS: std::ops::Range<u64> = 3_000..8_000;

/// Time for which a master stays cut off after another one has taken its place, in milliseconds.
const REPLACED_MS: std::ops::Range<u64> = 1_000..3_000;

pub(super) async fn cut_from_store(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    cut(cluster, rng, HostLink::Store).await
}

pub(super) async fn cut_from_receivers(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    cut(cluster, rng, HostLink::Web).await
}

async fn cut(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
    link: HostLink,
) -> Result<InjectedFault> {
    let node = &cluster.nodes[random_node(cluster, rng)];
    let from_us = now_us();
    cut_off(&[&node.host], link)?;
    wait_random(rng, CUT_MS).await;
    rejoin(&[&node.host], link)?;
    let cut = Duration::from_micros(now_us() - from_us);
    Ok(InjectedFault::new(from_us, format!("{} for {cut:.1?}", node.host.name)))
}

pub(super) async fn isolate_master(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    let master = random_master(cluster, rng)?;
    isolate(cluster, rng, master, &[]).await
}

pub(super) async fn isolate_master_with_node(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    let master = random_master(cluster, rng)?;
    let node = cluster.nodes[random_node(cluster, rng)].host.clone();
    isolate(cluster, rng, master, &[&node]).await
}

async fn isolate(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
    master: usize,
    with: &[&Host],
) -> Result<InjectedFault> {
    let replica = cluster.redis.replicas_of(master)?.first().copied();
    let host = cluster.redis.peers[master].host.clone();
    let island: Vec<&Host> = with.iter().copied().chain([&host]).collect();
    let from_us = now_us();
    cut_off(&island, HostLink::Store)?;
    let promoted = await_promotion(cluster, master, replica).await?;
    wait_for_return(cluster, rng, REPLACED_MS).await;
    rejoin(&island, HostLink::Store)?;
    let cut = Duration::from_micros(now_us() - from_us);
    let names: Vec<&str> = island.iter().map(|host| host.name.as_str()).collect();
    let names = names.join(" and ");
    Ok(InjectedFault::new(from_us, format!("{names} for {cut:.1?}{promoted}")))
}
