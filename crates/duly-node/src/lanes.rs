//! Lanes: how many firings each may have under way, decided by free capacity. Pure.
//!
//! Invariants, at every moment:
//!
//! * a lane holds at most its cap (`max_in_flight` of its namespace; 1 until that is known),
//! * all lanes together hold at most `workers_max`, retries at most half of that,
//! * of each kind a lane takes more only while it holds less than half as many workers as are free
//!   for that kind, times its weight (the *dynamic threshold* of Choudhury and Hahne, 1998): greedy
//!   lanes shrink each other and leave some for a lane that has nothing yet, so a few dead
//!   receivers cannot take all workers,
//! * within a lane retries hold at most half of its cap while there is more than one slot, and get
//!   every fourth slot at least: neither kind starves the other.
//!
//! A lane that got less than it wants waits in its shard's [`Backlog`]: *blocked* when only its own
//! slots can help, *starved* when any freed worker can. So a freed slot looks at few lanes, never
//! at all of them. The only caller is the node, under one lock.

use duly_core::{NamespaceName, destination::LaneKey, shard::ShardId};
use duly_store::{Claimed, Firing, Lane, LaneClaim, ReadyLane};
use rustc_hash::FxHashMap;

mod backlog;
mod share;

#[cfg(test)]
mod tests;

use backlog::Backlog;
pub(crate) use share::Kind;
use share::{Demand, Load, Room, Share};

/// Lanes and namespaces remembered although they hold nothing.
const IDLE_REMEMBERED_MAX: usize = 4_096;

/// What a lane is doing, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activity {
    /// It gets what it wants.
    Flowing,
    /// It is at its own cap.
    Capped,
    /// It waits for a worker.
    Starved,
}

impl Activity {
    /// Every activity.
    pub const ALL: [Self; 3] = [Self::Flowing, Self::Capped, Self::Starved];

    /// Its name in metrics and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flowing => "flowing",
            Self::Capped => "capped",
            Self::Starved => "starved",
        }
    }
}

/// A push lane as seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneLoad {
    /// Which, within the namespace.
    pub key: LaneKey,
    /// Attempts under way, those not yet settled included.
    pub in_flight: usize,
    /// Most attempts under way at once, if known.
    pub cap: Option<usize>,
    /// What it is doing.
    pub state: Activity,
}

/// What a claim brought, beside its firings.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    /// Firings that no slot is left for, because the cap has been lowered: to be released.
    pub(crate) excess: Vec<Firing>,
    /// Firings to be delivered, each with the kind of the slot it holds.
    pub(crate) firings: Vec<(Firing, Kind)>,
    /// Whether the shard should ask for ready lanes again at once.
    pub(crate) look_again: bool,
}

/// All push lanes of a node.
#[derive(Debug)]
pub(crate) struct Lanes {
    workers_max: usize,
    batch_max: usize,
    workers: Load,
    lanes: FxHashMap<Lane, State>,
    shares: FxHashMap<NamespaceName, Share>,
    backlogs: Vec<Backlog>,
}

/// A claim in the making.
#[derive(Debug)]
struct Plan {
    shard: ShardId,
    batch_left: usize,
    claims: Vec<LaneClaim>,
}

impl Plan {
    fn new(shard: ShardId, batch_left: usize) -> Self {
        Self { shard, batch_left, claims: Vec::new() }
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct State {
    load: Load,
    /// The kind that got the last slot, so that a lane of one slot takes turns.
    last: Kind,
}

impl Lanes {
    pub(crate) fn new(shards: u16, workers_max: usize, batch_max: usize) -> Self {
        Self {
            workers_max: workers_max.max(1),
            batch_max: batch_max.max(1),
            workers: Load::default(),
            lanes: FxHashMap::default(),
            shares: FxHashMap::default(),
            backlogs: (0..shards).map(|_| Backlog::default()).collect(),
        }
    }

    /// Attempts under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.workers.sum()
    }

    /// Decides what to claim for lanes that have something, and holds the slots for it. What a lane
    /// wants and does not get is remembered in the backlog of its shard.
    pub(crate) fn plan(&mut self, shard: ShardId, ready: Vec<ReadyLane>) -> Vec<LaneClaim> {
        let mut plan = Plan::new(shard, self.batch_max);
        for ReadyLane { lane, first, retry } in ready {
            self.plan_one(&mut plan, lane, Demand::wanted(first, retry));
        }
        plan.claims
    }

    /// Decides what to claim for lanes of a shard that waited: those with a slot of their own freed,
    /// then starved ones in turn, for as long as there are workers. A lane that was not looked at
    /// keeps its turn.
    pub(crate) fn plan_waiting(&mut self, shard: ShardId) -> Vec<LaneClaim> {
        let mut plan = Plan::new(shard, self.batch_max);
        let at = usize::from(shard.0);
        for (lane, demand) in self.backlogs[at].take_retried() {
            self.plan_one(&mut plan, lane, demand);
        }
        for _ in 0..self.backlogs[at].take_looks() {
            if self.workers.sum() >= self.workers_max || plan.batch_left == 0 {
                break;
            }
            let Some((lane, demand)) = self.backlogs[at].take_starved() else {
                break;
            };
            self.plan_one(&mut plan, lane, demand);
        }
        plan.claims
    }

    fn plan_one(&mut self, plan: &mut Plan, lane: Lane, demand: Demand) {
        let state = self.lanes.get(&lane).copied().unwrap_or_default();
        let room = Room {
            share: self.share(&lane.namespace),
            lane: state.load,
            workers: self.workers,
            workers_max: self.workers_max,
        };
        let allowed = room.allow(demand, state.last);
        let granted = allowed.slots.at_most(plan.batch_left);
        let left = demand.minus(granted);
        let backlog = &mut self.backlogs[usize::from(plan.shard.0)];
        backlog.remember(&lane, left, allowed.limit);
        if granted != allowed.slots {
            // Only the size of the batch kept it from more.
            backlog.retry(&lane);
        }
        if granted.sum() == 0 {
            return;
        }
        plan.batch_left -= granted.sum();
        self.workers.add(granted);
        let state = self.lanes.entry(lane.clone()).or_default();
        state.load.add(granted);
        state.last = if granted.retry > 0 { Kind::Retry } else { Kind::First };
        plan.claims.push(LaneClaim { lane, first_max: granted.first, retry_max: granted.retry });
    }

    /// Gives back the slots of a claim that failed.
    pub(crate) fn unplan(&mut self, claims: &[LaneClaim]) {
        for claim in claims {
            let held = Load::new(claim.first_max, claim.retry_max);
            self.give_back(&claim.lane, held);
        }
    }

    /// Takes in what a claim brought: learns caps and weights, gives back the slots that were held
    /// for more than there was.
    pub(crate) fn granted(
        &mut self,
        shard: ShardId,
        claims: &[LaneClaim],
        claimed: Claimed,
    ) -> Granted {
        let mut unused: FxHashMap<Lane, Load> =
            claims.iter().map(|c| (c.lane.clone(), Load::new(c.first_max, c.retry_max))).collect();
        let mut result = Granted::default();
        for firing in claimed.firings {
            let lane = Lane { namespace: firing.namespace.clone(), key: firing.lane.clone() };
            let share = self.learn(&firing);
            // A redriven firing without attempts is a retry to the store although its attempt is
            // the first, so the slot that is held counts, not the number.
            let held = unused.get_mut(&lane).and_then(|left| {
                let kind = [Kind::of(&firing), Kind::First, Kind::Retry]
                    .into_iter()
                    .find(|kind| left.covers(Load::one(*kind)))?;
                Some((left, kind))
            });
            let Some((left, kind)) = held else {
                // More than was asked for: no slot is held for it.
                result.excess.push(firing);
                continue;
            };
            let still_unused = left.minus(Load::one(kind));
            let load = self.lanes.get(&lane).map_or(0, |state| state.load.sum());
            if load.saturating_sub(still_unused.sum()) > share.cap {
                // Its slot stays in `unused` and is given back below.
                result.excess.push(firing);
                continue;
            }
            *left = still_unused;
            result.firings.push((firing, kind));
        }
        let backlog = &mut self.backlogs[usize::from(shard.0)];
        for claim in claims {
            let left = unused.get(&claim.lane).copied().unwrap_or_default();
            let has_more = claimed.more.contains(&claim.lane);
            if !has_more {
                backlog.forget(&claim.lane);
            } else if !backlog.waits(&claim.lane) {
                result.look_again = true;
            }
            // What was planned under a cap of 1, because nothing was known of the namespace.
            if has_more && left.sum() == 0 {
                backlog.retry(&claim.lane);
            }
        }
        for (lane, left) in unused {
            self.give_back(&lane, left);
        }
        // With nothing granted, asking again at once would only spin.
        result.look_again &= !result.firings.is_empty();
        result
    }

    /// Frees the slot of an attempt that is settled. Answers the shards that may have use for it.
    pub(crate) fn free(&mut self, lane: &Lane, kind: Kind) -> Vec<ShardId> {
        self.give_back(lane, Load::one(kind));
        let mut woken = Vec::new();
        for (i, backlog) in self.backlogs.iter_mut().enumerate() {
            if backlog.freed(lane) {
                woken.push(ShardId(u16::try_from(i).unwrap_or(u16::MAX)));
            }
        }
        woken
    }

    /// The lanes of a namespace that hold or want something.
    pub(crate) fn loads(&self, namespace: &NamespaceName) -> Vec<LaneLoad> {
        let cap = self.shares.get(namespace).map(|share| share.cap);
        let mut loads: Vec<_> = self
            .lanes
            .iter()
            .filter(|(lane, _)| lane.namespace == *namespace)
            .map(|(lane, state)| LaneLoad {
                key: lane.key.clone(),
                in_flight: state.load.sum(),
                cap,
                state: self.activity(lane),
            })
            .collect();
        loads.sort_by(|a, b| a.key.cmp(&b.key));
        loads
    }

    /// How many lanes are in each activity, of those that hold something.
    pub(crate) fn census(&self) -> [(Activity, usize); 3] {
        Activity::ALL.map(|wanted| {
            let count = self
                .lanes
                .iter()
                .filter(|(lane, s)| s.load.sum() > 0 && self.activity(lane) == wanted)
                .count();
            (wanted, count)
        })
    }

    fn activity(&self, lane: &Lane) -> Activity {
        let mut limits = self.backlogs.iter().filter_map(|b| b.limit_of(lane));
        match limits.next() {
            None => Activity::Flowing,
            Some(share::Limit::Lane) => Activity::Capped,
            Some(share::Limit::Workers) => Activity::Starved,
        }
    }

    fn share(&self, namespace: &NamespaceName) -> Share {
        self.shares.get(namespace).copied().unwrap_or_default()
    }

    fn learn(&mut self, firing: &Firing) -> Share {
        let share = Share::of(&firing.settings);
        match self.shares.get_mut(&firing.namespace) {
            Some(known) => *known = share,
            None => {
                if self.shares.len() >= IDLE_REMEMBERED_MAX {
                    self.shares.clear();
                }
                self.shares.insert(firing.namespace.clone(), share);
            }
        }
        share
    }

    fn give_back(&mut self, lane: &Lane, load: Load) {
        self.workers.subtract(load);
        if let Some(state) = self.lanes.get_mut(lane) {
            state.load.subtract(load);
        }
        if self.lanes.len() > IDLE_REMEMBERED_MAX + self.workers_max {
            self.lanes.retain(|_, state| state.load.sum() > 0);
        }
    }
}
