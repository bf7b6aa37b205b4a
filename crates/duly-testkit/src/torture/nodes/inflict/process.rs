//! Faults of processes: kill, stop, restart.

use std::time::Duration;

use anyhow::Result;
use rand::Rng;
use rand::rngs::SmallRng;

use super::{Done, Stage, last, promotion, some_master, some_node, stay_away};
use crate::clock::now_us;

/// Time until a killed node starts again, in milliseconds: the others have certainly taken over by
/// then.
const AWAY_MS: std::ops::Range<u64> = 4_000..6_000;

/// Duration of a stop of a node, in milliseconds: longer than the heartbeat timeout.
const STILL_MS: std::ops::Range<u64> = 3_000..7_000;

/// Time until a master comes back after a replica has taken its place, in milliseconds.
const ALONE_MS: std::ops::Range<u64> = 500..2_000;

pub(super) async fn kill_node(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    let node = some_node(stage, rng);
    let node = &mut stage.nodes[node];
    let from_us = now_us();
    node.kill()?;
    last(rng, AWAY_MS).await;
    node.start().await?;
    Ok(Done::since(from_us, &node.host.name))
}

pub(super) async fn stop_node(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    let node = some_node(stage, rng);
    let node = &mut stage.nodes[node];
    let from_us = now_us();
    node.freeze()?;
    last(rng, STILL_MS).await;
    node.thaw()?;
    let still = Duration::from_micros(now_us() - from_us);
    Ok(Done::since(from_us, format!("{} for {still:.1?}", node.host.name)))
}

pub(super) async fn rolling_restart(stage: &mut Stage) -> Result<Done> {
    let from_us = now_us();
    for node in &mut stage.nodes {
        node.stop().await?;
        node.start().await?;
    }
    Ok(Done::since(from_us, "all, one after the other"))
}

pub(super) async fn kill_master(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    let master = some_master(stage, rng)?;
    let replica = stage.redis.replicas_of(master)?.first().copied();
    let from_us = now_us();
    stage.redis.peers[master].kill();
    let promoted = promotion(stage, master, replica).await?;
    stay_away(stage, rng, ALONE_MS).await;
    let peer = &mut stage.redis.peers[master];
    let comes_back = if replica.is_some() && rng.random_bool(0.5) {
        peer.lose_data();
        "came back empty"
    } else {
        "came back"
    };
    peer.start_again()?;
    let away = Duration::from_micros(now_us() - from_us);
    Ok(Done::since(from_us, format!("{} {comes_back} after {away:.1?}{promoted}", peer.host.name)))
}
