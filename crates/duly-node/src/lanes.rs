//! Lanes: how many firings each may have under way, decided by free capacity. Pure: the clock is
//! handed in.
//!
//! Invariants, at every moment:
//!
//! * a lane holds at most its cap (`max_in_flight` of its namespace; where several nodes share the
//!   store, what this one was allotted of it), begins attempts no faster than
//!   its rate (`deliver_per_second`), and none while its breaker is open,
//! * all lanes together hold at most `workers_max`, retries at most half of that, and payloads of at most
//!   `bytes_max`, but for one in each claim,
//! * of each kind a namespace takes more only while it holds less than twice as many workers as are
//!   free for that kind, times its weight (the *dynamic threshold* of Choudhury and Hahne, 1998), and
//!   one of its lanes only a part of that: the greedy shrink each other and leave some for whoever has
//!   nothing yet, so a few dead receivers cannot take all workers,
//! * workers that are freed while lanes are starved of them go round by deficit round-robin over the
//!   namespaces, each for its weight,
//! * of a lane's slots each shard gets its part by how many firings wait there,
//! * within a lane retries hold at most half of its cap while there is more than one slot, and get
//!   every fourth slot at least: neither kind starves the other.
//!
//! A lane that got less than it wants waits in its shard's [`Backlog`]. The only caller is the node,
//! under one lock. `docs/internals/lanes.md` tells the whole of it.

use std::time::Duration;

use duly_core::{NamespaceName, destination::LaneKey, shard::ShardId};
use duly_store::{Claimed, Firing, Lane, ReadyLane};
use rustc_hash::FxHashMap;

use crate::Options;

mod allot;
mod backlog;
mod breaker;
mod bytes;
mod drr;
mod fallback;
mod known;
mod line;
mod plan;
mod share;
mod state;
mod view;

#[cfg(test)]
mod tests;

use allot::Allotments;
pub(crate) use allot::{AGAIN_AFTER, ASKS_MAX};
use backlog::{Backlog, Waiting, Wanted};
pub use breaker::BreakerState;
use breaker::{Breaker, Gate};
pub(crate) use breaker::{Pass, Reception};
use bytes::Bytes;
pub use fallback::FallbackLoad;
use fallback::{Fallbacks, is_diverted};
use known::Known;
use line::{CALLED_FOR, Place};
use plan::Plan;
pub(crate) use plan::{Permit, Planned, Receiver};
pub(crate) use share::Kind;
use share::{Demand, Limit, Load, Room, Share, Turn};
pub use view::{Activity, LaneLoad};
pub(crate) use view::{Census, Count, Listing};

/// Most starved lanes looked at in one step.
const LOOKS_MAX: usize = 4_096;
/// Wait of a lane that has attempts for its fallback beside those for its own receiver.
const SOON: Duration = Duration::from_millis(10);

/// What a claim brought, beside its firings.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    /// Firings that no slot is left for, because the cap has been lowered: to be released.
    pub(crate) excess: Vec<Firing>,
    /// Firings to be delivered, each with the slot it holds.
    pub(crate) firings: Vec<(Firing, Permit)>,
    /// Whether the shard should ask for ready lanes again at once.
    pub(crate) look_again: bool,
}

/// All push lanes of a node.
#[derive(Debug)]
pub(crate) struct Lanes {
    workers_max: usize,
    batch_max: usize,
    workers: Load,
    bytes: Bytes,
    lanes: Known,
    /// What the lanes of a namespace hold together; absent when nothing.
    namespaces: FxHashMap<NamespaceName, Load>,
    backlogs: Vec<Backlog>,
    fallbacks: Fallbacks,
    /// Where several nodes share the store: what this one was allotted of the lanes' limits.
    allotments: Option<Allotments>,
    /// A lane that is lost sight of, so that a test sees who notices.
    #[cfg(test)]
    pub(crate) lost: Option<Lane>,
}

impl Lanes {
    pub(crate) fn new(shards: u16, options: &Options) -> Self {
        let workers_max = options.workers_max;
        Self {
            workers_max: workers_max.max(1),
            batch_max: options.claim_batch_max.max(1),
            workers: Load::default(),
            bytes: Bytes::new(options.bytes_max),
            lanes: Known::new(workers_max),
            namespaces: FxHashMap::default(),
            backlogs: (0..shards).map(|_| Backlog::default()).collect(),
            fallbacks: Fallbacks::default(),
            allotments: None,
            #[cfg(test)]
            lost: None,
        }
    }

    /// The same where several nodes share the store, and limits are those of all together.
    #[must_use]
    pub(crate) fn shared(self) -> Self {
        Self { allotments: Some(Allotments::default()), ..self }
    }

    /// Lets no more lanes of each shard wait than these.
    #[cfg(test)]
    pub(crate) fn remember_waiting(&mut self, lanes: usize) {
        for backlog in &mut self.backlogs {
            backlog.waiting_max = lanes;
        }
    }

    /// Attempts under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.workers.sum()
    }

    /// Decides what to claim for lanes that have something, and holds the slots for it. What a lane
    /// wants and does not get is remembered in the backlog of its shard. A lane that is starved
    /// already keeps its turn.
    pub(crate) fn plan(
        &mut self,
        shard: ShardId,
        ready: Vec<ReadyLane>,
        now: Duration,
    ) -> Vec<Planned> {
        let mut plan = Plan::new(shard, now, self.batch_max);
        for ReadyLane { lane, first, retry, settings } in ready {
            let (demand, share) = (Demand::wanted(first, retry), Share::of(&settings));
            #[cfg(test)]
            if self.lost.as_ref() == Some(&lane) {
                continue;
            }
            let backlog = &mut self.backlogs[usize::from(shard.0)];
            if !backlog.renew_starved(&lane, demand, share) {
                let place = backlog.get(&lane).map(|waiting| waiting.place);
                self.plan_one(&mut plan, lane, Wanted { demand, share, place }, usize::MAX);
            }
        }
        plan.done()
    }

    /// Decides what to claim for lanes of a shard that waited: those with a slot of their own freed
    /// or whose moment has come, then starved ones in turn, for as long as there are workers. A lane
    /// that was not looked at keeps its turn.
    pub(crate) fn plan_waiting(&mut self, shard: ShardId, now: Duration) -> Vec<Planned> {
        let mut plan = Plan::new(shard, now, self.batch_max);
        let at = usize::from(shard.0);
        while plan.batch_left > 0
            && let Some((lane, waiting)) = self.backlogs[at].take_called(now)
        {
            self.plan_one(&mut plan, lane, waiting.wanted(), usize::MAX);
        }
        let looks = self.backlogs[at].take_looks().min(LOOKS_MAX);
        for looked in 0..looks {
            let is_full = self.workers.sum() >= self.workers_max || self.bytes.free() == 0;
            if is_full || plan.batch_left == 0 {
                // The claim may bring less than it asks for: then there are workers again.
                self.backlogs[at].owe_looks(looks - looked);
                break;
            }
            let Some((lane, waiting, credit)) = self.backlogs[at].take_starved() else {
                break;
            };
            let holds_none = self.lanes.get(&lane).is_none_or(|state| state.load.sum() == 0);
            let used = self.plan_one(&mut plan, lane.clone(), waiting.wanted(), credit);
            // A lane whose retries are denied must not stand before one with first attempts.
            let goes_on = waiting.demand.first > 0 || !self.backlogs[at].wants_first();
            if used == 0 && holds_none && goes_on {
                self.backlogs[at].deny(&lane);
            } else {
                self.backlogs[at].charge(used);
            }
        }
        plan.done()
    }

    /// When a lane of a shard that waits for a moment is to be planned, by the boot-time clock.
    pub(crate) fn next_at(&self, shard: ShardId) -> Option<Duration> {
        self.backlogs[usize::from(shard.0)].next_at()
    }

    /// Whether no more lanes of a shard can be remembered, so that the store need not name others.
    pub(crate) fn is_full(&self, shard: ShardId) -> bool {
        self.backlogs[usize::from(shard.0)].is_full()
    }

    /// Plans one lane; answers how much it got. `credit` is what its namespace's turn is good for,
    /// the largest number when it is not about turns.
    fn plan_one(&mut self, plan: &mut Plan, lane: Lane, wanted: Wanted, credit: usize) -> usize {
        let state = self.lanes.get(&lane).copied().unwrap_or_default();
        let Wanted { demand, share: whole, place } = wanted;
        let share = match &mut self.allotments {
            Some(allotments) => allotments.limit(&lane, whole, state.load, demand, plan.now),
            None => whole,
        };
        let (to, gate) = self.way(&lane, &state, share, plan.now);
        self.note_diverted(&lane, &state, share, plan.now);
        let waits = plan.is_for_another(&lane, to);
        let has_room = self.bytes.has_room(&lane.namespace, share);
        let (probes, rated) = match gate {
            Gate::ShutUntil(_) => (0, 0),
            Gate::Free => (usize::MAX, state.rate_left(share.rate, plan.now)),
            Gate::Probes(most) => (most, state.rate_left(share.rate, plan.now)),
        };
        let free = share.cap.saturating_sub(state.load.sum()).min(rated);
        let (place, turn) = self.turn(plan, &lane, place, demand, free);
        let room = Room {
            share,
            lane: state.load,
            namespace: self.namespaces.get(&lane.namespace).copied().unwrap_or_default(),
            workers: self.workers,
            workers_max: self.workers_max,
            turn: if credit == usize::MAX { Turn::None } else { Turn::Own },
            most: if waits || !has_room {
                0
            } else {
                probes.min(turn).min(credit).min(plan.batch_left)
            },
        };
        let allowed = room.allow(demand, state.last);
        let granted = allowed.slots;
        let got = granted.sum();
        let limit = match gate {
            Gate::ShutUntil(at) => Limit::Breaker(at),
            _ if waits => Limit::Breaker(plan.now + SOON),
            // Whatever attempt ends gives workers and bytes back.
            _ if !has_room => Limit::Workers,
            // With a fallback the others need not wait for the probe that begins now.
            Gate::Probes(_)
                if got > 0 && to == Receiver::Own && is_diverted(&state, share, plan.now) =>
            {
                Limit::Breaker(plan.now + SOON)
            }
            Gate::Probes(most) if got == most => Limit::Lane,
            _ if got == turn && turn < free => Limit::Turn(plan.now + CALLED_FOR),
            _ if got == rated => Limit::Rate(state.rate_next_at(share.rate, plan.now, got)),
            _ if got == credit => Limit::Workers,
            _ => allowed.limit,
        };
        let backlog = &mut self.backlogs[usize::from(plan.shard.0)];
        let place = place.after(got, demand.sum());
        let left = demand.minus(granted);
        backlog.remember(
            &lane,
            Waiting { demand: left, limit, share: whole, place, is_called: false },
        );
        if got == plan.batch_left && got < credit {
            // Only the size of the batch kept it from more.
            backlog.retry(&lane);
        }
        if got > 0 {
            self.workers.add(granted);
            self.namespaces.entry(lane.namespace.clone()).or_default().add(granted);
            let to_fallback = match to {
                Receiver::Own => None,
                Receiver::Fallback => Some(self.fallbacks.pass(&lane.namespace, got, plan.now)),
            };
            let state = self.lanes.entry(&lane);
            let pass = to_fallback.unwrap_or_else(|| state.breaker.pass(plan.now, got));
            let planned = state.begin(lane, granted, share, (to, pass), plan.now);
            state.share = Some(whole);
            plan.add(planned);
        } else if gate != Gate::Free
            && let Some(state) = self.lanes.get_mut(&lane)
        {
            state.share = Some(whole);
        }
        got
    }

    /// Returns a shard's place in the line for slots of a lane, and how many of those that are free it
    /// may have.
    fn turn(
        &mut self,
        plan: &Plan,
        lane: &Lane,
        own: Option<Place>,
        demand: Demand,
        free: usize,
    ) -> (Place, usize) {
        let shards = (0_u16..).map(ShardId).zip(&mut self.backlogs);
        let others = shards.filter(|(shard, _)| *shard != plan.shard);
        let mut others: Vec<_> = others.filter_map(|(_, backlog)| backlog.in_line(lane)).collect();
        line::turn(own, demand.sum(), free, &mut others, plan.now)
    }

    /// Gives back the slots of a claim that failed.
    pub(crate) fn unplan(&mut self, planned: &[Planned], now: Duration) {
        for planned in planned {
            self.give_back_planned(planned, planned.load(), now);
        }
    }

    /// Takes in what a claim brought: learns caps, gives back the slots that were held for more than
    /// there was.
    pub(crate) fn granted(
        &mut self,
        shard: ShardId,
        planned: &[Planned],
        claimed: Claimed,
        now: Duration,
    ) -> Granted {
        let mut unused: FxHashMap<Lane, (Load, Pass, Receiver)> =
            planned.iter().map(|p| (p.claim.lane.clone(), (p.load(), p.pass, p.to))).collect();
        let mut result = Granted::default();
        for firing in claimed.firings {
            let lane = Lane { namespace: firing.namespace.clone(), key: firing.lane.clone() };
            let share = Share::of(&firing.settings);
            // A redriven firing without attempts is a retry to the store although its attempt is
            // the first, so the slot that is held counts, not the number.
            let held = unused.get_mut(&lane).and_then(|(left, pass, to)| {
                let kind = [Kind::of(&firing), Kind::First, Kind::Retry]
                    .into_iter()
                    .find(|kind| left.covers(Load::one(*kind)))?;
                Some((left, Permit { kind, pass: *pass, to: *to, bytes: firing.bytes() }))
            });
            let Some((left, permit)) = held else {
                // More than was asked for: no slot is held for it.
                result.excess.push(firing);
                continue;
            };
            let still_unused = left.minus(Load::one(permit.kind));
            let load = self.lanes.get(&lane).map_or(0, |state| state.load.sum());
            if load.saturating_sub(still_unused.sum()) > share.cap {
                // Its slot stays in `unused` and is given back below.
                result.excess.push(firing);
                continue;
            }
            *left = still_unused;
            self.bytes.take(&lane.namespace, permit.bytes);
            result.firings.push((firing, permit));
        }
        let at = usize::from(shard.0);
        for planned in planned {
            let lane = &planned.claim.lane;
            let left = unused.get(lane).map_or(Load::default(), |(left, ..)| *left);
            self.give_back_planned(planned, left, now);
            let backlog = &mut self.backlogs[at];
            if !claimed.more.contains(lane) {
                backlog.forget(lane);
            } else if !backlog.waits(lane) {
                result.look_again = true;
            } else if left.sum() > 0 {
                // The claim ended before its slots were used: they are free for it again.
                if !result.firings.is_empty() {
                    backlog.retry(lane);
                } else if self.lanes.get(lane).is_none_or(|state| state.load.sum() == 0) {
                    // With no slot of its own nothing would call it; the next walk brings it back.
                    backlog.forget_capped(lane);
                }
            }
        }
        // With nothing granted, asking again at once would only spin.
        result.look_again &= !result.firings.is_empty();
        result
    }

    /// Learns how an attempt went. Answers the shards that may have use for it.
    pub(crate) fn report(
        &mut self,
        lane: &Lane,
        permit: Permit,
        reception: Reception,
        now: Duration,
    ) -> Vec<ShardId> {
        let pass = permit.pass;
        if permit.to == Receiver::Fallback {
            let report = |breaker: &mut Breaker| breaker.report(pass, reception, now);
            self.fallbacks.change(&lane.namespace, report);
            return Vec::new();
        }
        // The overflow lane has many receivers: one that is dead must not shut out the others.
        let known = self.lanes.get_mut(lane).filter(|_| lane.key != LaneKey::Overflow);
        let Some(state) = known else {
            return Vec::new();
        };
        state.breaker.report(pass, reception, now);
        if state.is_diverted && state.breaker.opened_at().is_none() {
            state.is_diverted = false;
            self.fallbacks.diverted -= 1;
        }
        if matches!(pass, Pass::Free(_)) && state.breaker.state() == BreakerState::Closed {
            return Vec::new();
        }
        match reception {
            Reception::Good => self.shards_where(|backlog| backlog.receiver_is_back(lane)),
            Reception::Bad | Reception::Unknown => Vec::new(),
        }
    }

    /// Frees the slot of an attempt that is settled. Answers the shards that may have use for it.
    pub(crate) fn free(&mut self, lane: &Lane, permit: Permit, now: Duration) -> Vec<ShardId> {
        self.bytes.give_back(&lane.namespace, permit.bytes);
        self.give_back(lane, Load::one(permit.kind), now);
        self.shards_where(|backlog| backlog.freed(lane))
    }

    fn shards_where(&mut self, mut wants: impl FnMut(&mut Backlog) -> bool) -> Vec<ShardId> {
        let shards = (0_u16..).map(ShardId).zip(&mut self.backlogs);
        shards.filter_map(|(shard, backlog)| wants(backlog).then_some(shard)).collect()
    }

    /// Gives back what was held for a claim and not used.
    fn give_back_planned(&mut self, planned: &Planned, load: Load, now: Duration) {
        if let Some(state) = self.lanes.get_mut(&planned.claim.lane) {
            state.give_back(planned, load.sum());
        }
        if matches!(planned.pass, Pass::Probe(_)) {
            let (pass, to) = (planned.pass, planned.to);
            let permit = Permit { kind: Kind::First, pass, to, bytes: 0 };
            for _ in 0..load.sum() {
                self.report(&planned.claim.lane, permit, Reception::Unknown, now);
            }
        }
        self.give_back(&planned.claim.lane, load, now);
    }

    fn give_back(&mut self, lane: &Lane, load: Load, now: Duration) {
        if load.sum() == 0 {
            return;
        }
        self.workers.subtract(load);
        if let Some(held) = self.namespaces.get_mut(&lane.namespace) {
            held.subtract(load);
            if held.sum() == 0 {
                self.namespaces.remove(&lane.namespace);
            }
        }
        if let Some(state) = self.lanes.get_mut(lane) {
            state.load.subtract(load);
        }
        self.fallbacks.diverted -= self.lanes.slots_returned(now);
    }
}
