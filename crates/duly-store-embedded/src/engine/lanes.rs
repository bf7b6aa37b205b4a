//! Lanes of a namespace: which timers are due in each, exactly.
//!
//! A lane has a number from 0 to 255 that the index entry carries: 0 follows the namespace's own
//! destination, 1 is pull, 2..=253 are origins that timers named, 255 takes the origins past that.
//! The due sets hold only what is claimable and not leased, so their sizes are exact counts and a
//! cancel takes its firing out at once.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::{Destination, destination::LaneKey};

use crate::index::{Claimable, Kind, PackedKey};

/// Lane of timers that follow their namespace's destination.
pub(crate) const DEFAULT: u8 = 0;
/// Lane of timers that name pull.
pub(crate) const PULL: u8 = 1;
const ORIGIN_FIRST: u8 = 2;
const ORIGIN_LAST: u8 = 253;
/// Lane of timers whose origin found no lane of its own.
pub(crate) const OVERFLOW: u8 = 255;

/// One lane.
#[derive(Debug)]
pub(crate) struct Lane {
    /// What it is keyed by; `None` for the default lane, which follows the namespace.
    key: Option<LaneKey>,
    /// Timers in the index that belong to it.
    pub(crate) pending: u64,
    /// Those under a lease.
    pub(crate) in_flight: u64,
    first: BTreeSet<(u64, PackedKey)>,
    retry: BTreeSet<(u64, PackedKey)>,
}

impl Lane {
    fn new(key: Option<LaneKey>) -> Self {
        Self { key, pending: 0, in_flight: 0, first: BTreeSet::new(), retry: BTreeSet::new() }
    }

    pub(crate) const fn set(&self, kind: Kind) -> &BTreeSet<(u64, PackedKey)> {
        match kind {
            Kind::First => &self.first,
            Kind::Retry => &self.retry,
        }
    }

    fn set_mut(&mut self, kind: Kind) -> &mut BTreeSet<(u64, PackedKey)> {
        match kind {
            Kind::First => &mut self.first,
            Kind::Retry => &mut self.retry,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.first.is_empty() && self.retry.is_empty()
    }
}

/// The lanes of one namespace.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    by_number: BTreeMap<u8, Lane>,
    origins: BTreeMap<LaneKey, u8>,
}

impl Lanes {
    /// Takes a timer with this destination in; answers its lane's number.
    pub(crate) fn join(&mut self, destination: Option<&Destination>) -> u8 {
        let (number, key) = match destination {
            None => (DEFAULT, None),
            Some(Destination::Pull) => (PULL, Some(LaneKey::Pull)),
            Some(other) => {
                let key = other.lane_key();
                let number = self.origins.get(&key).copied().or_else(|| {
                    let free = (ORIGIN_FIRST..=ORIGIN_LAST)
                        .find(|number| !self.by_number.contains_key(number))?;
                    self.origins.insert(key.clone(), free);
                    Some(free)
                });
                match number {
                    Some(number) => (number, Some(key)),
                    None => (OVERFLOW, Some(LaneKey::Overflow)),
                }
            }
        };
        self.by_number.entry(number).or_insert_with(|| Lane::new(key)).pending += 1;
        number
    }

    /// Lets a timer go; a lane without timers gives its number back.
    pub(crate) fn leave(&mut self, number: u8) {
        let lane = self.by_number.get_mut(&number).expect("every index entry joined its lane");
        lane.pending -= 1;
        if lane.pending == 0 {
            debug_assert!(lane.is_idle(), "nothing is due in a lane without timers");
            if let Some(key) = self.by_number.remove(&number).and_then(|lane| lane.key) {
                self.origins.remove(&key);
            }
        }
    }

    pub(crate) fn get(&self, number: u8) -> Option<&Lane> {
        self.by_number.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u8) -> Option<&mut Lane> {
        self.by_number.get_mut(&number)
    }

    /// Adds to the due set.
    pub(crate) fn due(&mut self, number: u8, claimable: Claimable, key: PackedKey) {
        if let Some(lane) = self.by_number.get_mut(&number) {
            lane.set_mut(claimable.kind).insert((claimable.at_ms, key));
        }
    }

    /// Takes out of the due set, if it is there.
    pub(crate) fn not_due(&mut self, number: u8, claimable: Claimable, key: PackedKey) {
        if let Some(lane) = self.by_number.get_mut(&number) {
            lane.set_mut(claimable.kind).remove(&(claimable.at_ms, key));
        }
    }

    /// What a lane is keyed by, given the namespace's destination.
    pub(crate) fn key_of(&self, number: u8, own: &Destination) -> Option<LaneKey> {
        let lane = self.by_number.get(&number)?;
        Some(lane.key.clone().unwrap_or_else(|| own.lane_key()))
    }

    /// The numbers that make up a lane of the port: its own, and the default lane while the
    /// namespace's destination leads there.
    pub(crate) fn numbers_of(&self, key: &LaneKey, own: &Destination) -> [Option<u8>; 2] {
        let named = match key {
            LaneKey::Pull => Some(PULL),
            LaneKey::Overflow => Some(OVERFLOW),
            LaneKey::Origin(_) => self.origins.get(key).copied(),
        };
        let default = (own.lane_key() == *key).then_some(DEFAULT);
        [
            named.filter(|number| self.by_number.contains_key(number)),
            default.filter(|number| self.by_number.contains_key(number)),
        ]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u8, &Lane)> {
        self.by_number.iter().map(|(number, lane)| (*number, lane))
    }
}
