//! Faults between hosts that still reach each other: packets are delayed or lost.

use std::time::Duration;

use anyhow::Result;
use rand::Rng;
use rand::rngs::SmallRng;

use super::{InjectedFault, TestCluster, random_master, random_node, wait_random};
use crate::clock::now_us;
use crate::torture::nodes::distant::{DistantHosts, Route};
use crate::torture::nodes::network::{Host, HostLink};

/// Duration of the fault, in milliseconds.
const DISTANT_MS: std::ops::Range<u64> = 3_000..7_000;

/// Mean delay of a packet, in milliseconds.
const DELAY_MS: std::ops::RangeInclusive<u64> = 50..=300;
const JITTER_PERCENT: u64 = 20;

/// Share of lost packets in each direction, in percent.
const LOSS_PERCENT: std::ops::RangeInclusive<u32> = 1..=5;

pub(super) async fn slow_store(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    let node = cluster.nodes[random_node(cluster, rng)].host.clone();
    let route = random_delay(rng);
    make_distant(cluster, &[&node], &route, rng).await
}

pub(super) async fn slow_master(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    let master = random_master(cluster, rng)?;
    // If the master alone is distant, its replicas are distant from it too, and so they confirm late.
    let mut group = vec![master];
    if rng.random_bool(0.5) {
        group.extend(cluster.redis.replicas_of(master)?);
    }
    let hosts: Vec<Host> =
        group.iter().map(|number| cluster.redis.peers[*number].host.clone()).collect();
    let route = random_delay(rng);
    make_distant(cluster, &hosts.iter().collect::<Vec<_>>(), &route, rng).await
}

pub(super) async fn lossy_network(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    let node = cluster.nodes[random_node(cluster, rng)].host.clone();
    let route = Route { delay_ms: 0..=0, loss_percent: rng.random_range(LOSS_PERCENT) };
    make_distant(cluster, &[&node], &route, rng).await
}

fn random_delay(rng: &mut SmallRng) -> Route {
    let middle = rng.random_range(DELAY_MS);
    let jitter = middle * JITTER_PERCENT / 100;
    Route { delay_ms: middle - jitter..=middle + jitter, loss_percent: 0 }
}

async fn make_distant(
    cluster: &TestCluster,
    hosts: &[&Host],
    route: &Route,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    let before = cluster.nodes[0].member_ids().await;
    let from_us = now_us();
    let distant = DistantHosts::move_away(hosts, HostLink::Store, route, rng)?;
    wait_random(rng, DISTANT_MS).await;
    distant.bring_back()?;
    let duration = Duration::from_micros(now_us() - from_us);
    let is_unchanged = before.is_some() && cluster.nodes[0].member_ids().await == before;
    let members = if is_unchanged { "all nodes stayed members" } else { "A NODE WAS EVICTED" };
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let text = format!("{} for {duration:.1?}, {route}, {members}", names.join(" and "));
    Ok(InjectedFault::new(from_us, text))
}
