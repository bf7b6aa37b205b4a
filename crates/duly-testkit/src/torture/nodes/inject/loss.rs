//! Faults of masters that lose data, and the operator who accepts the loss.
//!
//! The data of their shards are lost by definition and not judged. The data of all other masters
//! are judged. So within one run it is always the master of the same slots.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;

use super::slots::slots_with_keys;
use super::{InjectedFault, TestCluster, elapsed, sleep};
use crate::clock::now_us;
use crate::torture::nodes::node::SHARDS;

/// Age of the data of a rolled-back master: more than nodes tolerate.
const ROLLBACK_AGE: Duration = Duration::from_secs(8);

/// Longest time until nodes have detected all shards, and of one repair.
const DETECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Time between two repairs.
const REPAIR_INTERVAL: Duration = Duration::from_millis(500);

pub(super) async fn lose_master(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let (master, shards) = choose_master(cluster)?;
    let from_us = now_us();
    let peer = &mut cluster.redis.peers[master];
    peer.server.kill();
    peer.server.lose_data();
    peer.start_again()?;
    repair_shards(cluster, master, shards, "restored", from_us).await
}

pub(super) async fn roll_back_master(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let (master, shards) = choose_master(cluster)?;
    let copy = tempfile::tempdir()?;
    cluster.redis.peers[master].server.copy_data(copy.path());
    sleep(ROLLBACK_AGE).await;
    let from_us = now_us();
    let peer = &mut cluster.redis.peers[master];
    peer.server.kill();
    peer.server.restore_data(copy.path());
    peer.start_again()?;
    repair_shards(cluster, master, shards, "confirmed", from_us).await
}

/// Chooses the master that loses data, and returns it with its number of shards. It prefers a
/// master all of whose slots were lost before. Such a master exists unless other slots have moved
/// to it since.
fn choose_master(cluster: &mut TestCluster) -> Result<(usize, usize)> {
    let mut chosen = cluster.random_master()?;
    for master in cluster.redis.masters()? {
        if slots_with_keys(&cluster.redis.peers[master])?.is_subset(&cluster.lost_slots) {
            chosen = master;
        }
    }
    let slots = slots_with_keys(&cluster.redis.peers[chosen])?;
    let shards = slots.len();
    cluster.lost_slots.extend(slots);
    Ok((chosen, shards))
}

/// Repairs the shards that the nodes report, until these are all shards of the master.
async fn repair_shards(
    cluster: &mut TestCluster,
    master: usize,
    shards: usize,
    outcome: &str,
    from_us: u64,
) -> Result<InjectedFault> {
    let until = Instant::now() + DETECTION_TIMEOUT;
    let mut lost = BTreeSet::new();
    while lost.len() < shards {
        ensure!(
            Instant::now() < until,
            "{} of {shards} shards were detected: {lost:?}",
            lost.len()
        );
        sleep(REPAIR_INTERVAL).await;
        let mut node = cluster.nodes[0].endpoint().connection();
        for number in 0..SHARDS {
            let body = json!({"shards": [number]}).to_string();
            let response =
                node.call("POST", "/v1/store/repair", body.as_bytes(), DETECTION_TIMEOUT);
            // A shard that cannot be repaired yet is tried again in the next round.
            let repaired = response.await.ok().map(|response| response.json()["shards"][0].clone());
            match repaired.as_ref().and_then(|shard| shard["outcome"].as_str()) {
                None | Some("nothing") => {}
                Some(reported) => {
                    ensure!(reported == outcome, "shard {number} was {reported}, not {outcome}");
                    lost.insert(number);
                }
            }
        }
    }
    cluster.lost.append(&mut lost);
    let name = &cluster.redis.peers[master].host.name;
    let took = elapsed(from_us);
    Ok(InjectedFault {
        from_us,
        text: format!("{name}, {shards} shards {outcome} after {took:.1?}"),
    })
}
