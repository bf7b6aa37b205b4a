//! Dead letters of one namespace, found by delivery id and by timer. Their records stay whole in the
//! files.
//!
//! Each dead letter has two index entries: 48 bytes and a little. A timer with more than one dead letter
//! (an id that was reused, a recurring timer) has all of them in a list of its own.
//!
//! There are two structures: the location of each letter, and the letters of each timer in the order in
//! which they came. Neither is read to change the other. So a checkpoint may copy each letter and each
//! timer at a moment of its own: the records that follow set both as they were.
//!
//! What must stay true:
//!
//! 1. `by_timer` names the latest letter of a timer.
//! 2. `several` has all letters of a timer that has more than one, oldest first, and no others.
//! 3. A dead letter that is named and does not exist was damaged and dropped while its timer was unknown. It
//!    is skipped.

use std::collections::{
    VecDeque,
    hash_map::Entry::{Occupied, Vacant},
};

use duly_core::DeliveryId;
use rustc_hash::FxHashMap;

use crate::{
    format::checkpoint as layout,
    index::{AttemptKind, Claimable, Entry, Index, Key, Location, PackedKey},
};

/// A dead letter to add.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewDeadLetter {
    /// Key of its delivery id, by [`key_of`].
    pub(crate) letter: Key,
    pub(crate) timer: Key,
    pub(crate) due_ms: u64,
    pub(crate) dead_lettered_ms: u64,
    pub(crate) location: Location,
}

/// Time at which a letter was dead-lettered, and its key.
type DeadLettered = (u64, Key);

/// The dead letters of a namespace.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    /// By the key of the delivery id; the entry's time is the due time.
    pub(crate) by_delivery: Index,
    /// By timer: names the latest letter; the entry's time is the time of dead-lettering.
    pub(crate) by_timer: Index,
    several: FxHashMap<Key, VecDeque<DeadLettered>>,
    /// Number of letters in `several`.
    listed: usize,
}

/// Returns the key that stands for an unknown timer: that of a dead letter whose record is damaged.
pub(crate) fn unknown_timer(namespace: u32) -> Key {
    let mut packed = [0; size_of::<PackedKey>()];
    packed[8..].copy_from_slice(&namespace.to_le_bytes());
    Key::unpack(packed)
}

/// Returns the key of a delivery id.
pub(crate) fn key_of(hash_key: u128, namespace: u32, delivery: DeliveryId) -> Key {
    Key::of_bytes(hash_key, namespace, &delivery.to_u128().to_le_bytes())
}

impl Default for DeadLetters {
    fn default() -> Self {
        let several = FxHashMap::default();
        Self { by_delivery: Index::new(), by_timer: Index::new(), several, listed: 0 }
    }
}

impl DeadLetters {
    /// Adds a dead letter. Returns the old location of the same letter, if it was there.
    pub(crate) fn put(&mut self, new: NewDeadLetter) -> Option<Location> {
        let NewDeadLetter { letter, timer, due_ms, dead_lettered_ms, location } = new;
        let due = Claimable { at_ms: due_ms, kind: AttemptKind::First };
        let old = self.by_delivery.put(Entry::new(letter, 0, due, location));
        self.name(timer, (dead_lettered_ms, letter));
        old.map(|old| old.location())
    }

    /// Makes a dead letter the latest of its timer.
    fn name(&mut self, timer: Key, dead_lettered: DeadLettered) {
        let (dead_lettered_ms, letter) = dead_lettered;
        let Some(before) = self.by_timer.put(Entry::naming(timer, dead_lettered_ms, letter)) else {
            return;
        };
        let first = (before.claimable().at_ms, before.named(timer.namespace()));
        match self.several.entry(timer) {
            Occupied(mut known) => {
                let several = known.get_mut();
                let before = several.len();
                // In replay it may be there already, among the others.
                several.retain(|(_, other)| *other != letter);
                several.push_back(dead_lettered);
                self.listed = self.listed + several.len() - before;
            }
            Vacant(_) if first.1 == letter => {}
            Vacant(place) => {
                place.insert([first, dead_lettered].into());
                self.listed += 2;
            }
        }
    }

    /// Removes a dead letter of this timer. Returns its location.
    pub(crate) fn remove(&mut self, timer: Key, letter: Key) -> Option<Location> {
        self.forget(timer, letter);
        self.by_delivery.remove(letter).map(|gone| gone.location())
    }

    /// Removes a dead letter from those of its timer.
    fn forget(&mut self, timer: Key, letter: Key) {
        let Some(several) = self.several.get_mut(&timer) else {
            let latest = self.by_timer.get(timer);
            if latest.is_some_and(|latest| latest.named(timer.namespace()) == letter) {
                self.by_timer.remove(timer);
            }
            return;
        };
        let Some(place) = several.iter().position(|(_, known)| *known == letter) else {
            return;
        };
        several.remove(place);
        self.listed -= 1;
        if let Some((dead_lettered_ms, latest)) = several.back() {
            self.by_timer.put(Entry::naming(timer, *dead_lettered_ms, *latest));
        }
        if several.len() < 2 {
            self.listed -= several.len();
            self.several.remove(&timer);
        }
    }

    /// Returns the entry of the dead letter with this delivery id.
    pub(crate) fn entry(
        &self,
        hash_key: u128,
        namespace: u32,
        delivery: DeliveryId,
    ) -> Option<Entry> {
        self.by_delivery.get(key_of(hash_key, namespace, delivery))
    }

    /// Moves the location of a dead letter, if it is still the old one. Returns `true` if it was.
    pub(crate) fn relocate(&mut self, letter: Key, from: Location, to: Location) -> bool {
        self.by_delivery.relocate(letter, from, to).is_some()
    }

    /// Returns the location of a dead letter.
    pub(crate) fn get(&self, letter: Key) -> Option<Location> {
        Some(self.by_delivery.get(letter)?.location())
    }

    /// Returns the latest dead letter of a timer, and its location.
    pub(crate) fn latest(&self, timer: Key) -> Option<(Key, Location)> {
        let there = |letter: Key| Some((letter, self.get(letter)?));
        match self.several.get(&timer) {
            Some(several) => several.iter().rev().find_map(|(_, letter)| there(*letter)),
            None => there(self.by_timer.get(timer)?.named(timer.namespace())),
        }
    }

    /// Returns the locations of all dead letters of a timer, oldest first.
    pub(crate) fn of(&self, timer: Key) -> Vec<Location> {
        match self.several.get(&timer) {
            Some(several) => several.iter().filter_map(|(_, letter)| self.get(*letter)).collect(),
            None => self.latest(timer).map(|(_, location)| location).into_iter().collect(),
        }
    }

    /// Returns the letters of a timer that has several, in their form in a checkpoint.
    pub(crate) fn several(&self, timer: Key) -> impl Iterator<Item = layout::DeadLetterEntry> {
        let several = self.several.get(&timer).into_iter().flatten();
        several.map(move |(dead_lettered_ms, letter)| layout::DeadLetterEntry {
            timer: timer.pack(),
            dead_lettered_ms: *dead_lettered_ms,
            letter: letter.pack(),
        })
    }

    /// Restores a dead letter from a checkpoint.
    pub(crate) fn restore(&mut self, copied: &layout::DeadLetterEntry) {
        let several = self.several.entry(Key::unpack(copied.timer)).or_default();
        several.push_back((copied.dead_lettered_ms, Key::unpack(copied.letter)));
        self.listed += 1;
    }

    pub(crate) const fn len(&self) -> u64 {
        self.by_delivery.len() as u64
    }

    /// Returns the memory that it owns. For the lists that is at least their content.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.by_delivery.heap_bytes()
            + self.by_timer.heap_bytes()
            + self.several.capacity() * size_of::<(Key, VecDeque<DeadLettered>)>()
            + self.listed * size_of::<DeadLettered>()
    }
}

#[cfg(test)]
mod tests;
