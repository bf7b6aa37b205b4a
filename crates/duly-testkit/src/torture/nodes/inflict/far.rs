//! Faults between hosts that still reach each other: packets are delayed or lost.

use std::time::Duration;

use anyhow::Result;
use rand::Rng;
use rand::rngs::SmallRng;

use super::{Done, Stage, last, some_master, some_node};
use crate::clock::now_us;
use crate::torture::nodes::far::{Far, Way};
use crate::torture::nodes::network::{Host, Side};

/// Duration of the fault, in milliseconds.
const FAR_MS: std::ops::Range<u64> = 3_000..7_000;

/// Mean delay of a packet, in milliseconds.
const TAKES_MS: std::ops::RangeInclusive<u64> = 50..=300;
const JITTER_PERCENT: u64 = 20;

/// Share of lost packets in each direction, in percent.
const LOST_PERCENT: std::ops::RangeInclusive<u32> = 1..=5;

pub(super) async fn slow_store(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    let node = stage.nodes[some_node(stage, rng)].host.clone();
    let way = long(rng);
    put(stage, &[&node], &way, rng).await
}

pub(super) async fn slow_master(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    let master = some_master(stage, rng)?;
    // If the master alone is distant, its replicas are far from it too, and so they confirm late.
    let mut group = vec![master];
    if rng.random_bool(0.5) {
        group.extend(stage.redis.replicas_of(master)?);
    }
    let hosts: Vec<Host> =
        group.iter().map(|number| stage.redis.peers[*number].host.clone()).collect();
    let way = long(rng);
    put(stage, &hosts.iter().collect::<Vec<_>>(), &way, rng).await
}

pub(super) async fn lossy_network(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    let node = stage.nodes[some_node(stage, rng)].host.clone();
    let way = Way { takes_ms: 0..=0, lost_percent: rng.random_range(LOST_PERCENT) };
    put(stage, &[&node], &way, rng).await
}

fn long(rng: &mut SmallRng) -> Way {
    let middle = rng.random_range(TAKES_MS);
    let jitter = middle * JITTER_PERCENT / 100;
    Way { takes_ms: middle - jitter..=middle + jitter, lost_percent: 0 }
}

async fn put(stage: &Stage, hosts: &[&Host], way: &Way, rng: &mut SmallRng) -> Result<Done> {
    let before = stage.nodes[0].runs().await;
    let from_us = now_us();
    let far = Far::put(hosts, Side::Store, way, rng)?;
    last(rng, FAR_MS).await;
    far.back()?;
    let was_far = Duration::from_micros(now_us() - from_us);
    let stayed = before.is_some() && stage.nodes[0].runs().await == before;
    let stayed = if stayed { "all nodes stayed" } else { "NOT ALL NODES STAYED" };
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let text = format!("{} for {was_far:.1?}, {way}, {stayed}", names.join(" and "));
    Ok(Done::since(from_us, text))
}
