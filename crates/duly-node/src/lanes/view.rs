//! The lanes as seen from outside: metrics, lists and audits.
//!
//! Walks over many lanes run in slices of [`SLICE`], each under its own lock. So their result is not a
//! snapshot of one moment if lanes come and go meanwhile.

use std::{ops::Bound, time::Duration};

use duly_core::{NamespaceName, destination::LaneKey, shard::ShardId};
use duly_store::Lane;

use super::{
    BreakerState, LaneActivity, Lanes,
    backlog::Backlog,
    fair_share::{Demand, WaitReason},
    fallback::is_diverted,
    plan::LaneState,
};

/// A timed lane that is overdue by more than this counts as neglected.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);

/// Lanes that a walk visits under one lock.
pub(super) const SLICE: usize = 256;

/// A push lane as seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneLoad {
    /// Key of the lane within its namespace.
    pub key: LaneKey,
    /// Attempts under way, including those not yet settled.
    pub in_flight: usize,
    /// Retries among the attempts under way.
    pub retries_in_flight: usize,
    /// Most attempts under way at once, if known.
    pub cap: Option<usize>,
    /// Most attempts started per second, if there is a limit.
    pub per_second: Option<u32>,
    /// Firings that the lane wants and does not get, approximately.
    pub backlog: usize,
    /// LaneActivity of the lane.
    pub state: LaneActivity,
    /// `true`: its firings go to the namespace's fallback now.
    pub diverted: bool,
    /// State of its breaker.
    pub breaker: BreakerState,
    /// Failures in a row that the breaker has counted.
    pub failures: u32,
    /// Time until an open breaker admits the next probe.
    pub next_probe_in: Option<Duration>,
}

/// The number of lanes by activity and by breaker state, of those that hold or want something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LaneMetrics {
    /// In the order of [`LaneActivity::ALL`].
    pub(crate) activities: [usize; 5],
    /// In the order of [`BreakerState::ALL`].
    pub(crate) breakers: [usize; 3],
    /// Overflow lanes.
    pub(crate) overflow: usize,
}

/// A count of the lanes in progress.
#[derive(Debug, Default)]
pub(crate) struct LaneCount {
    pub(super) counts: LaneMetrics,
    /// Starved lanes among those that were counted one by one.
    starved: usize,
    /// The last lane that was visited.
    after: Option<Lane>,
}

/// A list of the lanes of a namespace in progress.
#[derive(Debug)]
pub(crate) struct LaneListing {
    namespace: NamespaceName,
    position: ListPosition,
    loads: Vec<LaneLoad>,
}

/// The position of a list in progress.
#[derive(Debug)]
enum ListPosition {
    /// After this lane of the remembered ones.
    Known(Option<Lane>),
    /// In the round-robin queue of this shard, after this many entries.
    Starved(usize, usize),
}

impl LaneListing {
    pub(crate) fn new(namespace: NamespaceName) -> Self {
        Self { namespace, position: ListPosition::Known(None), loads: Vec::new() }
    }

    /// Returns the lanes in order.
    pub(crate) fn done(mut self) -> Vec<LaneLoad> {
        self.loads.sort_by(|a, b| a.key.cmp(&b.key));
        // A lane that waits in several shards is listed once.
        self.loads.dedup_by(|a, b| a.key == b.key);
        self.loads
    }
}

impl Lanes {
    /// Continues a list of the lanes of a namespace: those that hold something, that are short of
    /// workers, or whose receiver has a history. Returns the number of lanes visited, `None` at the end.
    pub(crate) fn list(&self, listing: &mut LaneListing, now: Duration) -> Option<usize> {
        match listing.position {
            ListPosition::Known(ref after) => {
                let first = Lane { namespace: listing.namespace.clone(), key: LaneKey::Pull };
                let position = after.as_ref().map_or(Bound::Included(&first), Bound::Excluded);
                let slice = self.lanes.from(position).take(SLICE);
                let slice = slice.take_while(|(lane, _)| lane.namespace == listing.namespace);
                let (mut visited, mut last) = (0, None);
                for (lane, state) in slice {
                    listing.loads.push(self.load(lane, state, now));
                    (visited, last) = (visited + 1, Some(lane));
                }
                listing.position = if visited == SLICE {
                    ListPosition::Known(last.cloned())
                } else {
                    ListPosition::Starved(0, 0)
                };
                Some(visited)
            }
            ListPosition::Starved(shard, skip) => {
                let backlog = self.backlogs.get(shard)?;
                let mut visited = 0;
                for (lane, waiting) in backlog.starved_of(&listing.namespace, skip).take(SLICE) {
                    visited += 1;
                    // Lanes that never held a slot are known only by their waiting.
                    if let Some(waiting) = waiting.filter(|_| self.lanes.get(lane).is_none()) {
                        let state = LaneState::unknown(waiting.limits);
                        listing.loads.push(self.load(lane, &state, now));
                    }
                }
                listing.position = if visited == SLICE {
                    ListPosition::Starved(shard, skip + visited)
                } else {
                    ListPosition::Starved(shard + 1, 0)
                };
                Some(visited)
            }
        }
    }

    fn load(&self, lane: &Lane, state: &LaneState, now: Duration) -> LaneLoad {
        let mut wanted = Demand::default();
        for waiting in self.backlogs.iter().filter_map(|backlog| backlog.get(lane)) {
            wanted.add(waiting.demand);
        }
        LaneLoad {
            key: lane.key.clone(),
            in_flight: state.load.sum(),
            retries_in_flight: state.load.retry,
            cap: state.limits.map(|limits| limits.cap),
            per_second: state.limits.and_then(|limits| limits.rate).map(|rate| rate.per_second()),
            backlog: wanted.sum(),
            state: self.activity(lane),
            diverted: state.limits.is_some_and(|limits| is_diverted(state, limits, now)),
            breaker: state.breaker.state(),
            failures: state.breaker.failures(),
            next_probe_in: state.breaker.next_probe_at(wanted).map(|at| at.saturating_sub(now)),
        }
    }

    /// Continues a count of the lanes; returns it at the end.
    pub(crate) fn count(&self, count: &mut LaneCount) -> Option<LaneMetrics> {
        let position = count.after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut visited, mut last) = (0, None);
        for (lane, state) in self.lanes.from(position).take(SLICE) {
            (visited, last) = (visited + 1, Some(lane));
            let breaker = state.breaker.state();
            let activity = self.activity(lane);
            let waits = self.backlogs.iter().filter_map(|backlog| backlog.get(lane));
            count.starved += waits.filter(|waiting| waiting.reason == WaitReason::Workers).count();
            if state.load.sum() > 0 || activity != LaneActivity::Flowing {
                count.counts.activities[activity as usize] += 1;
                count.counts.overflow += usize::from(lane.key == LaneKey::Overflow);
            }
            if state.load.sum() > 0 || breaker != BreakerState::Closed {
                count.counts.breakers[breaker as usize] += 1;
            }
        }
        if visited == SLICE {
            count.after = last.cloned();
            return None;
        }
        // The others never held a slot; a lane that waits in several shards counts for each.
        let starved: usize = self.backlogs.iter().map(Backlog::starved_count).sum();
        let mut counts = std::mem::take(&mut count.counts);
        counts.activities[LaneActivity::Starved as usize] += starved.saturating_sub(count.starved);
        Some(counts)
    }

    fn activity(&self, lane: &Lane) -> LaneActivity {
        let mut reasons = self.backlogs.iter().filter_map(|b| b.get(lane).map(|w| w.reason));
        match reasons.next() {
            None => LaneActivity::Flowing,
            Some(WaitReason::Lane | WaitReason::ShardQueue(_)) => LaneActivity::Capped,
            Some(WaitReason::Workers) => LaneActivity::Starved,
            Some(WaitReason::Rate(_)) => LaneActivity::Throttled,
            Some(WaitReason::Breaker(_)) => LaneActivity::BreakerOpen,
        }
    }

    /// Returns `true` if a lane with claimable firings can make progress: it holds slots, or waits for
    /// an event that can still come.
    pub(crate) fn can_progress(&self, shard: ShardId, lane: &Lane, now: Duration) -> bool {
        if self.lanes.get(lane).is_some_and(|state| state.load.sum() > 0) {
            return true;
        }
        match self.backlogs[usize::from(shard.0)].get(lane).map(|waiting| waiting.reason) {
            // It holds no slot of its own that could be freed.
            None | Some(WaitReason::Lane) => false,
            Some(WaitReason::Workers) => self.workers.sum() > 0,
            Some(WaitReason::ShardQueue(at) | WaitReason::Rate(at) | WaitReason::Breaker(at)) => {
                now <= at + OVERDUE_AFTER
            }
        }
    }

    /// Resets a neglected lane: removes it from the backlog, and drops the probes of its breaker that no
    /// attempt holds.
    pub(crate) fn reset_neglected(&mut self, shard: ShardId, lane: &Lane) {
        self.backlogs[usize::from(shard.0)].remove(lane);
        if let Some(state) = self.lanes.get_mut(lane).filter(|state| state.load.sum() == 0) {
            state.breaker.drop_probes();
        }
    }
}
