//! The coordinator shards of the members: their list, and how it changes.
//!
//! 1. The list has one, three or five shards, each on a different master.
//! 2. Every marker holds the list with its version, and the list before it. A shard takes a list only if
//!    its version is higher than that of its own list. It refuses heartbeats of other versions.
//! 3. A change is proposed to the first shard of the present list, which decides between several
//!    proposals of one version. Then it goes to the others.
//! 4. A node uses a list once a majority of the list before it has accepted it. From then on no node can
//!    get a majority of the old list: those shards refuse its heartbeats. So there are never two
//!    majorities, even if a node has a wrong view of the topology, and wherever the slots are.
//! 5. The next node that sees an unfinished change finishes it.

use std::{collections::HashMap, sync::atomic::Ordering};

use duly_core::shard::ShardId;
use duly_store::{Coordinators, Result};

use crate::{change::at_once, deployment::Deployment, marker::CoordinatorList, script::Script};

/// Returns the list of a new deployment.
pub(crate) fn first(owners: &HashMap<String, Vec<ShardId>>) -> CoordinatorList {
    let own = Coordinators { version: 1, shards: wanted(&[], owners) };
    CoordinatorList { own, before: None }
}

/// Returns the shards that should be on the list: those of the present list on different masters, then
/// the first shard of each master without one.
fn wanted(present: &[ShardId], owners: &HashMap<String, Vec<ShardId>>) -> Vec<ShardId> {
    let count = match owners.len() {
        0..=2 => 1,
        3..=4 => 3,
        _ => 5,
    };
    let mut masters: Vec<_> = owners.values().collect();
    masters.sort_unstable_by_key(|shards| shards.iter().min());
    let mut chosen: Vec<(usize, ShardId)> = Vec::new();
    let master_of = |shard: &ShardId| masters.iter().position(|shards| shards.contains(shard));
    let firsts = masters.iter().filter_map(|shards| shards.iter().min());
    for shard in present.iter().chain(firsts) {
        if let Some(master) = master_of(shard)
            && chosen.len() < count
            && chosen.iter().all(|(other, _)| *other != master)
        {
            chosen.push((master, *shard));
        }
    }
    chosen.into_iter().map(|(_, shard)| shard).collect()
}

/// Returns the list that should follow the present one, if another is better.
pub(crate) fn better(
    present: &Coordinators,
    owners: &HashMap<String, Vec<ShardId>>,
) -> Option<CoordinatorList> {
    let mut shards = wanted(&present.shards, owners);
    shards.sort_unstable();
    let mut before = present.shards.clone();
    before.sort_unstable();
    let own = Coordinators { version: present.version + 1, shards };
    (own.shards != before).then(|| CoordinatorList { own, before: Some(present.clone()) })
}

/// Polls in a row that must find another list better before it is proposed: slots may be moving.
const BETTER_POLLS: u32 = 3;

impl Deployment {
    /// Uses the newest list that a poll of the shards has found. Proposes another one when that has been
    /// better for [`BETTER_POLLS`] polls.
    pub(crate) async fn keep_list(&self, newest: CoordinatorList) {
        let better = better(&self.list.lock().own, &self.router.owners());
        let kept = match better {
            Some(list) if self.better_for.fetch_add(1, Ordering::Relaxed) + 1 >= BETTER_POLLS => {
                self.propose(&list).await
            }
            better => {
                if better.is_none() {
                    self.better_for.store(0, Ordering::Relaxed);
                }
                self.use_list(newest).await
            }
        };
        if let Err(error) = kept {
            tracing::warn!(
                %error,
                "list of coordinator shards not changed; the next poll tries again"
            );
        }
    }

    /// Proposes a list, and uses the one that the first shard of the present list has decided on.
    pub(crate) async fn propose(&self, list: &CoordinatorList) -> Result<()> {
        let Some(first) = list.before.as_ref().and_then(|before| before.shards.first()) else {
            return Ok(());
        };
        let decided = self.accept(*first, list).await?;
        self.use_list(decided).await
    }

    /// Has a majority of the previous list accept a list, and uses it from then on. Then has the other
    /// shards accept it.
    pub(crate) async fn use_list(&self, mut list: CoordinatorList) -> Result<()> {
        while list.own.version > self.list.lock().own.version {
            let voters = list.before.as_ref().map_or(&[][..], |before| &before.shards);
            let (mut accepted, mut newer) = (0, None);
            for answer in self.accepted_by(voters, &list).await {
                match answer {
                    Ok(other) if other.own == list.own => accepted += 1,
                    Ok(other) if other.own.version > list.own.version => newer = Some(other),
                    Ok(_) | Err(_) => {}
                }
            }
            if accepted * 2 > voters.len() || voters.is_empty() {
                tracing::info!(
                    version = list.own.version,
                    shards = ?list.own.shards.iter().map(|shard| shard.0).collect::<Vec<_>>(),
                    "list of coordinator shards changed; heartbeats go to the new ones"
                );
                *self.list.lock() = list.clone();
                let rest: Vec<_> =
                    (0..self.shards).map(ShardId).filter(|shard| !voters.contains(shard)).collect();
                // A shard that does not reply gets it in a later poll.
                self.accepted_by(&rest, &list).await;
            }
            match newer {
                Some(newer) => list = newer,
                None => break,
            }
        }
        Ok(())
    }

    /// Offers a list to some shards. Returns the list that each of them has then.
    async fn accepted_by(
        &self,
        shards: &[ShardId],
        list: &CoordinatorList,
    ) -> Vec<Result<CoordinatorList>> {
        at_once(shards.iter().copied().map(|shard| self.accept(shard, list))).await
    }

    /// Offers a list to a shard. Returns the list that it has then.
    pub(crate) async fn accept(
        &self,
        shard: ShardId,
        list: &CoordinatorList,
    ) -> Result<CoordinatorList> {
        let arguments = list.texts().map(String::into_bytes).to_vec();
        let mut reply = self.call_script(shard, Script::AcceptList, arguments).await?;
        CoordinatorList::from_reply(&mut reply)
    }
}

#[cfg(test)]
mod tests;
