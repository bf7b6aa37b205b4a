//! Faults between hosts: no packet passes in either direction, and neither side is notified.

use std::time::Duration;

use anyhow::Result;
use rand::rngs::SmallRng;

use super::{Done, Stage, last, promotion, some_master, some_node, stay_away};
use crate::clock::now_us;
use crate::torture::nodes::network::{Host, Side, cut_off, join};

/// Time for which a node is cut off, in milliseconds: longer than the heartbeat timeout.
const CUT_MS: std::ops::Range<u64> = 3_000..8_000;

/// Time for which a master stays cut off after another one has taken its place, in milliseconds.
const REPLACED_MS: std::ops::Range<u64> = 1_000..3_000;

pub(super) async fn cut_from_store(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    cut(stage, rng, Side::Store).await
}

pub(super) async fn cut_from_receivers(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    cut(stage, rng, Side::Web).await
}

async fn cut(stage: &mut Stage, rng: &mut SmallRng, side: Side) -> Result<Done> {
    let node = &stage.nodes[some_node(stage, rng)];
    let from_us = now_us();
    cut_off(&[&node.host], side)?;
    last(rng, CUT_MS).await;
    join(&[&node.host], side)?;
    let cut = Duration::from_micros(now_us() - from_us);
    Ok(Done::since(from_us, format!("{} for {cut:.1?}", node.host.name)))
}

pub(super) async fn isolate_master(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    let master = some_master(stage, rng)?;
    isolate(stage, rng, master, &[]).await
}

pub(super) async fn isolate_master_with_node(
    stage: &mut Stage,
    rng: &mut SmallRng,
) -> Result<Done> {
    let master = some_master(stage, rng)?;
    let node = stage.nodes[some_node(stage, rng)].host.clone();
    isolate(stage, rng, master, &[&node]).await
}

async fn isolate(
    stage: &mut Stage,
    rng: &mut SmallRng,
    master: usize,
    with: &[&Host],
) -> Result<Done> {
    let replica = stage.redis.replicas_of(master)?.first().copied();
    let host = stage.redis.peers[master].host.clone();
    let island: Vec<&Host> = with.iter().copied().chain([&host]).collect();
    let from_us = now_us();
    cut_off(&island, Side::Store)?;
    let promoted = promotion(stage, master, replica).await?;
    stay_away(stage, rng, REPLACED_MS).await;
    join(&island, Side::Store)?;
    let cut = Duration::from_micros(now_us() - from_us);
    let names: Vec<&str> = island.iter().map(|host| host.name.as_str()).collect();
    let names = names.join(" and ");
    Ok(Done::since(from_us, format!("{names} for {cut:.1?}{promoted}")))
}
