//! Dead letters of one namespace: found by delivery id and by timer, kept whole in the files.
//!
//! Two index entries for each letter, 48 bytes and a little. A timer with more than one letter (an
//! id that was used again, a repeating timer) has all of them in a list of its own.
//!
//! There are two structures, and neither is looked at to change the other: where each letter stands,
//! and which letters each timer has, in the order in which they came. So a checkpoint may copy each
//! letter and each timer at a moment of its own: the records that follow set both as they were.
//!
//! Invariants: `by_timer` names the latest letter of a timer; `several` has all letters of a timer
//! that has more than one, oldest first, and nothing of any other timer. A letter that is named
//! and not there was damaged and dropped without anybody knowing its timer: it is passed over.

use std::collections::{
    VecDeque,
    hash_map::Entry::{Occupied, Vacant},
};

use duly_core::DeliveryId;
use rustc_hash::FxHashMap;

use crate::{
    format::checkpoint as layout,
    index::{Claimable, Entry, Index, Key, Kind, Location, PackedKey},
};

/// A letter that comes in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewLetter {
    /// By [`key_of`] its delivery id.
    pub(crate) letter: Key,
    pub(crate) timer: Key,
    pub(crate) due_ms: u64,
    pub(crate) died_ms: u64,
    pub(crate) location: Location,
}

/// When a letter of a timer with several was given up, and which it is.
type Died = (u64, Key);

/// The dead letters of a namespace.
#[derive(Debug)]
pub(crate) struct Letters {
    /// By the key of the delivery id; the time is the due time.
    by_delivery: Index,
    /// By timer: names the latest; the time is when it was given up.
    by_timer: Index,
    several: FxHashMap<Key, VecDeque<Died>>,
    /// Letters in `several`.
    listed: usize,
}

/// Stands for a timer that nobody knows because the letter's record is damaged.
pub(crate) fn unknown_timer(namespace: u32) -> Key {
    let mut packed = [0; size_of::<PackedKey>()];
    packed[8..].copy_from_slice(&namespace.to_le_bytes());
    Key::unpack(packed)
}

/// The key under which a delivery id is found.
pub(crate) fn key_of(hash_key: u128, namespace: u32, delivery: DeliveryId) -> Key {
    Key::of_bytes(hash_key, namespace, &delivery.to_u128().to_le_bytes())
}

impl Default for Letters {
    fn default() -> Self {
        let several = FxHashMap::default();
        Self { by_delivery: Index::new(), by_timer: Index::new(), several, listed: 0 }
    }
}

impl Letters {
    /// Puts a letter in; answers where the same one stood before.
    pub(crate) fn put(&mut self, new: NewLetter) -> Option<Location> {
        let NewLetter { letter, timer, due_ms, died_ms, location } = new;
        let due = Claimable { at_ms: due_ms, kind: Kind::First };
        let old = self.by_delivery.put(Entry::new(letter, 0, due, location));
        self.name(timer, (died_ms, letter));
        old.map(|old| old.location())
    }

    /// Makes a letter the latest of its timer.
    fn name(&mut self, timer: Key, died: Died) {
        let (died_ms, letter) = died;
        let Some(before) = self.by_timer.put(Entry::naming(timer, died_ms, letter)) else {
            return;
        };
        let first = (before.claimable().at_ms, before.named(timer.namespace()));
        match self.several.entry(timer) {
            Occupied(mut known) => {
                let several = known.get_mut();
                let before = several.len();
                // At replay it may be there already, and among the others.
                several.retain(|(_, other)| *other != letter);
                several.push_back(died);
                self.listed = self.listed + several.len() - before;
            }
            Vacant(_) if first.1 == letter => {}
            Vacant(place) => {
                place.insert([first, died].into());
                self.listed += 2;
            }
        }
    }

    /// Takes a letter of this timer out; answers where it stood.
    pub(crate) fn remove(&mut self, timer: Key, letter: Key) -> Option<Location> {
        self.forget(timer, letter);
        self.by_delivery.remove(letter).map(|gone| gone.location())
    }

    /// A timer has one letter less.
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
        if let Some((died_ms, latest)) = several.back() {
            self.by_timer.put(Entry::naming(timer, *died_ms, *latest));
        }
        if several.len() < 2 {
            self.listed -= several.len();
            self.several.remove(&timer);
        }
    }

    /// The entry of the letter with this delivery id.
    pub(crate) fn entry(
        &self,
        hash_key: u128,
        namespace: u32,
        delivery: DeliveryId,
    ) -> Option<Entry> {
        self.by_delivery.get(key_of(hash_key, namespace, delivery))
    }

    /// Moves the location of a letter, if it still stands at the old place; answers whether it did.
    pub(crate) fn relocate(&mut self, letter: Key, from: Location, to: Location) -> bool {
        self.by_delivery.relocate(letter, from, to).is_some()
    }

    /// Where a letter stands.
    pub(crate) fn get(&self, letter: Key) -> Option<Location> {
        Some(self.by_delivery.get(letter)?.location())
    }

    /// The latest dead letter of a timer, and where it stands.
    pub(crate) fn latest(&self, timer: Key) -> Option<(Key, Location)> {
        let there = |letter: Key| Some((letter, self.get(letter)?));
        match self.several.get(&timer) {
            Some(several) => several.iter().rev().find_map(|(_, letter)| there(*letter)),
            None => there(self.by_timer.get(timer)?.named(timer.namespace())),
        }
    }

    /// Where all dead letters of a timer stand, oldest first.
    pub(crate) fn of(&self, timer: Key) -> Vec<Location> {
        match self.several.get(&timer) {
            Some(several) => several.iter().filter_map(|(_, letter)| self.get(*letter)).collect(),
            None => self.latest(timer).map(|(_, location)| location).into_iter().collect(),
        }
    }

    /// The letters of a timer that has several, as they stand in a checkpoint.
    pub(crate) fn several(&self, timer: Key) -> impl Iterator<Item = layout::Letter> {
        let several = self.several.get(&timer).into_iter().flatten();
        several.map(move |(died_ms, letter)| layout::Letter {
            timer: timer.pack(),
            died_ms: *died_ms,
            letter: letter.pack(),
        })
    }

    /// Takes over what a checkpoint has.
    pub(crate) fn restore(&mut self, copied: &layout::Letter) {
        let several = self.several.entry(Key::unpack(copied.timer)).or_default();
        several.push_back((copied.died_ms, Key::unpack(copied.letter)));
        self.listed += 1;
    }

    pub(crate) const fn by_timer(&self) -> &Index {
        &self.by_timer
    }

    pub(crate) const fn indexes_mut(&mut self) -> (&mut Index, &mut Index) {
        (&mut self.by_delivery, &mut self.by_timer)
    }

    pub(crate) const fn by_delivery(&self) -> &Index {
        &self.by_delivery
    }

    pub(crate) const fn len(&self) -> u64 {
        self.by_delivery.len() as u64
    }

    /// Memory that it owns; of the lists, at least what is in them.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.by_delivery.heap_bytes()
            + self.by_timer.heap_bytes()
            + self.several.capacity() * size_of::<(Key, VecDeque<Died>)>()
            + self.listed * size_of::<Died>()
    }
}

#[cfg(test)]
mod tests;
