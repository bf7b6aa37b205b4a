//! Finds holders of leases in our shards that are no members, so that their leases can be ended.
//!
//! Shards are queried concurrently to the heartbeats, so one that does not reply stops no heartbeat. A
//! holder that is no member is watched like a member that stalls: it is gone when a majority of the
//! coordinator shards has evicted it.

use std::sync::Arc;

use duly_core::shard::ShardId;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{ShardRole, heartbeats::AT_ONCE, membership::ACTS_FOR};
use crate::state::Shared;

/// Shards to query, and the state of the query.
#[derive(Debug, Default)]
pub(super) struct Suspects(Arc<Mutex<QueryState>>);

#[derive(Debug, Default)]
struct QueryState {
    wanted: Vec<ShardId>,
    is_querying: bool,
}

impl Suspects {
    pub(super) fn request(&self, shards: impl IntoIterator<Item = ShardId>) {
        self.0.lock().wanted.extend(shards);
    }

    /// Starts to query the holders of leases in those of the wanted shards that this node owns.
    pub(super) fn query_holders(&self, shared: &Arc<Shared>) {
        let mut wanted = {
            let mut state = self.0.lock();
            if state.wanted.is_empty() || state.is_querying {
                return;
            }
            state.is_querying = true;
            std::mem::take(&mut state.wanted)
        };
        wanted.sort_unstable();
        wanted.dedup();
        let now = shared.clock.boot();
        wanted.retain(|shard| shared.nodes.shard_role(*shard, now) == ShardRole::Owner);
        let (shared, state) = (Arc::clone(shared), Arc::clone(&self.0));
        tokio::spawn(async move {
            let unanswered = suspect_holders(wanted, &shared).await;
            let mut state = state.lock();
            state.is_querying = false;
            state.wanted.extend(unanswered);
        });
    }
}

/// Watches the holders of leases in these shards; returns the shards that did not reply.
async fn suspect_holders(wanted: Vec<ShardId>, shared: &Shared) -> Vec<ShardId> {
    let (Some(deployment), Some(nodes)) = (shared.store.deployment(), &shared.nodes.shared) else {
        return Vec::new();
    };
    let queries = stream::iter(wanted).map(async |shard| {
        let Ok(Ok(holders)) = timeout(ACTS_FOR, deployment.holders(shard)).await else {
            return Some(shard);
        };
        let mut nodes = nodes.lock();
        for holder in holders {
            nodes.suspect(holder);
        }
        None
    });
    queries.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
}
