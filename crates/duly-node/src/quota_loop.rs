//! Sends this node's quota requests to the coordinator shards of lanes, where several nodes share the
//! store.
//!
//! `lanes` decides what to request and applies the grants. This loop groups the requests by coordinator
//! shard, sends them, and notifies the shards that can start more.

use std::{sync::Arc, time::Duration};

use duly_core::shard::ShardId;
use duly_store::{
    Deployment, MemberId,
    deployment::{Ask, home as coordinator_of},
};
use futures::{StreamExt, stream};
use tokio::time::timeout;

use crate::{
    lanes::{RENEW_AFTER, REQUESTS_MAX},
    phase::Phase,
    state::Shared,
};

/// Shortest time between two rounds.
const ROUND_MIN: Duration = Duration::from_millis(1);
/// Time-out of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(1);
/// Coordinator shards that are called at the same time.
const AT_ONCE: usize = 16;

/// The loop; ends when the node has left. Nothing to do where the store is not shared.
pub(crate) async fn run(shared: Arc<Shared>) {
    let Some(deployment) = shared.store.deployment() else {
        return;
    };
    let mut member_id = shared.nodes.member_id();
    while shared.phases.now() != Phase::Left {
        let now = shared.clock.boot();
        let current = shared.nodes.member_id();
        if current != member_id {
            member_id = current;
            shared.pools.webhooks().drop_quotas(now);
        }
        if shared.nodes.may_send(member_id, now) {
            send_requests(&shared, deployment, member_id, now).await;
        }
        pause(&shared).await;
    }
}

/// Waits until a request must be sent.
async fn pause(shared: &Shared) {
    let now = shared.clock.boot();
    let next_request_at = shared.pools.webhooks().next_request_at();
    let wait = next_request_at.map_or(RENEW_AFTER, |at| at.saturating_sub(now).min(RENEW_AFTER));
    tokio::select! {
        () = tokio::time::sleep(wait.max(ROUND_MIN)) => {}
        () = shared.urgent_requests.notified() => {}
    }
}

async fn send_requests(
    shared: &Arc<Shared>,
    deployment: &dyn Deployment,
    member_id: MemberId,
    now: Duration,
) {
    let mut requests = shared.pools.webhooks().quota_requests(now);
    let shards = shared.store.shards();
    requests.sort_by_cached_key(|request| coordinator_of(&request.lane, shards));
    let groups: Vec<(ShardId, Vec<Ask>)> = requests
        .chunk_by(|a, b| coordinator_of(&a.lane, shards) == coordinator_of(&b.lane, shards))
        .flat_map(|group| group.chunks(REQUESTS_MAX))
        .map(|group| (coordinator_of(&group[0].lane, shards), group.to_vec()))
        .collect();
    stream::iter(groups)
        .for_each_concurrent(AT_ONCE, async |(coordinator, requests)| {
            let reply =
                timeout(CALL_TIMEOUT, deployment.allot(coordinator, member_id, requests.clone()))
                    .await;
            let reply = reply.map(|reply| shared.nodes.rejoin_if_evicted(member_id, reply));
            let grant = match reply {
                Ok(Ok(grant)) => grant.into_iter().map(Some).collect(),
                Ok(Err(error)) => {
                    shared.log_store_error("quota request", &error);
                    vec![None; requests.len()]
                }
                Err(_elapsed) => vec![None; requests.len()],
            };
            let now = shared.clock.boot();
            // Grants to an earlier member id are dropped.
            let counts = shared.nodes.member_id() == member_id;
            let mut woken = Vec::new();
            {
                let mut lanes = shared.pools.webhooks();
                for (request, grant) in requests.iter().zip(grant) {
                    woken.extend(lanes.apply_grant(request, grant.filter(|_| counts), now));
                }
            }
            woken.sort_unstable();
            woken.dedup();
            for shard in woken {
                shared.notifier(shard).notify_slot_freed();
            }
        })
        .await;
}
