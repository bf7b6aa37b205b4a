//! The lanes of one shard that want more than they got.
//!
//! Each lane is indexed by the event that can help it, so an event needs a check of few lanes, never of
//! all:
//!
//! 1. A slot of its own: the lane is only in `waiting`.
//! 2. Any worker: it is also in `starved`, in round-robin order by the weight of its namespace.
//! 3. A time: it is also in `timed`.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use duly_core::NamespaceName;
use duly_store::Lane;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    drr::Drr,
    fair_share::{Demand, LaneLimits, WaitReason},
    shard_queue::QueuePlace,
};

/// Starved lanes planned for one freed slot.
const STARVED_PER_WAKE: usize = 8;
/// Stale queue entries (of lanes that no longer wait) that are tolerated before a clean-up.
const STALE_MAX: usize = 64;
/// Most lanes that wait at once; the store lists the others again when these are done.
const WAITING_MAX: usize = 1 << 18;

/// The waiting lanes, each with its demand.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: FxHashMap<Lane, Waiting>,
    /// Most lanes that wait at once.
    pub(super) waiting_max: usize,
    /// Waiting lanes that are short of workers.
    starved_count: usize,
    /// Those of them that want a worker for a first attempt.
    starved_of_first: usize,
    /// Lanes short of workers, each at most once. May contain lanes that no longer wait, or that now
    /// wait for another event.
    starved: Drr<NamespaceName, Lane>,
    /// The lanes in `starved`.
    queued: FxHashSet<Lane>,
    /// Lanes to be planned at once.
    next: VecDeque<Lane>,
    /// Lanes that wait for a time; exactly those whose limit is a time.
    timed: BTreeSet<(Duration, Lane)>,
    /// Starved lanes that are still to be planned.
    starved_to_plan: usize,
}

/// The demand of a waiting lane, and the limit that stops it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) demand: Demand,
    pub(super) reason: WaitReason,
    pub(super) limits: LaneLimits,
    /// Its shard's place in the queue for slots of the lane.
    pub(super) place: QueuePlace,
    /// `true`: it is already in the list of lanes to be planned next.
    pub(super) is_marked: bool,
}

/// The demand of a lane, with its limits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) demand: Demand,
    pub(super) limits: LaneLimits,
    /// Its shard's place, if it is queued already.
    pub(super) place: Option<QueuePlace>,
}

impl Waiting {
    /// Returns the demand that is left.
    pub(super) const fn wanted(self) -> Wanted {
        Wanted { demand: self.demand, limits: self.limits, place: Some(self.place) }
    }

    /// Returns `true` if a free worker would start a first attempt.
    fn is_starved_of_first(self) -> bool {
        self.reason == WaitReason::Workers && self.demand.first > 0
    }
}

impl Backlog {
    pub(super) fn new() -> Self {
        Self { waiting_max: WAITING_MAX, ..Self::default() }
    }

    /// Stores the demand that a lane has left; a lane without demand is removed. A lane that is in the
    /// round-robin queue keeps its place.
    pub(super) fn remember(&mut self, lane: &Lane, waiting: Waiting) {
        self.remove(lane);
        if waiting.demand.sum() == 0 || self.waiting.len() >= self.waiting_max {
            return;
        }
        self.waiting.insert(lane.clone(), waiting);
        self.starved_count += usize::from(waiting.reason == WaitReason::Workers);
        self.starved_of_first += usize::from(waiting.is_starved_of_first());
        if let Some(at) = waiting.reason.until() {
            self.timed.insert((at, lane.clone()));
        }
        if waiting.reason == WaitReason::Workers && self.queued.insert(lane.clone()) {
            self.starved.push(&lane.namespace, lane.clone(), waiting.limits.weight);
            self.drop_stale();
        }
    }

    /// Removes a lane: it has nothing claimable any more.
    pub(super) fn remove(&mut self, lane: &Lane) {
        let Some(gone) = self.waiting.remove(lane) else {
            return;
        };
        self.starved_count -= usize::from(gone.reason == WaitReason::Workers);
        self.starved_of_first -= usize::from(gone.is_starved_of_first());
        if let Some(at) = gone.reason.until() {
            self.timed.remove(&(at, lane.clone()));
        }
    }

    /// Updates the demand of a starved lane, and schedules one planning of a starved lane. Returns
    /// `true` if the lane is starved. Its place in the queue does not change.
    ///
    /// Returns `false` for a lane that waited with retries only and now has a first attempt. It must be
    /// planned at once, because the limit of retries does not apply to first attempts.
    pub(super) fn update_starved(
        &mut self,
        lane: &Lane,
        demand: Demand,
        limits: LaneLimits,
    ) -> bool {
        let known =
            self.waiting.get_mut(lane).filter(|waiting| waiting.reason == WaitReason::Workers);
        let Some(waiting) = known else {
            return false;
        };
        if waiting.demand.first == 0 && demand.first > 0 {
            return false;
        }
        let before = waiting.is_starved_of_first();
        (waiting.demand, waiting.limits) = (demand, limits);
        if before && !waiting.is_starved_of_first() {
            self.starved_of_first -= 1;
        }
        self.add_starved_to_plan(1);
        true
    }

    /// Returns the number of lanes that are short of workers.
    pub(super) const fn starved_count(&self) -> usize {
        self.starved_count
    }

    /// Returns the queue of a namespace's lanes that are short of workers, without its first `skip`
    /// entries. A stale entry comes with `None`.
    pub(super) fn starved_of(
        &self,
        namespace: &NamespaceName,
        skip: usize,
    ) -> impl Iterator<Item = (&Lane, Option<&Waiting>)> {
        let queued = self.starved.items_of(namespace, skip);
        queued.map(|lane| {
            let waiting = self.waiting.get(lane);
            (lane, waiting.filter(|waiting| waiting.reason == WaitReason::Workers))
        })
    }

    /// Returns `true` if a lane waits for a worker to start a first attempt.
    pub(super) const fn has_starved_first(&self) -> bool {
        self.starved_of_first > 0
    }

    /// Returns the demand of a waiting lane, and the reason of its wait.
    pub(super) fn get(&self, lane: &Lane) -> Option<&Waiting> {
        self.waiting.get(lane)
    }

    /// Returns `true` if no more lanes can be stored.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.waiting_max
    }

    /// Marks a waiting lane to be planned next.
    pub(super) fn plan_next(&mut self, lane: &Lane) {
        self.mark(lane, |_| true);
    }

    /// Marks a lane to be planned next if its limit matches; returns `true` if it does.
    fn mark(&mut self, lane: &Lane, is_one: impl FnOnce(WaitReason) -> bool) -> bool {
        let Some(waiting) = self.waiting.get_mut(lane).filter(|w| is_one(w.reason)) else {
            return false;
        };
        if !std::mem::replace(&mut waiting.is_marked, true) {
            self.next.push_back(lane.clone());
        }
        true
    }

    /// Handles a freed slot of `lane`. Returns `true` if a lane of this shard may want it.
    pub(super) fn slot_freed(&mut self, lane: &Lane) -> bool {
        // A starved lane gets its next slot in round-robin order, even if it freed the slot itself.
        let own = self
            .mark(lane, |reason| matches!(reason, WaitReason::Lane | WaitReason::ShardQueue(_)));
        if !self.starved.is_empty() {
            self.add_starved_to_plan(STARVED_PER_WAKE);
        }
        own || !self.starved.is_empty()
    }

    /// Returns the place and the demand of a lane that waits for slots of its own, or for its rate.
    pub(super) fn queue_place(&mut self, lane: &Lane) -> Option<(&mut QueuePlace, usize)> {
        let waiting = self.waiting.get_mut(lane)?;
        let is_queued = matches!(
            waiting.reason,
            WaitReason::Lane | WaitReason::ShardQueue(_) | WaitReason::Rate(_)
        );
        is_queued.then_some((&mut waiting.place, waiting.demand.sum()))
    }

    /// Handles a success of the receiver of `lane`. Returns `true` if the lane waits for it here.
    pub(super) fn receiver_recovered(&mut self, lane: &Lane) -> bool {
        self.mark(lane, |reason| {
            matches!(reason, WaitReason::Breaker(_) | WaitReason::Lane | WaitReason::ShardQueue(_))
        })
    }

    /// Takes a lane to be planned at once, because an event of its own occurred or its time has come. A
    /// starved lane keeps its place: its queue entry stays.
    pub(super) fn take_marked(&mut self, now: Duration) -> Option<(Lane, Waiting)> {
        while let Some(lane) = self.next.pop_front() {
            if let Some(taken) = self.take(lane) {
                return Some(taken);
            }
        }
        let (_, lane) = self.timed.first().filter(|(at, _)| *at <= now)?.clone();
        self.take(lane)
    }

    /// Returns the time at which the next lane must be planned.
    pub(super) fn next_at(&self) -> Option<Duration> {
        self.timed.first().map(|(at, _)| *at)
    }

    /// Takes the number of starved lanes to plan for the events since the last call.
    pub(super) fn take_starved_to_plan(&mut self) -> usize {
        std::mem::take(&mut self.starved_to_plan)
    }

    /// Adds starved lanes to be planned.
    pub(super) const fn add_starved_to_plan(&mut self, count: usize) {
        self.starved_to_plan = self.starved_to_plan.saturating_add(count);
    }

    /// Takes the starved lane whose turn it is, and the most slots it may take. The caller must report
    /// the number of slots that the lane got to [`Self::charge`].
    pub(super) fn take_starved(&mut self) -> Option<(Lane, Waiting, usize)> {
        while let Some(turn) = self.starved.next() {
            self.queued.remove(&turn.item);
            match self.waiting.get(&turn.item) {
                Some(waiting) if waiting.reason == WaitReason::Workers => {
                    let (lane, waiting) = self.take(turn.item)?;
                    return Some((lane, waiting, turn.credit));
                }
                _ => self.starved.skip(),
            }
        }
        None
    }

    /// Ends the turn of the starved lane that was taken last and got nothing, because its namespace
    /// holds its part already. The lane is the first of its namespace again.
    pub(super) fn deny(&mut self, lane: &Lane) {
        if self.queued.contains(lane) {
            self.starved.deny();
        } else {
            self.starved.charge(0);
        }
    }

    /// Charges the slots that the starved lane got whose turn it was.
    pub(super) fn charge(&mut self, used: usize) {
        self.starved.charge(used);
    }

    /// Removes stale entries from the queue when there are too many. They belong to lanes that got what
    /// they wanted in another way.
    fn drop_stale(&mut self) {
        if self.starved.len() > 4 * self.waiting.len() + STALE_MAX {
            let (waiting, queued) = (&self.waiting, &mut self.queued);
            self.starved.retain(|lane| {
                let waits = waiting.contains_key(lane);
                if !waits {
                    queued.remove(lane);
                }
                waits
            });
        }
    }

    fn take(&mut self, lane: Lane) -> Option<(Lane, Waiting)> {
        let waiting = *self.waiting.get(&lane)?;
        self.remove(&lane);
        Some((lane, waiting))
    }
}
