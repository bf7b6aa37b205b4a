//! A claim that is being planned, and the permits of its firings.

use std::time::Duration;

use duly_core::{rate::Mark, shard::ShardId};
use duly_store::{Lane, LaneClaim};
use rustc_hash::FxHashMap;

use super::{
    Kind, Pass,
    share::{Load, Share},
};

/// The planned claim of one lane, with the slots that are reserved for it.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) claim: LaneClaim,
    pub(super) pass: Pass,
    pub(super) to: Receiver,
    pub(super) share: Share,
    /// Tokens taken from the lane's rate, to be returned if they are not used.
    pub(super) mark: Option<Mark>,
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
    pub(crate) kind: Kind,
    /// The admission by the breaker.
    pub(crate) pass: Pass,
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
    places: FxHashMap<Lane, usize>,
}

impl Plan {
    pub(super) fn new(shard: ShardId, now: Duration, batch_left: usize) -> Self {
        Self { shard, now, batch_left, planned: Vec::new(), places: FxHashMap::default() }
    }

    /// Returns `true` if the claim already has attempts of the lane for the other receiver. Then the
    /// lane must wait for the next claim.
    pub(super) fn is_for_another(&self, lane: &Lane, to: Receiver) -> bool {
        let planned = self.places.get(lane).and_then(|place| self.planned.get(*place));
        planned.is_some_and(|planned| planned.to != to)
    }

    pub(super) fn add(&mut self, more: Planned) {
        self.batch_left = self.batch_left.saturating_sub(more.load().sum());
        let place = *self.places.entry(more.claim.lane.clone()).or_insert(self.planned.len());
        let Some(planned) = self.planned.get_mut(place) else {
            self.planned.push(more);
            return;
        };
        planned.claim.first_max += more.claim.first_max;
        planned.claim.retry_max += more.claim.retry_max;
        (planned.pass, planned.share, planned.mark) = (more.pass, more.share, more.mark);
    }

    pub(super) fn done(self) -> Vec<Planned> {
        self.planned
    }
}
