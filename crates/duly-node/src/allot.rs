//! Sends this node's quota requests to the coordinator shards of lanes, where several nodes share the
//! store.
//!
//! `lanes` decides what to request and applies the grants. This loop groups the requests by coordinator
//! shard, sends them, and notifies the shards that can start more.

use std::{sync::Arc, time::Duration};

use duly_core::shard::ShardId;
use duly_store::{
    Deployment, MemberId,
    deployment::{Ask, home},
};
use futures::{StreamExt, stream};
use tokio::time::timeout;

use crate::{
    lanes::{AGAIN_AFTER, ASKS_MAX},
    phase::Phase,
    state::Shared,
};

/// Shortest time between two rounds.
const ROUND_MIN: Duration = Duration::from_millis(1);
/// Time-out of a call.
const WITHIN: Duration = Duration::from_secs(1);
/// Coordinator shards that are called at the same time.
const AT_ONCE: usize = 16;

/// The loop; ends when the node has left. Nothing to do where the store is not shared.
pub(crate) async fn run(shared: Arc<Shared>) {
    let Some(deployment) = shared.store.deployment() else {
        return;
    };
    let mut run = shared.nodes.run();
    while shared.phases.now() != Phase::Left {
        let now = shared.clock.boot();
        let current = shared.nodes.run();
        if current != run {
            run = current;
            shared.lanes.lock().begin_again(now);
        }
        if shared.nodes.may_send(run, now) {
            round(&shared, deployment, run, now).await;
        }
        pause(&shared).await;
    }
}

/// Waits until a request must be sent.
async fn pause(shared: &Shared) {
    let now = shared.clock.boot();
    let ask_at = shared.lanes.lock().ask_at();
    let wait = ask_at.map_or(AGAIN_AFTER, |at| at.saturating_sub(now).min(AGAIN_AFTER));
    tokio::select! {
        () = tokio::time::sleep(wait.max(ROUND_MIN)) => {}
        () = shared.asks.notified() => {}
    }
}

async fn round(shared: &Arc<Shared>, deployment: &dyn Deployment, run: MemberId, now: Duration) {
    let mut asks = shared.lanes.lock().asks(now);
    let shards = shared.store.shards();
    asks.sort_by_cached_key(|ask| home(&ask.lane, shards));
    let groups: Vec<(ShardId, Vec<Ask>)> = asks
        .chunk_by(|a, b| home(&a.lane, shards) == home(&b.lane, shards))
        .flat_map(|group| group.chunks(ASKS_MAX))
        .map(|group| (home(&group[0].lane, shards), group.to_vec()))
        .collect();
    stream::iter(groups)
        .for_each_concurrent(AT_ONCE, async |(home, asks)| {
            let answer = timeout(WITHIN, deployment.allot(home, run, asks.clone())).await;
            let answer = answer.map(|answer| shared.nodes.heed(run, answer));
            let allotted = match answer {
                Ok(Ok(allotted)) => allotted.into_iter().map(Some).collect(),
                Ok(Err(error)) => {
                    shared.log_store_error("allot", &error);
                    vec![None; asks.len()]
                }
                Err(_elapsed) => vec![None; asks.len()],
            };
            let now = shared.clock.boot();
            // Grants to an earlier member id are dropped.
            let counts = shared.nodes.run() == run;
            let mut woken = Vec::new();
            {
                let mut lanes = shared.lanes.lock();
                for (ask, allotted) in asks.iter().zip(allotted) {
                    woken.extend(lanes.allotted(ask, allotted.filter(|_| counts), now));
                }
            }
            woken.sort_unstable();
            woken.dedup();
            for shard in woken {
                shared.bell(shard).ring_freed();
            }
        })
        .await;
}
