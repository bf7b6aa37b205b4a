//! A memory store that several nodes of one process share, for tests of nodes.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::{Millis, NamespaceName, shard::ShardId};
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use super::MemoryStore;
use crate::{
    Deployment, Error, Lane, MemberId, Owner, Result, StoreFuture,
    deployment::{
        Allotment, Announcement, Ask, Coordinator, Coordinators, Heartbeat, HeartbeatReply,
        max_min_part,
    },
};

/// Number of announcements that are kept for a slow receiver.
const ANNOUNCEMENTS: usize = 1_024;

/// The grant and the request of each member for a lane.
type LaneGrants = BTreeMap<MemberId, (u32, u32)>;

/// The members that share the store, and the quotas of lanes.
#[derive(Debug)]
pub(super) struct Members {
    list: Mutex<Coordinators>,
    coordinators: Mutex<BTreeMap<ShardId, Coordinator>>,
    /// Members that were released: they can no longer claim.
    released: Mutex<BTreeSet<MemberId>>,
    announced: broadcast::Sender<Announcement>,
    /// The grants and requests of all members, by lane.
    granted: Mutex<BTreeMap<Lane, LaneGrants>>,
}

impl Members {
    fn new(coordinators: &[ShardId]) -> Self {
        let list = Coordinators { version: 1, shards: coordinators.to_vec() };
        let coordinators = list.shards.iter().map(|shard| (*shard, Coordinator::new(list.version)));
        Self {
            coordinators: Mutex::new(coordinators.collect()),
            list: Mutex::new(list),
            released: Mutex::default(),
            announced: broadcast::Sender::new(ANNOUNCEMENTS),
            granted: Mutex::default(),
        }
    }

    pub(super) fn check_not_released(&self, owner: Owner) -> Result<()> {
        match owner {
            Owner::Node(member_id) if self.released.lock().contains(&member_id) => {
                Err(Error::Evicted)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn release(&self, member_id: MemberId) {
        self.released.lock().insert(member_id);
        for grants in self.granted.lock().values_mut() {
            grants.remove(&member_id);
        }
    }

    fn allot(&self, member_id: MemberId, ask: Ask, rotation: u64) -> Allotment {
        let mut granted = self.granted.lock();
        let grants = granted.entry(ask.lane).or_default();
        grants.remove(&member_id);
        let others: u32 = grants.values().map(|(grants, _)| grants).sum();
        if ask.keep > 0 || ask.wanted > 0 {
            grants.insert(member_id, (0, ask.wanted));
        }
        let wanted: Vec<_> =
            grants.iter().map(|(member_id, (_, wanted))| (*member_id, *wanted)).collect();
        let part = |amount| max_min_part(amount, &wanted, member_id, rotation);
        let slots = part(ask.cap).min(ask.cap.saturating_sub(others));
        let equal_requests =
            |rate| wanted.iter().map(|(member_id, _)| (*member_id, rate)).collect::<Vec<_>>();
        let per_second = ask
            .per_second
            .map(|rate| max_min_part(rate, &equal_requests(rate), member_id, rotation));
        if let Some((grants, _)) = grants.get_mut(&member_id) {
            *grants = slots.max(ask.keep);
        }
        Allotment { slots, per_second }
    }
}

impl MemoryStore {
    /// Shares the store between several nodes of this process, with one coordinator shard.
    #[must_use]
    pub fn shared_by_nodes(self) -> Self {
        self.coordinated_by(&[ShardId(0)])
    }

    /// Shares the store between several nodes of this process, with these coordinator shards. They are
    /// independent of the store's timers, which are all in shard 0.
    #[must_use]
    pub fn coordinated_by(mut self, coordinators: &[ShardId]) -> Self {
        self.members = Some(Members::new(coordinators));
        self
    }

    /// Changes the list of coordinator shards. From now on the shards refuse heartbeats with the previous
    /// list.
    ///
    /// # Errors
    /// `Unavailable` if the store belongs to one node.
    pub fn change_coordinators(&self, shards: &[ShardId]) -> Result<()> {
        let members = self.members()?;
        let mut list = members.list.lock();
        *list = Coordinators { version: list.version + 1, shards: shards.to_vec() };
        let mut coordinators = members.coordinators.lock();
        for shard in shards {
            coordinators.entry(*shard).or_default();
        }
        for coordinator in coordinators.values_mut() {
            coordinator.accept_list(list.version);
        }
        Ok(())
    }

    /// Removes the members of a coordinator shard, as a failover may do.
    ///
    /// # Errors
    /// `Unavailable` if the store belongs to one node.
    pub fn forget_members(&self, coordinator: ShardId) -> Result<()> {
        let mut coordinators = self.members()?.coordinators.lock();
        coordinators.entry(coordinator).and_modify(Coordinator::forget_members);
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

    fn heartbeat(
        &self,
        coordinator: ShardId,
        heartbeat: Heartbeat,
    ) -> StoreFuture<'_, HeartbeatReply> {
        async move {
            let mut coordinators = self.members()?.coordinators.lock();
            let (known, now) = (coordinators.get_mut(&coordinator), self.clocks.now().wall);
            Ok(known.map_or(HeartbeatReply::Superseded, |known| known.heartbeat(heartbeat, now)))
        }
        .boxed()
    }

    fn holders(&self, shard: ShardId) -> StoreFuture<'_, Vec<MemberId>> {
        self.on_shard(shard, move || {
            let mut holders = self.read(|state, _| state.holders());
            let granted = self.members()?.granted.lock();
            holders.extend(granted.values().flat_map(|grants| grants.keys()));
            holders.sort_unstable();
            holders.dedup();
            Ok(holders)
        })
    }

    fn allot(
        &self,
        shard: ShardId,
        member_id: MemberId,
        asks: Vec<Ask>,
    ) -> StoreFuture<'_, Vec<Allotment>> {
        self.on_shard(shard, move || {
            let members = self.members()?;
            members.check_not_released(Owner::Node(member_id))?;
            let rotation = self.clocks.now().wall.unix_ms() / 1_000;
            Ok(asks.into_iter().map(|ask| members.allot(member_id, ask, rotation)).collect())
        })
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
