//! The lanes that are remembered: those that hold something, and some that lately did.
//!
//! Whoever looks at many of them does so under the lock that every firing needs. So nothing here
//! looks at all of them at once: walks and forgetting go on in slices, from the lane at which the
//! last slice ended. Every [`LOOK_EVERY`] slots that come back pay for one slice of forgetting, twice
//! as many lanes as could have come for them: what is remembered stays within the bound and a slice,
//! or twice what is held.

use std::{
    collections::{BTreeSet, hash_map::Entry},
    ops::Bound,
    time::Duration,
};

use duly_store::Lane;
use rustc_hash::FxHashMap;

use super::state::State;

/// Lanes remembered although they hold nothing.
pub(super) const IDLE_REMEMBERED_MAX: usize = 4_096;
/// Lanes remembered for what their receivers did, although they hold nothing.
pub(super) const REMEMBERED_MAX: usize = 1 << 16;
/// Slots that come back between two slices of forgetting.
pub(super) const LOOK_EVERY: usize = 64;
/// Lanes of one slice of forgetting.
const FORGET_SLICE: usize = 2 * LOOK_EVERY;

/// The lanes, each with what is known of it.
#[derive(Debug)]
pub(super) struct Known {
    states: FxHashMap<Lane, State>,
    /// The same lanes in order: a place in it stays one, whatever comes and goes.
    order: BTreeSet<Lane>,
    /// More than these, and idle ones are forgotten.
    idle_max: usize,
    /// More than these, and also those are forgotten of which something is known.
    most: usize,
    /// Slots that came back since the last slice of forgetting.
    returns: usize,
    /// Where that ended.
    forgot_to: Option<Lane>,
    /// Diverted ones that were forgotten since the last slots came back.
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

    /// What is known of a lane, remembered from now on.
    pub(super) fn entry(&mut self, lane: &Lane) -> &mut State {
        match self.states.entry(lane.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.order.insert(lane.clone());
                new.insert(State::default())
            }
        }
    }

    /// The lanes behind a place, in order.
    pub(super) fn from(&self, place: Bound<&Lane>) -> impl Iterator<Item = (&Lane, &State)> {
        let behind = self.order.range::<Lane, _>((place, Bound::Unbounded));
        behind.filter_map(|lane| Some((lane, self.states.get(lane)?)))
    }

    /// Slots came back: with more lanes than are to be remembered some idle ones are forgotten.
    /// Answers how many of those were diverted.
    pub(super) fn slots_returned(&mut self, now: Duration) -> usize {
        self.returns += 1;
        if self.returns >= LOOK_EVERY && self.states.len() > self.idle_max {
            self.returns = 0;
            self.forget_slice(now);
        }
        std::mem::take(&mut self.diverted_forgotten)
    }

    /// Forgets those of the next lanes that hold nothing and of which nothing is known; past the
    /// bound, all that hold nothing. Answers how many it looked at.
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
        // At the end it begins anew.
        self.forgot_to = slice.into_iter().next_back().filter(|_| looked == FORGET_SLICE);
        looked
    }
}

#[cfg(test)]
mod tests;
