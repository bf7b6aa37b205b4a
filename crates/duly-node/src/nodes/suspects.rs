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

use super::{Part, beats::AT_ONCE, membership::ACTS_FOR};
use crate::state::Shared;

/// Shards to query, and the state of the query.
#[derive(Debug, Default)]
pub(super) struct Suspects(Arc<Mutex<Looks>>);

#[derive(Debug, Default)]
struct Looks {
    wanted: Vec<ShardId>,
    is_looking: bool,
}

impl Suspects {
    pub(super) fn look_at(&self, shards: impl IntoIterator<Item = ShardId>) {
        self.0.lock().wanted.extend(shards);
    }

    /// Starts to query the holders of leases in those of the wanted shards that this node owns.
    pub(super) fn look(&self, shared: &Arc<Shared>) {
        let mut wanted = {
            let mut looks = self.0.lock();
            if looks.wanted.is_empty() || looks.is_looking {
                return;
            }
            looks.is_looking = true;
            std::mem::take(&mut looks.wanted)
        };
        wanted.sort_unstable();
        wanted.dedup();
        let now = shared.clock.boot();
        wanted.retain(|shard| shared.nodes.part(*shard, now) == Part::Ours);
        let (shared, looks) = (Arc::clone(shared), Arc::clone(&self.0));
        tokio::spawn(async move {
            let unanswered = suspect_holders(wanted, &shared).await;
            let mut looks = looks.lock();
            looks.is_looking = false;
            looks.wanted.extend(unanswered);
        });
    }
}

/// Watches the holders of leases in these shards; returns the shards that did not reply.
async fn suspect_holders(wanted: Vec<ShardId>, shared: &Shared) -> Vec<ShardId> {
    let (Some(deployment), Some(nodes)) = (shared.store.deployment(), &shared.nodes.shared) else {
        return Vec::new();
    };
    let asked = stream::iter(wanted).map(async |shard| {
        let Ok(Ok(holders)) = timeout(ACTS_FOR, deployment.holders(shard)).await else {
            return Some(shard);
        };
        let mut nodes = nodes.lock();
        for run in holders {
            nodes.suspect(run);
        }
        None
    });
    asked.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
}
