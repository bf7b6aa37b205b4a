//! A memory store that several nodes of one process share: for tests of nodes.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::{Millis, NamespaceName, shard::ShardId};
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use super::{MemoryStore, own};
use crate::{
    Deployment, Error, Lane, NodeRun, Owner, Result, StoreFuture,
    deployment::{Allotment, Announcement, Ask, Beat, Heard, Member, Presence, part_of},
};

/// Announcements that are kept for a listener that is behind.
const ANNOUNCEMENTS: usize = 1_024;

/// What each run has of a lane, and what it wants.
type Parts = BTreeMap<NodeRun, (u32, u32)>;

/// Who shares the store.
#[derive(Debug)]
pub(super) struct Members {
    alive: Mutex<BTreeMap<NodeRun, Member>>,
    /// Runs that were released: they claim nothing any more.
    released: Mutex<BTreeSet<NodeRun>>,
    announced: broadcast::Sender<Announcement>,
    /// What runs have of lanes, and what they want.
    allotted: Mutex<BTreeMap<Lane, Parts>>,
}

impl Default for Members {
    fn default() -> Self {
        Self {
            alive: Mutex::default(),
            released: Mutex::default(),
            announced: broadcast::Sender::new(ANNOUNCEMENTS),
            allotted: Mutex::default(),
        }
    }
}

impl Members {
    pub(super) fn may_claim(&self, owner: Owner) -> Result<()> {
        match owner {
            Owner::Node(run) if self.released.lock().contains(&run) => Err(Error::RunOver),
            _ => Ok(()),
        }
    }

    pub(super) fn release(&self, run: NodeRun) {
        self.released.lock().insert(run);
        for held in self.allotted.lock().values_mut() {
            held.remove(&run);
        }
    }

    fn allot(&self, run: NodeRun, ask: Ask, turn: u64) -> Allotment {
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

    fn beat(&self, beat: Beat) -> Heard {
        let mut alive = self.alive.lock();
        for (run, beats) in beat.dead {
            if alive.get(&run).is_some_and(|member| member.beats == beats) {
                alive.remove(&run);
            }
        }
        if beat.presence == Presence::Left {
            alive.remove(&beat.run);
            return Heard::Members(alive.values().cloned().collect());
        }
        let known = alive.get(&beat.run).map(|member| member.beats);
        let beats = match known {
            None if beat.presence != Presence::Joining => return Heard::Over,
            known => known.unwrap_or(0) + 1,
        };
        let member = Member {
            run: beat.run,
            name: beat.name,
            protocols: beat.protocols,
            is_leaving: beat.presence == Presence::Leaving,
            beats,
            waits: beat.waits,
        };
        alive.insert(beat.run, member);
        Heard::Members(alive.values().cloned().collect())
    }
}

impl MemoryStore {
    /// The same store, for several nodes of this process.
    #[must_use]
    pub fn shared_by_nodes(mut self) -> Self {
        self.members = Some(Members::default());
        self
    }

    fn members(&self) -> Result<&Members> {
        self.members.as_ref().ok_or_else(|| Error::Unavailable {
            reason: "this store belongs to one node".to_owned(),
            retry_after: Millis::from_secs(1),
        })
    }
}

impl Deployment for MemoryStore {
    fn beat(&self, beat: Beat) -> StoreFuture<'_, Heard> {
        async move { Ok(self.members()?.beat(beat)) }.boxed()
    }

    fn holders(&self, shard: ShardId) -> StoreFuture<'_, Vec<NodeRun>> {
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
        run: NodeRun,
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
            // Nobody may be listening.
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
