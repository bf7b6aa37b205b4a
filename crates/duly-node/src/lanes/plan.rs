//! A claim in the making, and what its firings hold.

use std::time::Duration;

use duly_core::{rate::Mark, shard::ShardId};
use duly_store::{Lane, LaneClaim};
use rustc_hash::FxHashMap;

use super::{
    Kind, Pass,
    share::{Load, Share},
};

/// What is to be claimed for one lane, with the slots that are held for it.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) claim: LaneClaim,
    pub(super) pass: Pass,
    pub(super) to: Receiver,
    pub(super) share: Share,
    /// What was taken of the lane's rate, to be given back where it is not used.
    pub(super) mark: Option<Mark>,
}

impl Planned {
    pub(super) fn load(&self) -> Load {
        Load::new(self.claim.first_max, self.claim.retry_max)
    }
}

/// What an attempt holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permit {
    /// The kind of its slot.
    pub(crate) kind: Kind,
    /// How its lane's breaker let it through.
    pub(crate) pass: Pass,
    /// Whose breaker that was, and where the attempt goes.
    pub(crate) to: Receiver,
    /// Bytes of its payload and headers.
    pub(crate) bytes: u64,
}

/// Where an attempt goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// To the receiver of its lane.
    Own,
    /// To the namespace's fallback.
    Fallback,
}

/// A claim in the making. A lane stands in it once, however often it is looked at.
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

    /// Whether a lane stands in it with attempts for the other receiver: it has to wait for the next
    /// claim.
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
