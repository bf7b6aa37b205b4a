//! Lanes of one shard that want more than they got.

use std::collections::VecDeque;

use duly_store::Lane;
use rustc_hash::{FxHashMap, FxHashSet};

use super::share::{Demand, Limit};

/// Starved lanes looked at for one freed slot.
const STARVED_PER_WAKE: usize = 8;
/// Queue entries of lanes that no longer wait that are not worth a clean-up.
const STALE_MAX: usize = 64;

/// Lanes that wait, each with what it wants.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: FxHashMap<Lane, Waiting>,
    /// Lanes short of workers, in order of turn, each at most once. May name lanes that do not wait
    /// any more, or now for a slot of their own.
    starved: VecDeque<Lane>,
    /// The lanes in `starved`.
    queued: FxHashSet<Lane>,
    /// Lanes to be planned at once.
    retry: Vec<Lane>,
    /// Freed slots since the last look at starved lanes.
    freed_slots: usize,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    demand: Demand,
    limit: Limit,
}

impl Backlog {
    /// Notes what a lane still wants; nothing wanted is nothing noted. A lane that is in the queue
    /// keeps its turn.
    pub(super) fn remember(&mut self, lane: &Lane, demand: Demand, limit: Limit) {
        if demand.sum() == 0 {
            self.waiting.remove(lane);
            return;
        }
        self.waiting.insert(lane.clone(), Waiting { demand, limit });
        if limit == Limit::Workers && self.queued.insert(lane.clone()) {
            self.starved.push_back(lane.clone());
            self.drop_stale();
        }
    }

    /// A lane has nothing claimable any more.
    pub(super) fn forget(&mut self, lane: &Lane) {
        self.waiting.remove(lane);
    }

    /// Whether a lane wants more.
    pub(super) fn waits(&self, lane: &Lane) -> bool {
        self.waiting.contains_key(lane)
    }

    /// What keeps a waiting lane from more.
    pub(super) fn limit_of(&self, lane: &Lane) -> Option<Limit> {
        self.waiting.get(lane).map(|w| w.limit)
    }

    /// Has a waiting lane planned again at the next look.
    pub(super) fn retry(&mut self, lane: &Lane) {
        if self.waits(lane) {
            self.retry.push(lane.clone());
        }
    }

    /// A slot of `lane` was freed. Answers whether somebody here may want it.
    pub(super) fn freed(&mut self, lane: &Lane) -> bool {
        // A starved lane gets its next slot when its turn comes, also when it freed one itself.
        let own = self.limit_of(lane) == Some(Limit::Lane);
        if own {
            self.retry.push(lane.clone());
        }
        if !self.starved.is_empty() {
            self.freed_slots += 1;
        }
        own || !self.starved.is_empty()
    }

    /// Takes the lanes to be planned at once. A starved one keeps its turn: its queue entry stays.
    pub(super) fn take_retried(&mut self) -> Vec<(Lane, Demand)> {
        let lanes = std::mem::take(&mut self.retry);
        lanes.into_iter().filter_map(|lane| self.take(lane)).collect()
    }

    /// How many starved lanes to look at, for the slots freed since the last time.
    pub(super) fn take_looks(&mut self) -> usize {
        std::mem::take(&mut self.freed_slots).saturating_mul(STARVED_PER_WAKE)
    }

    /// Takes the starved lane whose turn it is.
    pub(super) fn take_starved(&mut self) -> Option<(Lane, Demand)> {
        while let Some(lane) = self.starved.pop_front() {
            self.queued.remove(&lane);
            if let Some(taken) = self.take(lane) {
                return Some(taken);
            }
        }
        None
    }

    /// Keeps the queue in proportion to the lanes that wait: entries of lanes that got what they
    /// wanted another way stay behind in it.
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

    fn take(&mut self, lane: Lane) -> Option<(Lane, Demand)> {
        let waiting = self.waiting.remove(&lane)?;
        Some((lane, waiting.demand))
    }
}
