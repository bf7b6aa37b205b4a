//! A memory store that several nodes of one process share, for tests of nodes.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::{Millis, NamespaceName, shard::ShardId};
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use super::{Coordinator, MemoryStore, own};
use crate::{
    Deployment, Error, Lane, MemberId, Owner, Result, StoreFuture,
    deployment::{Allotment, Announcement, Ask, Coordinators, Heartbeat, HeartbeatReply, part_of},
};

/// Number of announcements that are kept for a slow receiver.
const ANNOUNCEMENTS: usize = 1_024;

/// The grant and the request of each member for a lane.
type Parts = BTreeMap<MemberId, (u32, u32)>;

/// The members that share the store, and the quotas of lanes.
#[derive(Debug)]
pub(super) struct Members {
    list: Mutex<Coordinators>,
    coordinators: Mutex<BTreeMap<ShardId, Coordinator>>,
    /// Members that were released: they can no longer claim.
    released: Mutex<BTreeSet<MemberId>>,
    announced: broadcast::Sender<Announcement>,
    /// The grants and requests of all members, by lane.
    allotted: Mutex<BTreeMap<Lane, Parts>>,
}

impl Members {
    fn new(coordinators: &[ShardId]) -> Self {
        let list = Coordinators { version: 1, shards: coordinators.to_vec() };
        let kept = list.shards.iter().map(|shard| (*shard, Coordinator::new(list.version)));
        Self {
            coordinators: Mutex::new(kept.collect()),
            list: Mutex::new(list),
            released: Mutex::default(),
            announced: broadcast::Sender::new(ANNOUNCEMENTS),
            allotted: Mutex::default(),
        }
    }

    pub(super) fn may_claim(&self, owner: Owner) -> Result<()> {
        match owner {
            Owner::Node(run) if self.released.lock().contains(&run) => Err(Error::Evicted),
            _ => Ok(()),
        }
    }

    pub(super) fn release(&self, run: MemberId) {
        self.released.lock().insert(run);
        for held in self.allotted.lock().values_mut() {
            held.remove(&run);
        }
    }

    fn allot(&self, run: MemberId, ask: Ask, turn: u64) -> Allotment {
        let mut allotted = self.allotted.lock();
        let held = allotted.entry(ask.lane).or_default();
        held.remove(&run);
        let others: u32 = held.values().map(|(held, _)| held).sum();
        if ask.keep > 0 || ask.wanted > 0 {
            held.insert(run, (0, ask.wanted));
        }
        let wanted: Vec<_> = held.iter().map(|(run, (_, wanted))| (*run, *wanted)).collect();
        let part = |amount| part_of(amount, &wanted, run, turn);
        let slots = part(ask.cap).min(ask.cap.saturating_sub(others));
        let everybody = |rate| wanted.iter().map(|(run, _)| (*run, rate)).collect::<Vec<_>>();
        let per_second = ask.per_second.map(|rate| part_of(rate, &everybody(rate), run, turn));
        if let Some((held, _)) = held.get_mut(&run) {
            *held = slots.max(ask.keep);
        }
        Allotment { slots, per_second }
    }
}

impl MemoryStore {
    /// Shares the store between several nodes of this process, with one coordination shard.
    #[must_use]
    pub fn shared_by_nodes(self) -> Self {
        self.coordinated_by(&[ShardId(0)])
    }

    /// Shares the store between several nodes of this process, with these coordination shards. They are
    /// independent of the store's timers, which are all in shard 0.
    #[must_use]
    pub fn coordinated_by(mut self, coordinators: &[ShardId]) -> Self {
        self.members = Some(Members::new(coordinators));
        self
    }

    /// Changes the list of coordination shards. From now on the shards refuse heartbeats with the previous
    /// list.
    ///
    /// # Errors
    /// `Unavailable` if the store belongs to one node.
    pub fn change_coordinators(&self, coordinators: &[ShardId]) -> Result<()> {
        let members = self.members()?;
        let mut list = members.list.lock();
        *list = Coordinators { version: list.version + 1, shards: coordinators.to_vec() };
        let mut kept = members.coordinators.lock();
        for shard in coordinators {
            kept.entry(*shard).or_default();
        }
        for coordinator in kept.values_mut() {
            coordinator.accept_list(list.version);
        }
        Ok(())
    }

    /// Removes the members of a coordination shard, as a failover may do.
    ///
    /// # Errors
    /// `Unavailable` if the store belongs to one node.
    pub fn forget_members(&self, coordinator: ShardId) -> Result<()> {
        let mut kept = self.members()?.coordinators.lock();
        kept.entry(coordinator).and_modify(Coordinator::forget_members);
        Ok(())
    }

    fn members(&self) -> Result<&Members> {
        self.members.as_ref().ok_or_else(|| Error::Unavailable {
            reason: "this store belongs to one node".to_owned(),
            retry_after: Millis::from_secs(1),
        })
    }
}

impl Deployment for MemoryStore {
    fn coordinators(&self) -> Coordinators {
        let list = self.members.as_ref().map(|members| members.list.lock().clone());
        list.unwrap_or(Coordinators { version: 1, shards: vec![ShardId(0)] })
    }

    fn heartbeat(&self, coordinator: ShardId, beat: Heartbeat) -> StoreFuture<'_, HeartbeatReply> {
        async move {
            let mut kept = self.members()?.coordinators.lock();
            let kept = kept.get_mut(&coordinator);
            Ok(kept.map_or(HeartbeatReply::Superseded, |kept| kept.heartbeat(beat)))
        }
        .boxed()
    }

    fn holders(&self, shard: ShardId) -> StoreFuture<'_, Vec<MemberId>> {
        async move {
            own(shard)?;
            let mut holders = self.look(|state, _| state.holders());
            let allotted = self.members()?.allotted.lock();
            holders.extend(allotted.values().flat_map(|held| held.keys()));
            holders.sort_unstable();
            holders.dedup();
            Ok(holders)
        }
        .boxed()
    }

    fn allot(
        &self,
        shard: ShardId,
        run: MemberId,
        asks: Vec<Ask>,
    ) -> StoreFuture<'_, Vec<Allotment>> {
        async move {
            own(shard)?;
            let members = self.members()?;
            members.may_claim(Owner::Node(run))?;
            let turn = self.clocks.now().wall.unix_ms() / 1_000;
            Ok(asks.into_iter().map(|ask| members.allot(run, ask, turn)).collect())
        }
        .boxed()
    }

    fn announce(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, ()> {
        async move {
            // There may be no receiver.
            let _unheard = self.members()?.announced.send((shard, namespace));
            Ok(())
        }
        .boxed()
    }

    fn announcements(&self) -> broadcast::Receiver<Announcement> {
        let members = self.members.as_ref();
        members.map_or_else(|| broadcast::Sender::new(1).subscribe(), |m| m.announced.subscribe())
    }
}
