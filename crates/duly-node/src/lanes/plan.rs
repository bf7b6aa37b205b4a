//! The state of one lane, the claim that is being planned, and the permits of its firings.

use std::time::Duration;

use duly_core::{
    rate::{Gcra, Rate, TakeMark},
    shard::ShardId,
};
use duly_store::{Lane, LaneClaim};
use rustc_hash::FxHashMap;

use super::{
    Admission, AttemptKind,
    breaker::Breaker,
    fair_share::{LaneLimits, Load},
};

/// Shortest wait for a rate: attempts that the rate allows within it are claimed together.
const RATE_GRAIN: Duration = Duration::from_millis(10);

/// The planned claim of one lane, with the slots that are reserved for it.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) claim: LaneClaim,
    pub(super) admission: Admission,
    pub(super) to: Receiver,
    pub(super) limits: LaneLimits,
    /// Tokens taken from the lane's rate, to be returned if they are not used.
    pub(super) mark: Option<TakeMark>,
}

impl Planned {
    pub(super) fn load(&self) -> Load {
        Load::new(self.claim.first_max, self.claim.retry_max)
    }
}

/// The resources that one attempt holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permit {
    /// The kind of its slot.
    pub(crate) kind: AttemptKind,
    /// The admission by the breaker.
    pub(crate) admission: Admission,
    /// The receiver of the attempt; its breaker admitted the attempt.
    pub(crate) to: Receiver,
    /// Bytes of its payload and headers.
    pub(crate) bytes: u64,
}

/// The receiver of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// The lane's own receiver.
    Own,
    /// The namespace's fallback.
    Fallback,
}

/// A claim that is being planned. It lists each lane once, even if the lane is planned several times.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) shard: ShardId,
    pub(super) now: Duration,
    pub(super) batch_left: usize,
    pub(super) planned: Vec<Planned>,
    indexes: FxHashMap<Lane, usize>,
}

impl Plan {
    pub(super) fn new(shard: ShardId, now: Duration, batch_left: usize) -> Self {
        Self { shard, now, batch_left, planned: Vec::new(), indexes: FxHashMap::default() }
    }

    /// Returns `true` if the claim already has attempts of the lane for the other receiver. Then the
    /// lane must wait for the next claim.
    pub(super) fn is_for_another(&self, lane: &Lane, to: Receiver) -> bool {
        let planned = self.indexes.get(lane).and_then(|index| self.planned.get(*index));
        planned.is_some_and(|planned| planned.to != to)
    }

    pub(super) fn add(&mut self, more: Planned) {
        self.batch_left = self.batch_left.saturating_sub(more.load().sum());
        let index = *self.indexes.entry(more.claim.lane.clone()).or_insert(self.planned.len());
        let Some(planned) = self.planned.get_mut(index) else {
            self.planned.push(more);
            return;
        };
        planned.claim.first_max += more.claim.first_max;
        planned.claim.retry_max += more.claim.retry_max;
        (planned.admission, planned.limits, planned.mark) =
            (more.admission, more.limits, more.mark);
    }
}

/// The state of one lane: the slots it holds, and the health of its receiver.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct LaneState {
    pub(super) load: Load,
    /// The kind that got the last slot, so that the kinds alternate in a lane with one slot.
    pub(super) last: AttemptKind,
    pub(super) breaker: Breaker,
    started: Gcra,
    /// `true`: its firings went to the fallback when it was last planned.
    pub(super) is_diverted: bool,
    /// Its namespace's limits when it was last planned.
    pub(super) limits: Option<LaneLimits>,
}

impl LaneState {
    /// Creates the state of a lane that never held a slot.
    pub(super) fn unknown(limits: LaneLimits) -> Self {
        Self { limits: Some(limits), ..Self::default() }
    }

    /// Returns how many attempts the rate allows to start now.
    pub(super) fn rate_left(&self, rate: Option<Rate>, now: Duration) -> usize {
        rate.map_or(usize::MAX, |rate| {
            usize::try_from(self.started.available(rate, now)).unwrap_or(usize::MAX)
        })
    }

    /// Returns the time at which the rate allows the next attempt if `more` start now.
    pub(super) fn rate_next_at(&self, rate: Option<Rate>, now: Duration, more: usize) -> Duration {
        let Some(rate) = rate else {
            return now;
        };
        let mut after = self.started;
        after.take(rate, now, more as u64);
        now + after.next_in(rate, now).max(RATE_GRAIN)
    }

    /// Reserves slots and rate tokens for attempts that a breaker admitted.
    pub(super) fn reserve(
        &mut self,
        lane: Lane,
        slots: Load,
        limits: LaneLimits,
        (to, admission): (Receiver, Admission),
        now: Duration,
    ) -> Planned {
        self.load.add(slots);
        self.last = if slots.retry > 0 { AttemptKind::Retry } else { AttemptKind::First };
        self.limits = Some(limits);
        let mark = limits.rate.map(|rate| self.started.take(rate, now, slots.sum() as u64));
        let claim = LaneClaim { lane, first_max: slots.first, retry_max: slots.retry };
        Planned { claim, admission, to, limits, mark }
    }

    /// Returns the rate tokens of `count` attempts that were not started.
    pub(super) fn release_rate(&mut self, planned: &Planned, count: usize) {
        if let (Some(rate), Some(mark)) = (planned.limits.rate, planned.mark) {
            self.started.release(rate, mark, count as u64);
        }
    }

    /// Returns `true` if the state has no information, so that a lane without slots can be dropped.
    pub(super) fn is_new(&self, now: Duration) -> bool {
        self.breaker.is_new() && self.started.is_idle(now)
    }
}
