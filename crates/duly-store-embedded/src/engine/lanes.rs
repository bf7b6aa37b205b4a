//! Lanes of a namespace, with exact counts of the due timers in each.
//!
//! A lane has a number from 0 to 255, which the index entry carries:
//!
//! 1. 0 follows the destination of the namespace.
//! 2. 1 is pull.
//! 3. 2..=253 are receivers that timers name.
//! 4. 255 takes the receivers past that.
//!
//! The due timers of a lane are claimable and not leased. So their number is an exact count, and a cancel
//! takes its firing out at once.

use std::collections::BTreeMap;

use duly_core::{Destination, destination::LaneKey};

use crate::{effect::LaneOf, index::AttemptKind};

use super::lane_due::LaneDue;

/// Lane of timers that follow their namespace's destination.
pub(crate) const DEFAULT: u8 = 0;
/// Lane of timers that name pull.
pub(crate) const PULL: u8 = 1;
const RECEIVER_FIRST: u8 = 2;
const RECEIVER_LAST: u8 = 253;
/// Lane of timers whose origin got no lane of its own.
pub(crate) const OVERFLOW: u8 = 255;

/// One lane.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Key; `None` for the default lane, which follows the namespace.
    pub(crate) key: Option<LaneKey>,
    /// Timers of this lane in the index.
    pub(crate) pending: u64,
    /// Timers of this lane that are leased.
    pub(crate) in_flight: u64,
    /// Due timers of each kind.
    due: [LaneDue; 2],
}

impl Lane {
    fn new(key: Option<LaneKey>) -> Self {
        Self { key, pending: 0, in_flight: 0, due: Default::default() }
    }

    /// Returns the due timers of a kind.
    pub(crate) const fn due(&self, kind: AttemptKind) -> &LaneDue {
        &self.due[kind as usize]
    }

    pub(crate) const fn due_mut(&mut self, kind: AttemptKind) -> &mut LaneDue {
        &mut self.due[kind as usize]
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.due.iter().all(LaneDue::is_empty)
    }

    /// Returns `true` if a due timer of the lane is unreadable.
    pub(crate) fn has_unreadable(&self) -> bool {
        self.due.iter().any(|due| due.unreadable() > 0)
    }

    /// Returns `true` if the lane has claimable timers, as far as is known.
    pub(crate) fn is_claimable(&self) -> bool {
        self.due.iter().any(|due| due.claimable() > 0)
    }
}

/// The lanes of one namespace.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    by_number: BTreeMap<u8, Lane>,
    receivers: BTreeMap<LaneKey, u8>,
}

impl Lanes {
    /// Adds a timer to this lane. Returns the lane's number.
    pub(crate) fn join(&mut self, lane: &LaneOf) -> u8 {
        let (number, key) = match lane {
            LaneOf::Default => (DEFAULT, None),
            LaneOf::Pull => (PULL, Some(LaneKey::Pull)),
            LaneOf::Receiver(key) => match self.number_for(key) {
                Some(number) => (number, Some((**key).clone())),
                None => (OVERFLOW, Some(LaneKey::Overflow)),
            },
        };
        self.by_number.entry(number).or_insert_with(|| Lane::new(key)).pending += 1;
        number
    }

    /// Restores a lane from a checkpoint, without timers.
    pub(crate) fn restore(&mut self, number: u8, key: Option<LaneKey>) {
        if let Some(receiver @ LaneKey::Receiver(_)) = &key {
            self.receivers.insert(receiver.clone(), number);
        }
        self.by_number.insert(number, Lane::new(key));
    }

    /// Adds `count` timers from a checkpoint. A lane that the checkpoint does not name was created after
    /// its namespace was copied. Replay will then read the record that created it.
    pub(crate) fn rejoin(&mut self, number: u8, count: u64) {
        // Replay finds these two by their numbers, and keeps the key that they get here.
        let key = match number {
            PULL => Some(LaneKey::Pull),
            OVERFLOW => Some(LaneKey::Overflow),
            _ => None,
        };
        let lane = self.by_number.entry(number).or_insert_with(|| Lane::new(key));
        lane.pending += count;
    }

    /// Drops restored lanes that have no timers.
    pub(crate) fn drop_empty(&mut self) {
        self.by_number.retain(|_, lane| lane.pending > 0);
        let by_number = &self.by_number;
        self.receivers.retain(|_, number| by_number.contains_key(number));
    }

    fn number_for(&mut self, key: &LaneKey) -> Option<u8> {
        self.receivers.get(key).copied().or_else(|| {
            let free = (RECEIVER_FIRST..=RECEIVER_LAST)
                .find(|number| !self.by_number.contains_key(number))?;
            self.receivers.insert(key.clone(), free);
            Some(free)
        })
    }

    /// Removes a timer from its lane. A lane without timers frees its number.
    pub(crate) fn leave(&mut self, number: u8) {
        let lane = self.by_number.get_mut(&number).expect("every index entry joined its lane");
        lane.pending -= 1;
        if lane.pending == 0 {
            debug_assert!(lane.is_idle(), "nothing is due in a lane without timers");
            if let Some(key) = self.by_number.remove(&number).and_then(|lane| lane.key) {
                self.receivers.remove(&key);
            }
        }
    }

    /// Returns an estimate of the memory of the lanes, without their due timers.
    pub(crate) fn heap_bytes(&self) -> usize {
        /// Text of the key, with two pointers to it, and nodes of two trees that are half full.
        const LANE_BYTES: usize = 2 * size_of::<(u8, Lane)>() + 2 * size_of::<(LaneKey, u8)>() + 80;
        self.by_number.len() * LANE_BYTES
    }

    pub(crate) fn get(&self, number: u8) -> Option<&Lane> {
        self.by_number.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u8) -> Option<&mut Lane> {
        self.by_number.get_mut(&number)
    }

    /// Returns the key of a lane, given the namespace's destination.
    pub(crate) fn key_of(&self, number: u8, own: &Destination) -> Option<LaneKey> {
        let lane = self.by_number.get(&number)?;
        Some(lane.key.clone().unwrap_or_else(|| own.lane_key()))
    }

    /// Returns the numbers of a lane of the port: its own, and the default lane while the namespace's
    /// destination has the same key.
    pub(crate) fn numbers_of(&self, key: &LaneKey, own: &Destination) -> [Option<u8>; 2] {
        let named = match key {
            LaneKey::Pull => Some(PULL),
            LaneKey::Overflow => Some(OVERFLOW),
            LaneKey::Receiver(_) => self.receivers.get(key).copied(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use duly_core::destination::HttpDestination;

    #[test]
    fn lanes_created_after_checkpoint_copy_keep_their_keys() {
        let own = HttpDestination::new("https://own.test/").map(Destination::Http);
        let own = own.expect("the URL is allowed");
        let mut lanes = Lanes::default();
        for lane in [PULL, PULL, OVERFLOW, OVERFLOW] {
            lanes.rejoin(lane, 1);
        }
        // Each record takes its timer out and adds it again; the other timers keep the lane alive.
        lanes.leave(PULL);
        assert_eq!(lanes.join(&LaneOf::Pull), PULL);
        assert_eq!(lanes.key_of(PULL, &own), Some(LaneKey::Pull));
        assert_eq!(lanes.key_of(OVERFLOW, &own), Some(LaneKey::Overflow));
    }
}
