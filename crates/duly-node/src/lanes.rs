//! The scheduler of push lanes: decides from free capacity how many firings each lane may claim. Pure:
//! the caller passes the time.
//!
//! How it works: [`Lanes::plan`] and [`Lanes::plan_waiting`] reserve slots before a claim, and
//! [`Lanes::granted`] releases those that the claim did not use. A lane that got less than it wants
//! waits in its shard's [`Backlog`]. The only caller is the node, under one lock.
//! `docs/internals/lanes.md` has the full description.
//!
//! Invariants, at every moment:
//!
//! 1. A lane holds at most its cap (`max_in_flight` of its namespace; where several nodes share the
//!    store, this node's quota of it).
//! 2. A lane starts attempts no faster than its rate (`deliver_per_second`), and none while its breaker
//!    is open.
//! 3. All lanes together hold at most `workers_max` slots. Retries hold at most half of that.
//! 4. The payloads of all lanes together hold at most `bytes_max`, except for one firing in each claim.
//! 5. A namespace gets more slots of a kind only while it holds less than twice the free workers of that
//!    kind, times its weight. This is the *dynamic threshold* of Choudhury and Hahne (1998). One of its
//!    lanes gets only a part of that. Greedy namespaces shrink each other and leave workers for new
//!    ones, so a few dead receivers cannot take all workers.
//! 6. Workers that are freed while lanes are starved of them are shared by deficit round-robin over the
//!    namespaces, each for its weight.
//! 7. The slots of a lane are shared between its shards by the number of firings that wait in each.
//! 8. Within a lane retries hold at most half of the cap, rounded up, while there is more than one slot.
//!    They get a quarter of the free slots, rounded down, and take turns for a single one. So neither kind
//!    starves the other.

use std::time::Duration;

use duly_core::{NamespaceName, destination::LaneKey, shard::ShardId};
use duly_sink::ReceiverHealth;
use duly_store::{Claimed, Firing, Lane, ReadyLane};
use rustc_hash::FxHashMap;

use crate::Options;

mod backlog;
mod breaker;
mod bytes;
mod drr;
mod fair_share;
mod fallback;
mod known;
mod plan;
mod pools;
mod quotas;
mod shard_queue;
mod view;

#[cfg(test)]
mod tests;

use backlog::{Backlog, Waiting, Wanted};
pub(crate) use breaker::Admission;
use breaker::{AdmissionLimit, Breaker};
use bytes::AttemptBytes;
pub use duly_core::lane_states::{BreakerState, LaneActivity};
pub(crate) use fair_share::AttemptKind;
use fair_share::{Demand, LaneCapacity, LaneLimits, Load, RoundRobinTurn, WaitReason};
pub use fallback::FallbackLoad;
use fallback::{Fallbacks, is_diverted};
use known::KnownLanes;
use plan::Plan;
pub(crate) use plan::{Permit, Planned, Receiver};
pub(crate) use pools::Pools;
use quotas::LaneQuotas;
pub(crate) use quotas::{RENEW_AFTER, REQUESTS_MAX};
use shard_queue::{QueuePlace, RESERVED_FOR};
pub use view::LaneLoad;
pub(crate) use view::{LaneCount, LaneListing, LaneMetrics};

/// Most starved lanes planned in one call.
const STARVED_PLANNED_MAX: usize = 4_096;
/// Wait of a lane that has attempts both for its own receiver and for its fallback.
const SOON: Duration = Duration::from_millis(10);

/// The result of a claim.
#[derive(Debug, Default)]
pub(crate) struct AppliedClaim {
    /// Firings without a slot, because the cap has been lowered: to be released.
    pub(crate) excess: Vec<Firing>,
    /// Firings to be delivered, each with the slot that it holds.
    pub(crate) firings: Vec<(Firing, Permit)>,
    /// `true`: the shard should poll for ready lanes again at once.
    pub(crate) poll_again: bool,
}

/// All push lanes of a node.
#[derive(Debug)]
pub(crate) struct Lanes {
    workers_max: usize,
    batch_max: usize,
    workers: Load,
    bytes: AttemptBytes,
    lanes: KnownLanes,
    /// Slots that the lanes of a namespace hold together; absent when none.
    namespaces: FxHashMap<NamespaceName, Load>,
    backlogs: Vec<Backlog>,
    fallbacks: Fallbacks,
    /// This node's quotas of the lanes' limits; `None` if the node has the store for itself.
    quotas: Option<LaneQuotas>,
    /// A lane that `plan` skips, so that a test can check that the auditor finds it.
    #[cfg(test)]
    pub(crate) lost: Option<Lane>,
}

impl Lanes {
    /// `is_shared`: several nodes share the store, and the limits apply to all of them together.
    pub(crate) fn new(shards: u16, options: &Options, is_shared: bool) -> Self {
        let workers_max = options.workers_max;
        Self {
            workers_max: workers_max.max(1),
            batch_max: options.claim_batch_max.max(1),
            workers: Load::default(),
            bytes: AttemptBytes::new(options.bytes_max),
            lanes: KnownLanes::new(workers_max),
            namespaces: FxHashMap::default(),
            backlogs: (0..shards).map(|_| Backlog::new()).collect(),
            fallbacks: Fallbacks::default(),
            quotas: is_shared.then(LaneQuotas::default),
            #[cfg(test)]
            lost: None,
        }
    }

    /// Returns the number of attempts under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.workers.sum()
    }

    /// Decides how many firings to claim for ready lanes, and reserves the slots. The demand that a lane
    /// does not get is kept in the backlog of its shard. A lane that is starved already keeps its place
    /// in the round-robin.
    pub(crate) fn plan(
        &mut self,
        shard: ShardId,
        ready: Vec<ReadyLane>,
        now: Duration,
    ) -> Vec<Planned> {
        let mut plan = Plan::new(shard, now, self.batch_max);
        for ReadyLane { lane, first, retry, settings } in ready {
            let (demand, limits) = (Demand::wanted(first, retry), LaneLimits::of(&settings));
            #[cfg(test)]
            if self.lost.as_ref() == Some(&lane) {
                continue;
            }
            let backlog = &mut self.backlogs[usize::from(shard.0)];
            if !backlog.update_starved(&lane, demand, limits) {
                let place = backlog.get(&lane).map(|waiting| waiting.place);
                self.plan_one(&mut plan, lane, Wanted { demand, limits, place }, usize::MAX);
            }
        }
        plan.planned
    }

    /// Decides how many firings to claim for the waiting lanes of a shard. Lanes that were called come
    /// first: a slot of their own was freed, or their time has come. Then starved lanes follow in
    /// round-robin order, while there are workers. A lane that was not planned keeps its place.
    pub(crate) fn plan_waiting(&mut self, shard: ShardId, now: Duration) -> Vec<Planned> {
        let mut plan = Plan::new(shard, now, self.batch_max);
        let at = usize::from(shard.0);
        while plan.batch_left > 0
            && let Some((lane, waiting)) = self.backlogs[at].take_marked(now)
        {
            self.plan_one(&mut plan, lane, waiting.wanted(), usize::MAX);
        }
        let starved_to_plan = self.backlogs[at].take_starved_to_plan().min(STARVED_PLANNED_MAX);
        for visited in 0..starved_to_plan {
            let is_full = self.workers.sum() >= self.workers_max || self.bytes.free() == 0;
            if is_full || plan.batch_left == 0 {
                // The claim may use fewer workers than it reserves: then there are workers again.
                self.backlogs[at].add_starved_to_plan(starved_to_plan - visited);
                break;
            }
            let Some((lane, waiting, credit)) = self.backlogs[at].take_starved() else {
                break;
            };
            let holds_none = self.lanes.get(&lane).is_none_or(|state| state.load.sum() == 0);
            let used = self.plan_one(&mut plan, lane.clone(), waiting.wanted(), credit);
            // A lane that wants retries only, and gets none, must not block one with first attempts.
            let may_deny = waiting.demand.first > 0 || !self.backlogs[at].has_starved_first();
            if used == 0 && holds_none && may_deny {
                self.backlogs[at].deny(&lane);
            } else {
                self.backlogs[at].charge(used);
            }
        }
        plan.planned
    }

    /// Returns the time at which the next waiting lane of a shard must be planned, by the boot-time
    /// clock.
    pub(crate) fn next_at(&self, shard: ShardId) -> Option<Duration> {
        self.backlogs[usize::from(shard.0)].next_at()
    }

    /// Returns `true` if the backlog of a shard is full, so that the store need not list more lanes.
    pub(crate) fn is_full(&self, shard: ShardId) -> bool {
        self.backlogs[usize::from(shard.0)].is_full()
    }

    /// Plans one lane and returns the number of slots it got. `credit` is the round-robin credit of its
    /// namespace, or `usize::MAX` if the lane is not planned by round-robin.
    fn plan_one(&mut self, plan: &mut Plan, lane: Lane, wanted: Wanted, credit: usize) -> usize {
        let state = self.lanes.get(&lane).copied().unwrap_or_default();
        let Wanted { demand, limits: whole, place } = wanted;
        let limits = match &mut self.quotas {
            Some(quotas) => quotas.apply_quota(&lane, whole, state.load, demand, plan.now),
            None => whole,
        };
        let (to, admitted) = self.route(&lane, &state, limits, demand, plan.now);
        self.update_diverted(&lane, &state, limits, plan.now);
        let waits = plan.is_for_another(&lane, to);
        let has_capacity = self.bytes.has_capacity(&lane.namespace, limits);
        let rate_left = state.rate_left(limits.rate, plan.now);
        let (admissible, last, rated) = match admitted {
            AdmissionLimit::OpenUntil(_) => (Demand::default(), state.last, 0),
            AdmissionLimit::Free => (demand, state.last, rate_left),
            // A retry failed before, so it must not be the probe while a first attempt is due.
            AdmissionLimit::Probes(probes) => (probes, AttemptKind::Retry, rate_left),
        };
        let free = limits.cap.saturating_sub(state.load.sum()).min(rated);
        let (place, queue_slots) = self.allowed_slots(plan, &lane, place, demand, free);
        let capacity = LaneCapacity {
            limits,
            lane: state.load,
            namespace: self.namespaces.get(&lane.namespace).copied().unwrap_or_default(),
            workers: self.workers,
            workers_max: self.workers_max,
            turn: if credit == usize::MAX { RoundRobinTurn::None } else { RoundRobinTurn::Own },
            most: if waits || !has_capacity {
                0
            } else {
                queue_slots.min(credit).min(plan.batch_left)
            },
        };
        let allowed = capacity.allow(admissible, last);
        let granted = allowed.slots;
        let got = granted.sum();
        let reason = match admitted {
            AdmissionLimit::OpenUntil(at) => WaitReason::Breaker(at),
            _ if waits => WaitReason::Breaker(plan.now + SOON),
            // Any attempt that ends frees workers and bytes.
            _ if !has_capacity => WaitReason::Workers,
            // With a fallback, the other firings need not wait for the result of this probe.
            AdmissionLimit::Probes(_)
                if got > 0 && to == Receiver::Own && is_diverted(&state, limits, plan.now) =>
            {
                WaitReason::Breaker(plan.now + SOON)
            }
            AdmissionLimit::Probes(probes) if granted == probes => WaitReason::Lane,
            _ if got == queue_slots && queue_slots < free => {
                WaitReason::ShardQueue(plan.now + RESERVED_FOR)
            }
            _ if got == rated => WaitReason::Rate(state.rate_next_at(limits.rate, plan.now, got)),
            _ if got == credit => WaitReason::Workers,
            _ => allowed.reason,
        };
        let backlog = &mut self.backlogs[usize::from(plan.shard.0)];
        let place = place.after(got, demand.sum());
        let left = demand.minus(granted);
        backlog.remember(
            &lane,
            Waiting { demand: left, reason, limits: whole, place, is_marked: false },
        );
        if got == plan.batch_left && got < credit {
            // Only the size of the batch limited it.
            backlog.plan_next(&lane);
        }
        if got > 0 {
            self.workers.add(granted);
            self.namespaces.entry(lane.namespace.clone()).or_default().add(granted);
            let to_fallback = match to {
                Receiver::Own => None,
                Receiver::Fallback => {
                    Some(self.fallbacks.admit(&lane.namespace, granted, plan.now))
                }
            };
            let state = self.lanes.entry(&lane);
            let admission = to_fallback.unwrap_or_else(|| state.breaker.admit(plan.now, granted));
            let planned = state.reserve(lane, granted, limits, (to, admission), plan.now);
            state.limits = Some(whole);
            plan.add(planned);
        } else if admitted != AdmissionLimit::Free
            && let Some(state) = self.lanes.get_mut(&lane)
        {
            state.limits = Some(whole);
        }
        got
    }

    /// Returns a shard's place in the queue for the slots of a lane, and how many of the free slots it
    /// may take.
    fn allowed_slots(
        &mut self,
        plan: &Plan,
        lane: &Lane,
        own: Option<QueuePlace>,
        demand: Demand,
        free: usize,
    ) -> (QueuePlace, usize) {
        let shards = (0_u16..).map(ShardId).zip(&mut self.backlogs);
        let others = shards.filter(|(shard, _)| *shard != plan.shard);
        let mut others: Vec<_> =
            others.filter_map(|(_, backlog)| backlog.queue_place(lane)).collect();
        shard_queue::allowed_slots(own, demand.sum(), free, &mut others, plan.now)
    }

    /// Releases the slots of a claim that failed.
    pub(crate) fn unplan(&mut self, planned: &[Planned], now: Duration) {
        for planned in planned {
            self.release_planned(planned, planned.load(), now);
        }
    }

    /// Applies the result of a claim: learns caps, and releases the slots that no firing uses.
    pub(crate) fn apply_claim(
        &mut self,
        shard: ShardId,
        planned: &[Planned],
        claimed: Claimed,
        now: Duration,
    ) -> AppliedClaim {
        let mut unused: FxHashMap<Lane, (Load, Admission, Receiver)> =
            planned.iter().map(|p| (p.claim.lane.clone(), (p.load(), p.admission, p.to))).collect();
        let mut result = AppliedClaim::default();
        for firing in claimed.firings {
            let lane = Lane { namespace: firing.namespace.clone(), key: firing.lane.clone() };
            let limits = LaneLimits::of(&firing.settings);
            // The store treats a redriven firing as a retry, although its attempt number is 1. So the
            // kind of the reserved slot counts, not the attempt number.
            let held = unused.get_mut(&lane).and_then(|(left, admission, to)| {
                let kind =
                    [AttemptKind::of(firing.attempt), AttemptKind::First, AttemptKind::Retry]
                        .into_iter()
                        .find(|kind| left.covers(Load::one(*kind)))?;
                Some((left, Permit { kind, admission: *admission, to: *to, bytes: firing.bytes() }))
            });
            let Some((left, permit)) = held else {
                // The claim returned more than it was asked for: no slot is reserved for this firing.
                result.excess.push(firing);
                continue;
            };
            let still_unused = left.minus(Load::one(permit.kind));
            let load = self.lanes.get(&lane).map_or(0, |state| state.load.sum());
            if load.saturating_sub(still_unused.sum()) > limits.cap {
                // Its slot stays in `unused` and is released below.
                result.excess.push(firing);
                continue;
            }
            *left = still_unused;
            self.bytes.add(&lane.namespace, permit.bytes);
            result.firings.push((firing, permit));
        }
        let at = usize::from(shard.0);
        for planned in planned {
            let lane = &planned.claim.lane;
            let left = unused.get(lane).map_or(Load::default(), |(left, ..)| *left);
            self.release_planned(planned, left, now);
            let backlog = &mut self.backlogs[at];
            let reason = backlog.get(lane).map(|waiting| waiting.reason);
            if !claimed.more.contains(lane) {
                backlog.remove(lane);
            } else if reason.is_none() {
                result.poll_again = true;
            } else if left.sum() > 0 {
                // The claim ended before its slots were used: the lane may use them again.
                if !result.firings.is_empty() {
                    backlog.plan_next(lane);
                } else if self.lanes.get(lane).is_none_or(|state| state.load.sum() == 0)
                    && reason == Some(WaitReason::Lane)
                {
                    // Without a slot of its own nothing would call it; the next walk of the store's list
                    // finds it again.
                    backlog.remove(lane);
                }
            }
        }
        // If nothing was granted, polling again at once would only spin.
        result.poll_again &= !result.firings.is_empty();
        result
    }

    /// Reports the result of an attempt to the breaker. Returns the shards that may start more.
    pub(crate) fn report(
        &mut self,
        lane: &Lane,
        permit: Permit,
        health: ReceiverHealth,
        now: Duration,
    ) -> Vec<ShardId> {
        let Permit { admission, kind, .. } = permit;
        if permit.to == Receiver::Fallback {
            let report = |breaker: &mut Breaker| breaker.report(admission, kind, health, now);
            self.fallbacks.change(&lane.namespace, report);
            return Vec::new();
        }
        // The overflow lane has many receivers: one dead receiver must not stop deliveries to the
        // others.
        let known = self.lanes.get_mut(lane).filter(|_| lane.key != LaneKey::Overflow);
        let Some(state) = known else {
            return Vec::new();
        };
        state.breaker.report(admission, kind, health, now);
        if state.is_diverted && state.breaker.opened_at().is_none() {
            state.is_diverted = false;
            self.fallbacks.diverted -= 1;
        }
        if matches!(admission, Admission::Free(_)) && state.breaker.state() == BreakerState::Closed
        {
            return Vec::new();
        }
        match health {
            ReceiverHealth::Good => self.shards_where(|backlog| backlog.receiver_recovered(lane)),
            ReceiverHealth::Silent | ReceiverHealth::Overloaded | ReceiverHealth::Unknown => {
                Vec::new()
            }
        }
    }

    /// Frees the slot of an attempt that is settled. Returns the shards that may use it.
    pub(crate) fn free(&mut self, lane: &Lane, permit: Permit, now: Duration) -> Vec<ShardId> {
        self.bytes.release(&lane.namespace, permit.bytes);
        self.release(lane, Load::one(permit.kind), now);
        self.shards_where(|backlog| backlog.slot_freed(lane))
    }

    fn shards_where(&mut self, mut wants: impl FnMut(&mut Backlog) -> bool) -> Vec<ShardId> {
        let shards = (0_u16..).map(ShardId).zip(&mut self.backlogs);
        shards.filter_map(|(shard, backlog)| wants(backlog).then_some(shard)).collect()
    }

    /// Releases slots that were reserved for a claim and not used.
    fn release_planned(&mut self, planned: &Planned, load: Load, now: Duration) {
        if let Some(state) = self.lanes.get_mut(&planned.claim.lane) {
            state.release_rate(planned, load.sum());
        }
        if matches!(planned.admission, Admission::Probe(_)) {
            let (admission, to) = (planned.admission, planned.to);
            let unused = [(AttemptKind::First, load.first), (AttemptKind::Retry, load.retry)];
            for (kind, count) in unused {
                let permit = Permit { kind, admission, to, bytes: 0 };
                for _ in 0..count {
                    self.report(&planned.claim.lane, permit, ReceiverHealth::Unknown, now);
                }
            }
        }
        self.release(&planned.claim.lane, load, now);
    }

    fn release(&mut self, lane: &Lane, load: Load, now: Duration) {
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
