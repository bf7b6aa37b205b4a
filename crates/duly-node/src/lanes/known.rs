//! The remembered lanes: those that hold something, and some that recently did.
//!
//! A visit of the lanes needs the lock that every firing needs. So no operation visits all lanes at
//! once:
//!
//! 1. Walks and clean-ups run in slices, and continue after the lane at which the last slice ended.
//! 2. After every [`CLEAN_UP_EVERY`] returned slots one slice is cleaned up. It has twice as many lanes as
//!    could have been added meanwhile.
//! 3. So the number of remembered lanes stays within the bound plus one slice, or within twice the lanes
//!    that hold slots.

use std::{
    collections::{BTreeSet, hash_map::Entry},
    ops::Bound,
    time::Duration,
};

use duly_store::Lane;
use rustc_hash::FxHashMap;

use super::plan::LaneState;

/// Most lanes that are remembered although they hold nothing.
pub(super) const IDLE_REMEMBERED_MAX: usize = 4_096;
/// Most lanes that are remembered for the history of their receivers, although they hold nothing.
pub(super) const REMEMBERED_MAX: usize = 1 << 16;
/// Returned slots between two slices of clean-up.
pub(super) const CLEAN_UP_EVERY: usize = 64;
/// Lanes of one slice of clean-up.
const CLEAN_UP_SLICE: usize = 2 * CLEAN_UP_EVERY;

/// The lanes, each with its state.
#[derive(Debug, Default)]
pub(super) struct KnownLanes {
    states: FxHashMap<Lane, LaneState>,
    /// The same lanes in order: a position in it stays valid when lanes come and go.
    order: BTreeSet<Lane>,
    /// Number of lanes above which idle lanes without history are dropped.
    idle_max: usize,
    /// Number of lanes above which idle lanes with history are dropped too.
    most: usize,
    /// Slots returned since the last slice of clean-up.
    returns: usize,
    /// The last lane of that slice.
    cleaned_to: Option<Lane>,
    /// Diverted lanes that were dropped since slots were last returned.
    diverted_dropped: usize,
}

impl KnownLanes {
    pub(super) fn new(workers_max: usize) -> Self {
        let idle_max = IDLE_REMEMBERED_MAX + workers_max;
        Self { idle_max, most: REMEMBERED_MAX, ..Self::default() }
    }

    pub(super) fn get(&self, lane: &Lane) -> Option<&LaneState> {
        self.states.get(lane)
    }

    pub(super) fn get_mut(&mut self, lane: &Lane) -> Option<&mut LaneState> {
        self.states.get_mut(lane)
    }

    /// Returns the state of a lane, and remembers the lane from now on.
    pub(super) fn entry(&mut self, lane: &Lane) -> &mut LaneState {
        match self.states.entry(lane.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.order.insert(lane.clone());
                new.insert(LaneState::default())
            }
        }
    }

    /// Returns the lanes from a position on, in order.
    pub(super) fn from(&self, place: Bound<&Lane>) -> impl Iterator<Item = (&Lane, &LaneState)> {
        let behind = self.order.range::<Lane, _>((place, Bound::Unbounded));
        behind.filter_map(|lane| Some((lane, self.states.get(lane)?)))
    }

    /// Handles returned slots: if there are too many lanes, some idle ones are dropped. Returns the
    /// number of dropped lanes that were diverted.
    pub(super) fn slots_returned(&mut self, now: Duration) -> usize {
        self.returns += 1;
        if self.returns >= CLEAN_UP_EVERY && self.states.len() > self.idle_max {
            self.returns = 0;
            self.clean_up_slice(now);
        }
        std::mem::take(&mut self.diverted_dropped)
    }

    /// Cleans up one slice: drops lanes that hold nothing and have no history; above the bound, all that
    /// hold nothing. Returns the number of lanes visited.
    fn clean_up_slice(&mut self, now: Duration) -> usize {
        let place = self.cleaned_to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let slice: Vec<Lane> =
            self.from(place).take(CLEAN_UP_SLICE).map(|(lane, _)| lane.clone()).collect();
        for lane in &slice {
            let many = self.states.len() > self.most;
            let forgettable =
                |state: &LaneState| state.load.sum() == 0 && (many || state.is_new(now));
            if self.states.get(lane).is_some_and(forgettable) {
                let gone = self.states.remove(lane);
                self.diverted_dropped += usize::from(gone.is_some_and(|state| state.is_diverted));
                self.order.remove(lane);
            }
        }
        let visited = slice.len();
        // At the end the next slice starts from the beginning.
        self.cleaned_to = slice.into_iter().next_back().filter(|_| visited == CLEAN_UP_SLICE);
        visited
    }
}

#[cfg(test)]
mod tests;
