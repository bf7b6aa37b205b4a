//! Who holds leases in our shards and is no member: the leases of such a run are to be ended.
//!
//! A shard is asked beside the beats, so that one that does not answer silences nobody; what it says
//! counts with the answer to a beat that was sent afterwards.

use std::{sync::Arc, time::Duration};

use duly_core::shard::ShardId;
use duly_store::{Deployment, NodeRun};
use futures::{StreamExt, stream};
use tokio::{sync::oneshot, time::timeout};

use super::{AT_ONCE, Part, membership::ACTS_FOR};
use crate::state::Shared;

/// Holders of leases that were no members when they were seen.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Shards to look at.
    wanted: Vec<ShardId>,
    /// A look that is under way.
    looking: Option<oneshot::Receiver<Looked>>,
    seen: Option<Looked>,
}

/// What came of a look.
#[derive(Debug)]
struct Looked {
    /// When, by the clock of the beats.
    at: Duration,
    /// Who held leases where.
    holders: Vec<(ShardId, NodeRun)>,
    /// Shards that did not answer.
    unanswered: Vec<ShardId>,
}

impl Suspects {
    pub(super) fn look_at(&mut self, shards: impl IntoIterator<Item = ShardId>) {
        self.wanted.extend(shards);
    }

    /// Those seen before this beat was sent who are no members after it.
    pub(super) fn still_suspect(
        &mut self,
        shared: &Shared,
        sent_at: Duration,
    ) -> Vec<(ShardId, NodeRun)> {
        match self.looking.as_mut().map(oneshot::Receiver::try_recv) {
            None | Some(Err(oneshot::error::TryRecvError::Empty)) => {}
            Some(looked) => {
                (self.looking, self.seen) = (None, looked.ok());
                let unanswered = self.seen.iter().flat_map(|looked| &looked.unanswered);
                self.wanted.extend(unanswered);
            }
        }
        let Some(Looked { holders: seen, .. }) = self.seen.take_if(|looked| looked.at < sent_at)
        else {
            return Vec::new();
        };
        let Some(nodes) = &shared.nodes.shared else {
            return Vec::new();
        };
        let nodes = nodes.lock();
        seen.into_iter()
            .filter(|(shard, run)| nodes.owns(*shard) && !nodes.is_alive(*run))
            .collect()
    }

    /// Begins to ask who holds leases in those of the wanted shards that are ours.
    pub(super) fn look(&mut self, shared: &Arc<Shared>) {
        if self.wanted.is_empty() || self.looking.is_some() || self.seen.is_some() {
            return;
        }
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.sort_unstable();
        wanted.dedup();
        let now = shared.clock.boot();
        wanted.retain(|shard| shared.nodes.part(*shard, now) == Part::Ours);
        let (told, looking) = oneshot::channel();
        self.looking = Some(looking);
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let Some(deployment) = shared.store.deployment() else { return };
            let looked = Looked::at(wanted, deployment, &shared).await;
            // The node may have left.
            let _gone = told.send(looked);
        });
    }
}

impl Looked {
    async fn at(wanted: Vec<ShardId>, deployment: &dyn Deployment, shared: &Shared) -> Self {
        let asked = stream::iter(wanted).map(async |shard| {
            let holders = timeout(ACTS_FOR, deployment.holders(shard)).await;
            match holders {
                Ok(Ok(holders)) => (shard, Some(holders)),
                _ => (shard, None),
            }
        });
        let answers: Vec<_> = asked.buffer_unordered(AT_ONCE).collect().await;
        let at = shared.clock.boot();
        let mut looked = Self { at, holders: Vec::new(), unanswered: Vec::new() };
        for (shard, holders) in answers {
            match holders {
                Some(holders) => {
                    looked.holders.extend(holders.into_iter().map(|run| (shard, run)));
                }
                None => looked.unanswered.push(shard),
            }
        }
        looked
    }
}
