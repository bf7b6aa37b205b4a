//! The membership of this node: the members, the shards that this node owns, and its right to act. Pure:
//! its inputs are replies of the coordinator shards and the monotonic clock.
//!
//! 1. **We may act** while a majority of the list has replied to heartbeats that were *sent* less than
//!    [`ACTS_FOR`] ago. A node that was stopped, or that reaches no majority, detects this before it
//!    claims or sends.
//! 2. **A member stalls** at a shard while its heartbeat number there does not change, or while the
//!    shard does not list it though we know it. After [`DEAD_AFTER`] our next heartbeat there names it
//!    dead. The shard evicts it if it still stalls then. The time between two replies counts for at most
//!    [`GAP_MAX`], and after a silence it counts from the start. So an outage, or a pause of this node,
//!    evicts no node.
//! 3. **A member is gone**, and its leases are ended, when fresh replies of a majority say that it is
//!    evicted there; never because it is not listed.
//! 4. **A member id belongs to one list.** When the list changes, every node rejoins with a new member
//!    id: the shards of a new list know nothing of the evictions of the old one.
//!
//! # Proof that a member that is gone does not act
//!
//! Let member X act at a moment by a majority M, and let node O consider it gone by a majority E of the
//! same list. Some shard is in both. There X was evicted, for good, so its last heartbeat n that was
//! accepted there came before. The node that named X dead had seen n or a later one, or X's absence,
//! first in a reply that it received at a moment r. So n was sent before r, and counts until less than
//! `r + ACTS_FOR`. The eviction came after `r + DEAD_AFTER`, and node O learned of it after that. So X
//! did not act any more, and as evictions last it never will.
//!
//! The shard must not forget within that time what it has replied to: a failover that loses the last
//! heartbeats takes longer than [`ACTS_FOR`] unless an operator forces it (record 0005).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use duly_core::shard::ShardId;
use duly_store::{
    MemberId,
    deployment::{
        Coordinators, Heartbeat, HeartbeatReply, Member, MembershipStage, NamespaceFilter,
    },
};

mod view;

use view::CoordinatorView;

/// Time between two heartbeats at one coordinator shard.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);
/// Time for which a reply counts, from before its heartbeat was sent.
pub(crate) const ACTS_FOR: Duration = Duration::from_millis(1_500);
/// Time for which a member stalls until it is named dead; longer than [`ACTS_FOR`], so that it has
/// stopped.
const DEAD_AFTER: Duration = Duration::from_millis(1_750);
/// Most that the time between two replies of one shard counts.
const GAP_MAX: Duration = Duration::from_millis(400);
/// Time for which this node keeps its member id after a minority evicted it. The new member id counts
/// every shard again.
const MINORITY_FOR: Duration = Duration::from_secs(10);
/// Time for which a member id that cannot act is kept: shards may have forgotten its eviction after
/// that.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Oldest and newest protocol version between nodes that this one understands.
pub(crate) const PROTOCOLS: (u16, u16) = (2, 2);

/// The membership of this node, and its view of the others.
#[derive(Debug)]
pub(crate) struct Membership {
    member_id: MemberId,
    /// Number of the last heartbeat, over all shards.
    number: u64,
    is_leaving: bool,
    list: Coordinators,
    views: Vec<CoordinatorView>,
    /// Time of the last reply after which this member could act.
    acted_at: Option<Duration>,
    others: BTreeMap<MemberId, Member>,
    /// Members that may hold leases and are not gone, whether they are listed or not.
    watched: BTreeSet<MemberId>,
    /// Members that are gone while some shard still lists them.
    gone: BTreeSet<MemberId>,
    /// `true`: this node owns the shard; by shard.
    owned: Vec<bool>,
}

/// A heartbeat that was sent; its reply is matched with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentHeartbeat {
    shard: ShardId,
    member_id: MemberId,
    list: u64,
    at: Duration,
}

/// The consequences of a reply.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MembershipChanges {
    /// Members that are gone: their leases must be ended in our shards.
    pub(crate) gone: Vec<MemberId>,
    /// Shards that this node owns from now on.
    pub(crate) gained: Vec<ShardId>,
    /// Number of shards that this node owns no more.
    pub(crate) lost: usize,
    /// New members.
    pub(crate) joined: Vec<MemberId>,
    /// `true`: this node can act again, after a time in which it could not.
    pub(crate) acts_again: bool,
}

/// The reason why this node rejoins with a new member id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RejoinReason {
    /// A majority has evicted it.
    Evicted,
    /// A minority has evicted it, some time ago.
    EvictedByMinority,
    /// It could not act for long.
    Idle,
    /// The list of coordinator shards has changed.
    NewList,
}

impl Membership {
    /// Creates a node that is no member yet.
    pub(crate) fn new(shards: u16, list: Coordinators, member_id: MemberId) -> Self {
        Self {
            member_id,
            number: 0,
            is_leaving: false,
            views: views(&list),
            list,
            acted_at: None,
            others: BTreeMap::new(),
            watched: BTreeSet::new(),
            gone: BTreeSet::new(),
            owned: vec![false; usize::from(shards)],
        }
    }

    /// Creates the next heartbeat for a coordinator shard.
    pub(crate) fn heartbeat(
        &mut self,
        shard: ShardId,
        now: Duration,
        name: &str,
        waits: NamespaceFilter,
    ) -> (SentHeartbeat, Heartbeat) {
        let presence = self.presence(now);
        self.number += 1;
        let dead = self.view(shard).map_or_else(Vec::new, |view| view.dead().collect());
        let heartbeat = Heartbeat {
            member_id: self.member_id,
            number: self.number,
            list: self.list.version,
            name: name.to_owned(),
            protocols: PROTOCOLS,
            presence,
            waits,
            dead,
        };
        (
            SentHeartbeat { shard, member_id: self.member_id, list: self.list.version, at: now },
            heartbeat,
        )
    }

    /// Applies the reply to a heartbeat. A reply to an earlier member id, or by another list, is
    /// ignored.
    pub(crate) fn on_reply(
        &mut self,
        sent: SentHeartbeat,
        now: Duration,
        reply: HeartbeatReply,
    ) -> MembershipChanges {
        if (sent.member_id, sent.list) != (self.member_id, self.list.version) {
            return MembershipChanges::default();
        }
        let could_act = self.may_act(now);
        let view = self.views.iter_mut().find(|view| view.shard == sent.shard);
        if let Some(view) = view {
            view.on_reply(sent.at, now, reply, self.member_id, &self.watched);
        }
        let can_act = self.may_act(now);
        if can_act {
            self.acted_at = Some(now);
        }
        let mut changes =
            MembershipChanges { acts_again: !could_act && can_act, ..MembershipChanges::default() };
        self.update_members(now, &mut changes);
        changes
    }

    /// Computes the members and their evictions from all fresh views.
    fn update_members(&mut self, now: Duration, changes: &mut MembershipChanges) {
        let mut others: BTreeMap<MemberId, Member> = BTreeMap::new();
        let mut evictions: BTreeMap<MemberId, usize> = BTreeMap::new();
        for view in self.views.iter().filter(|view| view.is_fresh(now)) {
            for member_id in &view.evicted {
                *evictions.entry(*member_id).or_default() += 1;
            }
            for member in &view.members {
                if others
                    .get(&member.member_id)
                    .is_none_or(|known| known.heartbeats < member.heartbeats)
                {
                    others.insert(member.member_id, member.clone());
                }
            }
        }
        let majority = self.list.majority();
        let is_gone =
            |member_id: &MemberId| evictions.get(member_id).is_some_and(|count| *count >= majority);
        others.retain(|member_id, _| !is_gone(member_id) && !self.gone.contains(member_id));
        let is_new = |member_id: &&MemberId| {
            !self.others.contains_key(member_id) && !self.watched.contains(member_id)
        };
        changes.joined = others.keys().filter(is_new).copied().collect();
        let working = others.values().filter(|member| member.presence != MembershipStage::Joining);
        self.watched.extend(working.map(|member| member.member_id));
        changes.gone =
            self.watched.iter().filter(|member_id| is_gone(member_id)).copied().collect();
        for member_id in &changes.gone {
            self.watched.remove(member_id);
            self.gone.insert(*member_id);
        }
        let views = &self.views;
        let is_listed = |member_id: &MemberId| {
            let mut members = views.iter().flat_map(|view| &view.members);
            members.any(|member| member.member_id == *member_id)
        };
        self.gone.retain(is_listed);
        self.others = others;
        self.assign_shards(changes);
    }

    /// Rejoins with a new member id if the current one has ended; returns the reason.
    pub(crate) fn rejoin_if_due(
        &mut self,
        now: Duration,
        new_member_id: MemberId,
    ) -> Option<RejoinReason> {
        let reason = self.rejoin_reason(now)?;
        self.rejoin(new_member_id);
        Some(reason)
    }

    fn rejoin_reason(&self, now: Duration) -> Option<RejoinReason> {
        let since = |at: Duration| now.saturating_sub(at);
        let evicted = || self.views.iter().filter_map(|view| view.evicted_us_at);
        if evicted().count() >= self.list.majority() {
            Some(RejoinReason::Evicted)
        } else if evicted().any(|at| since(at) >= MINORITY_FOR) {
            Some(RejoinReason::EvictedByMinority)
        } else if self.acted_at.is_some_and(|at| since(at) >= IDLE_MAX) && !self.may_act(now) {
            Some(RejoinReason::Idle)
        } else {
            None
        }
    }

    /// Rejoins with a member id that was never used, which no shard knows yet.
    pub(crate) fn rejoin(&mut self, new_member_id: MemberId) {
        if self.acted_at.is_some() {
            // The leases of the old member id are ended when it is gone, like those of any other member.
            self.watched.insert(self.member_id);
        }
        self.member_id = new_member_id;
        self.acted_at = None;
        self.views = views(&self.list);
        self.assign_shards(&mut MembershipChanges::default());
    }

    /// Switches to this list of coordinator shards, if it has changed.
    pub(crate) fn switch_list(
        &mut self,
        list: Coordinators,
        new_member_id: MemberId,
    ) -> Option<RejoinReason> {
        if list.version == self.list.version {
            return None;
        }
        self.list = list;
        self.gone.clear();
        self.rejoin(new_member_id);
        Some(RejoinReason::NewList)
    }

    /// Starts to leave: this node owns no shard from now on.
    pub(crate) fn leave(&mut self) {
        self.is_leaving = true;
        self.assign_shards(&mut MembershipChanges::default());
    }

    /// Watches a holder of leases that is not a known member: it is gone when a majority has evicted it.
    pub(crate) fn suspect(&mut self, member_id: MemberId) {
        if member_id != self.member_id && !self.others.contains_key(&member_id) {
            self.watched.insert(member_id);
        }
    }

    /// Returns the member id by which this node claims.
    pub(crate) const fn member_id(&self) -> MemberId {
        self.member_id
    }

    pub(crate) const fn list(&self) -> &Coordinators {
        &self.list
    }

    /// Returns `true` if this node may claim, and send claimed firings.
    pub(crate) fn may_act(&self, now: Duration) -> bool {
        self.silent_for(now).is_some_and(|silent| silent < ACTS_FOR) && !self.is_waiting()
    }

    /// Returns the age of the heartbeats to which a majority has replied; `None` before it has.
    pub(crate) fn silent_for(&self, now: Duration) -> Option<Duration> {
        let mut silent: Vec<_> = self.views.iter().filter_map(|v| v.silent_for(now)).collect();
        silent.sort_unstable();
        silent.get(self.list.majority() - 1).copied()
    }

    /// Returns `true` if this node waits until nodes of an older version have left.
    pub(crate) fn is_waiting(&self) -> bool {
        self.views.iter().any(|view| view.waits_for.is_some())
    }

    /// Returns the names of the nodes of an older version for which this one waits.
    pub(crate) fn waits_for(&self) -> Vec<String> {
        let mut names: Vec<_> =
            self.views.iter().flat_map(|view| view.waits_for.iter().flatten().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(crate) fn is_owner_of(&self, shard: ShardId) -> bool {
        self.owned.get(usize::from(shard.0)).copied().unwrap_or(false)
    }

    /// Returns the other members, according to fresh replies.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Member> {
        self.others.values()
    }

    /// Returns the time for which a member stalls, at the shard that received its heartbeat last.
    pub(crate) fn stalled_for(&self, member_id: MemberId) -> Duration {
        self.views.iter().filter_map(|view| view.stalled_for(member_id)).min().unwrap_or_default()
    }

    /// Returns the stage of our membership.
    pub(crate) fn presence(&self, now: Duration) -> MembershipStage {
        match (self.is_leaving, self.may_act(now)) {
            (true, _) => MembershipStage::Leaving,
            (false, true) => MembershipStage::Here,
            (false, false) => MembershipStage::Joining,
        }
    }

    /// Returns `true` if a heartbeat must be sent to a shard at once, to name a member dead.
    pub(crate) fn has_dead(&self, shard: ShardId) -> bool {
        self.view(shard).is_some_and(|view| view.dead().next().is_some())
    }

    /// Returns the number of shards that a member owns, in our view.
    pub(crate) fn shards_of(&self, member_id: MemberId) -> usize {
        (0..)
            .map(ShardId)
            .take(self.owned.len())
            .filter(|s| self.owner(*s) == Some(member_id))
            .count()
    }

    fn view(&self, shard: ShardId) -> Option<&CoordinatorView> {
        self.views.iter().find(|view| view.shard == shard)
    }

    fn assign_shards(&mut self, changes: &mut MembershipChanges) {
        for index in 0..self.owned.len() {
            let shard = ShardId(u16::try_from(index).unwrap_or(u16::MAX));
            let ours = self.owner(shard) == Some(self.member_id);
            match (std::mem::replace(&mut self.owned[index], ours), ours) {
                (false, true) => changes.gained.push(shard),
                (true, false) => changes.lost += 1,
                _ => {}
            }
        }
    }

    /// Returns the owner of a shard, of the members that work: the one with the highest hash of (member
    /// id, shard). This is rendezvous hashing (Thaler and Ravishankar, 1998). When a member leaves, only
    /// its own shards move.
    fn owner(&self, shard: ShardId) -> Option<MemberId> {
        let others = self.others.values().filter(|other| other.presence == MembershipStage::Here);
        let us = Some(self.member_id).filter(|_| self.acted_at.is_some() && !self.is_leaving);
        let members = others.map(|other| other.member_id).chain(us);
        members.max_by_key(|member_id| (weight(*member_id, shard), *member_id))
    }
}

/// Returns the weight of a member for a shard: the finalizer of MurmurHash3 over both. Every node must
/// compute the same weights.
fn weight(member_id: MemberId, shard: ShardId) -> u64 {
    let mut x = member_id.0 ^ (u64::from(shard.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

fn views(list: &Coordinators) -> Vec<CoordinatorView> {
    list.shards.iter().copied().map(CoordinatorView::new).collect()
}

#[cfg(test)]
mod tests;
