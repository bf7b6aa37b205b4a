//! Asks the homes of lanes for this node's part of their limits, where several nodes share the store.
//!
//! What to ask and what follows is decided by `lanes`; this loop carries it: it groups what is to be
//! asked by home, calls, and rings the shards that can begin more.

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
/// A call that takes longer is given up.
const WITHIN: Duration = Duration::from_secs(1);
/// Homes that are asked at once.
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

/// The time until something is to be asked.
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
            // What was allotted to a run that is over is nobody's.
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
