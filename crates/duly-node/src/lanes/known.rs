//! The remembered lanes: those that hold something, and some that recently did.
//!
//! A visit of the lanes needs the lock that every firing needs. So no operation visits all lanes at
//! once:
//!
//! 1. Walks and clean-ups run in slices, and continue after the lane at which the last slice ended.
//! 2. After every [`LOOK_EVERY`] returned slots one slice is cleaned up. It has twice as many lanes as
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

use super::state::State;

/// Most lanes that are remembered although they hold nothing.
pub(super) const IDLE_REMEMBERED_MAX: usize = 4_096;
/// Most lanes that are remembered for the history of their receivers, although they hold nothing.
pub(super) const REMEMBERED_MAX: usize = 1 << 16;
/// Returned slots between two slices of clean-up.
pub(super) const LOOK_EVERY: usize = 64;
/// Lanes of one slice of clean-up.
const FORGET_SLICE: usize = 2 * LOOK_EVERY;

/// The lanes, each with its state.
#[derive(Debug)]
pub(super) struct Known {
    states: FxHashMap<Lane, State>,
    /// The same lanes in order: a position in it stays valid when lanes come and go.
    order: BTreeSet<Lane>,
    /// Number of lanes above which idle lanes without history are dropped.
    idle_max: usize,
    /// Number of lanes above which idle lanes with history are dropped too.
    most: usize,
    /// Slots returned since the last slice of clean-up.
    returns: usize,
    /// The last lane of that slice.
    forgot_to: Option<Lane>,
    /// Diverted lanes that were dropped since slots were last returned.
    diverted_forgotten: usize,
}

impl Known {
    pub(super) fn new(workers_max: usize) -> Self {
        Self {
            states: FxHashMap::default(),
            order: BTreeSet::new(),
            idle_max: IDLE_REMEMBERED_MAX + workers_max,
            most: REMEMBERED_MAX,
            returns: 0,
            forgot_to: None,
            diverted_forgotten: 0,
        }
    }

    pub(super) fn get(&self, lane: &Lane) -> Option<&State> {
        self.states.get(lane)
    }

    pub(super) fn get_mut(&mut self, lane: &Lane) -> Option<&mut State> {
        self.states.get_mut(lane)
    }

    /// Returns the state of a lane, and remembers the lane from now on.
    pub(super) fn entry(&mut self, lane: &Lane) -> &mut State {
        match self.states.entry(lane.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.order.insert(lane.clone());
                new.insert(State::default())
            }
        }
    }

    /// Returns the lanes from a position on, in order.
    pub(super) fn from(&self, place: Bound<&Lane>) -> impl Iterator<Item = (&Lane, &State)> {
        let behind = self.order.range::<Lane, _>((place, Bound::Unbounded));
        behind.filter_map(|lane| Some((lane, self.states.get(lane)?)))
    }

    /// Handles returned slots: if there are too many lanes, some idle ones are dropped. Returns the
    /// number of dropped lanes that were diverted.
    pub(super) fn slots_returned(&mut self, now: Duration) -> usize {
        self.returns += 1;
        if self.returns >= LOOK_EVERY && self.states.len() > self.idle_max {
            self.returns = 0;
            self.forget_slice(now);
        }
        std::mem::take(&mut self.diverted_forgotten)
    }

    /// Cleans up one slice: drops lanes that hold nothing and have no history; above the bound, all that
    /// hold nothing. Returns the number of lanes visited.
    fn forget_slice(&mut self, now: Duration) -> usize {
        let place = self.forgot_to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let slice: Vec<Lane> =
            self.from(place).take(FORGET_SLICE).map(|(lane, _)| lane.clone()).collect();
        for lane in &slice {
            let many = self.states.len() > self.most;
            let forgettable = |state: &State| state.load.sum() == 0 && (many || state.is_new(now));
            if self.states.get(lane).is_some_and(forgettable) {
                let gone = self.states.remove(lane);
                self.diverted_forgotten += usize::from(gone.is_some_and(|state| state.is_diverted));
                self.order.remove(lane);
            }
        }
        let looked = slice.len();
        // At the end the next slice starts from the beginning.
        self.forgot_to = slice.into_iter().next_back().filter(|_| looked == FORGET_SLICE);
        looked
    }
}

#[cfg(test)]
mod tests;
