//! Faults between hosts that still reach each other: packets are delayed or lost.

use anyhow::Result;
use rand::Rng;
use rand::rngs::SmallRng;

use super::{InjectedFault, TestCluster, elapsed, names, sleep};
use crate::clock::now_us;
use crate::torture::nodes::distant::{DistantHosts, RouteQuality};
use crate::torture::nodes::network::{Host, HostLink};

/// Duration of the fault, in milliseconds.
const DISTANT_MS: std::ops::Range<u64> = 3_000..7_000;

/// Mean delay of a packet, in milliseconds.
const DELAY_MS: std::ops::RangeInclusive<u64> = 50..=300;
const JITTER_PERCENT: u64 = 20;

/// Share of lost packets in each direction, in percent.
const LOSS_PERCENT: std::ops::RangeInclusive<u32> = 1..=5;

pub(super) async fn slow_store(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let node = cluster.random_node().host.clone();
    let route = random_delay(&mut cluster.rng);
    make_distant(cluster, vec![node], &route).await
}

pub(super) async fn slow_master(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let master = cluster.random_master()?;
    // If the master alone is distant, its replicas are distant from it too, and so they confirm late.
    let mut group = vec![master];
    if cluster.rng.random_bool(0.5) {
        group.extend(cluster.redis.replicas_of(master)?);
    }
    let hosts = group.iter().map(|number| cluster.redis.peers[*number].host.clone()).collect();
    let route = random_delay(&mut cluster.rng);
    make_distant(cluster, hosts, &route).await
}

pub(super) async fn lossy_network(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let node = cluster.random_node().host.clone();
    let route =
        RouteQuality { delay_ms: 0..=0, loss_percent: cluster.rng.random_range(LOSS_PERCENT) };
    make_distant(cluster, vec![node], &route).await
}

fn random_delay(rng: &mut SmallRng) -> RouteQuality {
    let middle = rng.random_range(DELAY_MS);
    let jitter = middle * JITTER_PERCENT / 100;
    RouteQuality { delay_ms: middle - jitter..=middle + jitter, loss_percent: 0 }
}

async fn make_distant(
    cluster: &mut TestCluster,
    hosts: Vec<Host>,
    route: &RouteQuality,
) -> Result<InjectedFault> {
    let before = cluster.nodes[0].member_ids().await;
    let (names, from_us) = (names(&hosts), now_us());
    let distant = DistantHosts::move_away(hosts, HostLink::Store, route, &mut cluster.rng)?;
    sleep(cluster.random_duration(DISTANT_MS)).await;
    distant.bring_back()?;
    let duration = elapsed(from_us);
    let is_unchanged = before.is_some() && cluster.nodes[0].member_ids().await == before;
    let members = if is_unchanged { "all nodes stayed members" } else { "A NODE WAS EVICTED" };
    Ok(InjectedFault { from_us, text: format!("{names} for {duration:.1?}, {route}, {members}") })
}
