//! Who is a member, which shards are ours, whether we may act. Pure: replies of the coordination
//! shards and the monotonic clock go in, what follows comes out.
//!
//! 1. **We may act** while a majority of the list has replied to heartbeats that were *sent* less than
//!    [`ACTS_FOR`] ago. A node that stood still, or that no majority hears, notices by this before it
//!    claims or sends.
//! 2. **A run stands still** at a shard while we see the same number of it there, or do not see it there
//!    though we know it. After [`DEAD_AFTER`] our next heartbeat there names it dead, and the shard
//!    evicts it if that is so still. The time between two replies counts for at most [`GAP_MAX`], and
//!    after a silence it counts from the start: an outage, or a pause of ours, kills no node.
//! 3. **A run is gone**, and its leases are ended, when a majority has told us in fresh replies that it
//!    is evicted there; never because it is not seen.
//! 4. **A run counts in one list.** When the list changes, every node goes on as a new run: the shards
//!    of a new list know nothing of the evictions of the old one.
//!
//! # Why a run that is gone does not act
//!
//! Let run X act at a moment by a majority M, and let node O hold it for gone by a majority E of the
//! same list. Some shard is in both. There X was evicted, for good, so its last heartbeat n that was
//! accepted there came before. The node that named X dead had seen n or a later one, or X's absence,
//! first in a reply that it received at a moment r; so n was sent before r, and counts until less than
//! `r + ACTS_FOR`. The eviction came after `r + DEAD_AFTER`, and node O heard of it
//! after that. So X did not act any more, and as evictions last it never will.
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
    deployment::{Coordinators, Heartbeat, HeartbeatReply, Interest, Member, Presence},
};

mod owners;
mod view;

use view::View;

/// Time between two heartbeats at one coordination shard.
pub(crate) const BEAT_EVERY: Duration = Duration::from_millis(250);
/// How long a reply counts, from before its heartbeat was sent.
pub(crate) const ACTS_FOR: Duration = Duration::from_millis(1_500);
/// How long a run stands still until it is named dead; longer than [`ACTS_FOR`], so that it has stopped.
const DEAD_AFTER: Duration = Duration::from_millis(1_750);
/// Most that the time between two replies of one shard counts.
const GAP_MAX: Duration = Duration::from_millis(400);
/// How long a run goes on that a minority has evicted. The new run counts every shard again.
const MINORITY_FOR: Duration = Duration::from_secs(10);
/// How long a run is kept that cannot act: shards may have forgotten its eviction after that.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Versions of what nodes agree on that this one understands.
pub(crate) const PROTOCOLS: (u16, u16) = (2, 2);

/// What this node knows of itself and of the others.
#[derive(Debug)]
pub(crate) struct Membership {
    run: MemberId,
    /// Number of the last heartbeat, in whichever shard.
    number: u64,
    is_leaving: bool,
    list: Coordinators,
    views: Vec<View>,
    /// When a reply came last and this run could act.
    acted_at: Option<Duration>,
    others: BTreeMap<MemberId, Member>,
    /// Runs that may hold leases and are not gone, whether they are seen or not.
    watched: BTreeSet<MemberId>,
    /// Runs that are gone while some shard still lists them.
    gone: BTreeSet<MemberId>,
    /// By shard.
    owned: Vec<bool>,
}

/// A heartbeat that was sent, for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    shard: ShardId,
    run: MemberId,
    list: u64,
    at: Duration,
}

/// What follows from a reply.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Runs that are gone: their leases are to be ended in our shards.
    pub(crate) gone: Vec<MemberId>,
    /// Shards that are ours from now on.
    pub(crate) gained: Vec<ShardId>,
    /// Shards that are ours no more.
    pub(crate) lost: usize,
    /// Members that are new.
    pub(crate) joined: Vec<MemberId>,
    /// We can act again, after a time in which we could not.
    pub(crate) acts_again: bool,
}

/// Why this node goes on as a new run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejoin {
    /// A majority has evicted the run.
    Evicted,
    /// A minority has, some time ago.
    EvictedByMinority,
    /// It could not act for long.
    Idle,
    /// The list of coordination shards is another one.
    NewList,
}

impl Membership {
    /// A node that is no member yet.
    pub(crate) fn new(shards: u16, list: Coordinators, run: MemberId) -> Self {
        Self {
            run,
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

    /// The next heartbeat for a coordination shard.
    pub(crate) fn heartbeat(
        &mut self,
        shard: ShardId,
        now: Duration,
        name: &str,
        waits: Interest,
    ) -> (Sent, Heartbeat) {
        let presence = self.presence(now);
        self.number += 1;
        let dead = self.view(shard).map_or_else(Vec::new, |view| view.dead().collect());
        let beat = Heartbeat {
            member_id: self.run,
            number: self.number,
            list: self.list.version,
            name: name.to_owned(),
            protocols: PROTOCOLS,
            presence,
            waits,
            dead,
        };
        (Sent { shard, run: self.run, list: self.list.version, at: now }, beat)
    }

    /// Takes the reply to a heartbeat. One to an earlier run, or by another list, says nothing.
    pub(crate) fn heard(&mut self, sent: Sent, now: Duration, heard: HeartbeatReply) -> Changes {
        if (sent.run, sent.list) != (self.run, self.list.version) {
            return Changes::default();
        }
        let could_act = self.may_act(now);
        let view = self.views.iter_mut().find(|view| view.shard == sent.shard);
        if let Some(view) = view {
            view.heard(sent.at, now, heard, self.run, &self.watched);
        }
        let can_act = self.may_act(now);
        if can_act {
            self.acted_at = Some(now);
        }
        let mut changes = Changes { acts_again: !could_act && can_act, ..Changes::default() };
        self.conclude(now, &mut changes);
        changes
    }

    /// Takes stock of all fresh views.
    fn conclude(&mut self, now: Duration, changes: &mut Changes) {
        let mut others: BTreeMap<MemberId, Member> = BTreeMap::new();
        let mut evictions: BTreeMap<MemberId, usize> = BTreeMap::new();
        for view in self.views.iter().filter(|view| view.is_fresh(now)) {
            for run in view.evicted() {
                *evictions.entry(*run).or_default() += 1;
            }
            for member in view.members() {
                if others
                    .get(&member.member_id)
                    .is_none_or(|known| known.heartbeats < member.heartbeats)
                {
                    others.insert(member.member_id, member.clone());
                }
            }
        }
        let majority = self.list.majority();
        let is_gone = |run: &MemberId| evictions.get(run).is_some_and(|count| *count >= majority);
        others.retain(|run, _| !is_gone(run) && !self.gone.contains(run));
        let is_new =
            |run: &&MemberId| !self.others.contains_key(run) && !self.watched.contains(run);
        changes.joined = others.keys().filter(is_new).copied().collect();
        let working = others.values().filter(|member| member.presence != Presence::Joining);
        self.watched.extend(working.map(|member| member.member_id));
        changes.gone = self.watched.iter().filter(|run| is_gone(run)).copied().collect();
        for run in &changes.gone {
            self.watched.remove(run);
            self.gone.insert(*run);
        }
        let views = &self.views;
        let is_listed = |run: &MemberId| {
            views.iter().flat_map(View::members).any(|member| member.member_id == *run)
        };
        self.gone.retain(is_listed);
        self.others = others;
        self.share_out(changes);
    }

    /// Goes on as a new run if the present one has come to its end; returns why.
    pub(crate) fn rejoin_if_due(&mut self, now: Duration, fresh: MemberId) -> Option<Rejoin> {
        let why = self.has_ended(now)?;
        self.rejoin(fresh);
        Some(why)
    }

    fn has_ended(&self, now: Duration) -> Option<Rejoin> {
        let since = |at: Duration| now.saturating_sub(at);
        let evicted = || self.views.iter().filter_map(|view| view.evicted_us_at);
        if evicted().count() >= self.list.majority() {
            Some(Rejoin::Evicted)
        } else if evicted().any(|at| since(at) >= MINORITY_FOR) {
            Some(Rejoin::EvictedByMinority)
        } else if self.acted_at.is_some_and(|at| since(at) >= IDLE_MAX) && !self.may_act(now) {
            Some(Rejoin::Idle)
        } else {
            None
        }
    }

    /// Goes on as a run that was never used, which no shard has heard yet.
    pub(crate) fn rejoin(&mut self, fresh: MemberId) {
        if self.acted_at.is_some() {
            // What it holds still is ended when it is gone, as of any other.
            self.watched.insert(self.run);
        }
        self.run = fresh;
        self.acted_at = None;
        self.views = views(&self.list);
        self.share_out(&mut Changes::default());
    }

    /// Counts by this list from now on, if it is another one.
    pub(crate) fn follow(&mut self, list: Coordinators, fresh: MemberId) -> Option<Rejoin> {
        if list.version == self.list.version {
            return None;
        }
        self.list = list;
        self.gone.clear();
        self.rejoin(fresh);
        Some(Rejoin::NewList)
    }

    /// From now on nothing is begun here.
    pub(crate) fn leave(&mut self) {
        self.is_leaving = true;
        self.share_out(&mut Changes::default());
    }

    /// Watches a run that holds leases, unless it is a member: it is gone when a majority has evicted
    /// it.
    pub(crate) fn suspect(&mut self, run: MemberId) {
        if run != self.run && !self.others.contains_key(&run) {
            self.watched.insert(run);
        }
    }

    /// The run by which this node claims.
    pub(crate) const fn run(&self) -> MemberId {
        self.run
    }

    pub(crate) const fn list(&self) -> &Coordinators {
        &self.list
    }

    /// Whether it may claim, and send what it has claimed.
    pub(crate) fn may_act(&self, now: Duration) -> bool {
        self.silent_for(now).is_some_and(|silent| silent < ACTS_FOR) && !self.is_waiting()
    }

    /// How long ago the heartbeats were sent to which a majority has replied; `None` before one has.
    pub(crate) fn silent_for(&self, now: Duration) -> Option<Duration> {
        let mut silent: Vec<_> = self.views.iter().filter_map(|v| v.silent_for(now)).collect();
        silent.sort_unstable();
        silent.get(self.list.majority() - 1).copied()
    }

    /// Whether it waits until nodes of an older version have left.
    pub(crate) fn is_waiting(&self) -> bool {
        self.views.iter().any(|view| view.waits_for.is_some())
    }

    /// Names of the nodes of an older version for which this one waits.
    pub(crate) fn waits_for(&self) -> Vec<String> {
        let mut names: Vec<_> =
            self.views.iter().flat_map(|view| view.waits_for.iter().flatten().cloned()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(crate) fn owns(&self, shard: ShardId) -> bool {
        self.owned.get(usize::from(shard.0)).copied().unwrap_or(false)
    }

    /// The other members, as far as fresh replies tell.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Member> {
        self.others.values()
    }

    /// How long a member has not been heard by the shard that heard it last.
    pub(crate) fn still_for(&self, run: MemberId) -> Duration {
        self.views.iter().filter_map(|view| view.still_for(run)).min().unwrap_or_default()
    }

    /// The stage of our membership.
    pub(crate) fn presence(&self, now: Duration) -> Presence {
        match (self.is_leaving, self.may_act(now)) {
            (true, _) => Presence::Leaving,
            (false, true) => Presence::Here,
            (false, false) => Presence::Joining,
        }
    }

    /// Returns whether a heartbeat is due now at a shard, to name a run dead.
    pub(crate) fn has_dead(&self, shard: ShardId) -> bool {
        self.view(shard).is_some_and(|view| view.dead().next().is_some())
    }

    /// How many shards a member looks after, as we see it.
    pub(crate) fn shards_of(&self, run: MemberId) -> usize {
        (0..).map(ShardId).take(self.owned.len()).filter(|s| self.owner(*s) == Some(run)).count()
    }

    fn view(&self, shard: ShardId) -> Option<&View> {
        self.views.iter().find(|view| view.shard == shard)
    }

    fn share_out(&mut self, changes: &mut Changes) {
        for place in 0..self.owned.len() {
            let shard = ShardId(u16::try_from(place).unwrap_or(u16::MAX));
            let ours = self.owner(shard) == Some(self.run);
            match (std::mem::replace(&mut self.owned[place], ours), ours) {
                (false, true) => changes.gained.push(shard),
                (true, false) => changes.lost += 1,
                _ => {}
            }
        }
    }

    /// The member that looks after a shard, of those that work.
    fn owner(&self, shard: ShardId) -> Option<MemberId> {
        let others = self.others.values().filter(|other| other.presence == Presence::Here);
        let us = Some(self.run).filter(|_| self.acted_at.is_some() && !self.is_leaving);
        owners::owner(others.map(|other| other.member_id).chain(us), shard)
    }
}

fn views(list: &Coordinators) -> Vec<View> {
    list.shards.iter().copied().map(View::new).collect()
}

#[cfg(test)]
mod tests;
