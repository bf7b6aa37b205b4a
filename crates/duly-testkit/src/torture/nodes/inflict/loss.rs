//! Faults of masters that lose data, and the operator who accepts the loss.
//!
//! The data of their shards are lost by definition and not judged. The data of all other masters
//! are judged. So within one run it is always the master of the same slots.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rand::rngs::SmallRng;
use serde_json::json;

use super::slots::slots_with_keys;
use super::{Done, Stage, some_master};
use crate::clock::now_us;
use crate::torture::nodes::node::SHARDS;
use crate::wire::Connection;

/// Age of the data of a rolled-back master: more than nodes tolerate.
const BEHIND: Duration = Duration::from_secs(8);

/// Longest time until nodes have detected all shards, and of one repair.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);

/// Time between two repairs.
const AGAIN: Duration = Duration::from_millis(500);

pub(super) async fn lose_master(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    let (master, shards) = loser(stage, rng)?;
    let from_us = now_us();
    let peer = &mut stage.redis.peers[master];
    peer.kill();
    peer.lose_data();
    peer.start_again()?;
    repaired(stage, master, shards, "restored", from_us).await
}

pub(super) async fn roll_back_master(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    let (master, shards) = loser(stage, rng)?;
    let copy = tempfile::tempdir()?;
    stage.redis.peers[master].copy_data(copy.path());
    tokio::time::sleep(BEHIND).await;
    let from_us = now_us();
    let peer = &mut stage.redis.peers[master];
    peer.kill();
    peer.restore_data(copy.path());
    peer.start_again()?;
    repaired(stage, master, shards, "confirmed", from_us).await
}

/// Chooses the master that loses data, and returns it with its number of shards. It prefers a
/// master all of whose slots were lost before. Such a master exists unless other slots have moved
/// to it since.
fn loser(stage: &mut Stage, rng: &mut SmallRng) -> Result<(usize, usize)> {
    let mut loser = some_master(stage, rng)?;
    for master in stage.redis.masters(None)? {
        if slots_with_keys(&stage.redis.peers[master])?.is_subset(&stage.lost_slots) {
            loser = master;
        }
    }
    let slots = slots_with_keys(&stage.redis.peers[loser])?;
    let shards = slots.len();
    stage.lost_slots.extend(slots);
    Ok((loser, shards))
}

/// Repairs the shards that the nodes report, until these are all shards of the master.
async fn repaired(
    stage: &mut Stage,
    master: usize,
    shards: usize,
    outcome: &str,
    from_us: u64,
) -> Result<Done> {
    let until = Instant::now() + NOTICED_WITHIN;
    let mut lost = BTreeSet::new();
    while lost.len() < shards {
        ensure!(Instant::now() < until, "{} of {shards} shards were noticed: {lost:?}", lost.len());
        tokio::time::sleep(AGAIN).await;
        let mut node: Connection = stage.nodes[0].endpoint().connection();
        for number in 0..SHARDS {
            let body = json!({"shards": [number]}).to_string();
            let answer = node.call("POST", "/v1/store/repair", body.as_bytes(), NOTICED_WITHIN);
            // A shard that cannot be repaired yet is tried again in the next round.
            let repaired = answer.await.ok().map(|answer| answer.json()["shards"][0].clone());
            match repaired.as_ref().and_then(|shard| shard["outcome"].as_str()) {
                None | Some("nothing") => {}
                Some(told) => {
                    ensure!(told == outcome, "shard {number} was {told}, not {outcome}");
                    lost.insert(number);
                }
            }
        }
    }
    stage.lost.append(&mut lost);
    let name = &stage.redis.peers[master].host.name;
    let took = Duration::from_micros(now_us() - from_us);
    Ok(Done::since(from_us, format!("{name}, {shards} shards {outcome} after {took:.1?}")))
}
