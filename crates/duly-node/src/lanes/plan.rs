//! A claim that is being planned, and the permits of its firings.

use std::time::Duration;

use duly_core::{rate::TakeMark, shard::ShardId};
use duly_store::{Lane, LaneClaim};
use rustc_hash::FxHashMap;

use super::{
    Admission, AttemptKind,
    fair_share::{LaneLimits, Load},
};

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
    planned: Vec<Planned>,
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

    pub(super) fn done(self) -> Vec<Planned> {
        self.planned
    }
}
