//! The coordination shards: which they are, and how the list changes.
//!
//! 1. The list has one, three or five shards, on different masters as far as there are so many.
//! 2. Every marker holds the list with its version, and the list before it. A shard takes a list only if
//!    its version is higher than that of the one it has, and refuses heartbeats of other versions.
//! 3. A change is proposed to the first shard of the present list, which so decides which of several
//!    proposals of one version counts. Then it goes to the others.
//! 4. A node uses a list once a majority of the list before it has accepted it. From then on no node can
//!    get a majority of the old list: those shards refuse its heartbeats. So there are never two
//!    majorities, whatever a node believes of the topology and wherever the slots are.
//! 5. A change that was left half done is finished by the next node that sees it.

use std::{collections::HashMap, sync::atomic::Ordering};

use duly_core::shard::ShardId;
use duly_store::{Coordinators, Result};
use futures::{StreamExt, stream};

use crate::{change::AT_ONCE, deployment::Deployment, marker::CoordinatorList, script::Script};

/// The list of a new deployment.
pub(crate) fn first(owners: &HashMap<String, Vec<ShardId>>) -> CoordinatorList {
    let own = Coordinators { version: 1, shards: wanted(&[], owners) };
    CoordinatorList { own, before: None }
}

/// The shards that should be on the list: of the present ones those on different masters, and for the
/// rest the first shard of a master that has none on it.
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

/// The list that should follow the present one, if another would do better.
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

/// Looks for which another list did better until it is proposed: slots may be on their way.
const BETTER_LOOKS: u32 = 3;

impl Deployment {
    /// Uses the newest list that a look at the shards has found, and proposes another one when that has
    /// done better for a while.
    pub(crate) async fn keep_list(&self, newest: CoordinatorList) {
        let changed = match better(&self.list.lock().own, &self.router.owners()) {
            Some(list) if self.better_for.fetch_add(1, Ordering::Relaxed) + 1 >= BETTER_LOOKS => {
                Some(list)
            }
            Some(_) => None,
            None => {
                self.better_for.store(0, Ordering::Relaxed);
                None
            }
        };
        let kept = match changed {
            Some(list) => self.propose(&list).await,
            None => self.use_list(newest).await,
        };
        if let Err(error) = kept {
            tracing::warn!(%error, "the list of coordination shards could not be changed");
        }
    }

    /// Proposes a list and uses the one that the first shard of the present list has decided on.
    pub(crate) async fn propose(&self, list: &CoordinatorList) -> Result<()> {
        let Some(first) = list.before.as_ref().and_then(|before| before.shards.first()) else {
            return Ok(());
        };
        let decided = self.accept(*first, list).await?;
        self.use_list(decided).await
    }

    /// Has a majority of the list before accept a list, and uses it from then on; and has the other shards
    /// accept it.
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
                    "the list of coordination shards has changed"
                );
                *self.list.lock() = list.clone();
                let rest: Vec<_> =
                    (0..self.shards).map(ShardId).filter(|shard| !voters.contains(shard)).collect();
                // A shard that does not answer gets it with a later look.
                self.accepted_by(&rest, &list).await;
            }
            match newer {
                Some(newer) => list = newer,
                None => break,
            }
        }
        Ok(())
    }

    /// Offers a list to some shards; the answers are the lists that they have then.
    async fn accepted_by(
        &self,
        shards: &[ShardId],
        list: &CoordinatorList,
    ) -> Vec<Result<CoordinatorList>> {
        let offers = stream::iter(shards.to_vec()).map(|shard| self.accept(shard, list));
        offers.buffer_unordered(AT_ONCE).collect().await
    }

    /// Offers a list to a shard; the answer is the list that it has then.
    pub(crate) async fn accept(
        &self,
        shard: ShardId,
        list: &CoordinatorList,
    ) -> Result<CoordinatorList> {
        let arguments = list.texts().map(String::into_bytes).to_vec();
        let mut reply = self.ask(shard, Script::Accept, arguments).await?;
        CoordinatorList::from_reply(&mut reply)
    }
}

#[cfg(test)]
mod tests;
