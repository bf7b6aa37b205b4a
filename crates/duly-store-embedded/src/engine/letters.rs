//! Dead letters of one namespace: found by delivery id and by timer, kept whole in the files.
//!
//! Two index entries for each letter, 48 bytes and a little. A timer with more than one letter (an
//! id that was used again, a repeating timer) has the rest of them in a list of its own.
//!
//! Invariants: `by_timer` points at the latest letter of a timer; `several` has all letters of a
//! timer that has more than one, oldest first, and nothing of any other timer.

use std::collections::VecDeque;

use duly_core::DeliveryId;
use rustc_hash::FxHashMap;

use crate::{
    format::checkpoint as layout,
    index::{Claimable, Cursor, Entry, Index, Key, Kind, Location, PackedKey},
};

/// A letter that comes in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewLetter {
    pub(crate) delivery: DeliveryId,
    pub(crate) timer: Key,
    pub(crate) due_ms: u64,
    pub(crate) died_ms: u64,
    pub(crate) location: Location,
}

/// When a letter of a timer with several was given up, and its delivery id.
pub(crate) type Died = (u64, DeliveryId);

/// The dead letters of a namespace.
#[derive(Debug)]
pub(crate) struct Letters {
    /// By the key of the delivery id; the time is the due time.
    by_delivery: Index,
    /// By timer: the latest; the time is when it was given up.
    by_timer: Index,
    several: FxHashMap<Key, VecDeque<Died>>,
}

/// Stands for a delivery id that nobody knows because the letter's record is damaged: the latest
/// letter of the timer is meant.
pub(crate) const UNKNOWN_DELIVERY: DeliveryId = DeliveryId::from_u128(0);

/// Stands for a timer that nobody knows because the letter's record is damaged.
pub(crate) fn unknown_timer(namespace: u32) -> Key {
    let mut packed = [0; size_of::<PackedKey>()];
    packed[8..].copy_from_slice(&namespace.to_le_bytes());
    Key::unpack(packed)
}

/// The key under which a delivery id is found.
pub(super) fn key_of(hash_key: u128, namespace: u32, delivery: DeliveryId) -> Key {
    Key::of_bytes(hash_key, namespace, &delivery.to_u128().to_le_bytes())
}

impl Default for Letters {
    fn default() -> Self {
        Self { by_delivery: Index::new(), by_timer: Index::new(), several: FxHashMap::default() }
    }
}

impl Letters {
    /// Where the letter of a timer stands that has exactly one.
    pub(crate) fn only(&self, timer: Key) -> Option<Location> {
        if self.several.contains_key(&timer) { None } else { self.latest(timer) }
    }

    /// Puts a letter in; answers where the same one stood before. `only` is the delivery id of the
    /// timer's letter, where it has exactly one.
    pub(crate) fn put(
        &mut self,
        hash_key: u128,
        letter: NewLetter,
        only: Option<DeliveryId>,
    ) -> Option<Location> {
        let NewLetter { delivery, timer, due_ms, died_ms, location } = letter;
        let key = key_of(hash_key, timer.namespace(), delivery);
        let entry =
            |key, at_ms| Entry::new(key, 0, Claimable { at_ms, kind: Kind::First }, location);
        let old = self.by_delivery.put(entry(key, due_ms)).map(|old| old.location());
        let latest = self.by_timer.get(timer);
        self.by_timer.put(entry(timer, died_ms));
        match (self.several.get_mut(&timer), latest) {
            (Some(several), _) => {
                several.retain(|(_, known)| *known != delivery);
                several.push_back((died_ms, delivery));
            }
            (None, Some(latest)) => {
                if let Some(first) = only.filter(|first| *first != delivery) {
                    let both = [(latest.claimable().at_ms, first), (died_ms, delivery)];
                    self.several.insert(timer, both.into());
                }
            }
            (None, None) => {}
        }
        old
    }

    /// Takes a letter of this timer out; answers where it stood.
    pub(crate) fn remove(
        &mut self,
        hash_key: u128,
        timer: Key,
        delivery: DeliveryId,
    ) -> Option<Location> {
        let key = key_of(hash_key, timer.namespace(), delivery);
        match (self.by_delivery.get(key), self.by_timer.get(timer)) {
            (Some(_), Some(_)) => {}
            // At replay: the checkpoint copied what was left when this one had gone.
            (None, _) if delivery != UNKNOWN_DELIVERY => return None,
            _ => return self.remove_damaged(key, timer),
        }
        let gone = self.by_delivery.remove(key)?.location();
        let Some(several) = self.several.get_mut(&timer) else {
            self.by_timer.remove(timer);
            return Some(gone);
        };
        if let Some(place) = several.iter().position(|(_, known)| *known == delivery) {
            several.remove(place);
        }
        let (latest, left) = (several.back().copied(), several.len());
        if left < 2 {
            self.several.remove(&timer);
        }
        match latest.and_then(|(died_ms, latest)| {
            let key = key_of(hash_key, timer.namespace(), latest);
            Some((died_ms, self.by_delivery.get(key)?.location()))
        }) {
            Some((at_ms, location)) => {
                let claimable = Claimable { at_ms, kind: Kind::First };
                self.by_timer.put(Entry::new(timer, 0, claimable, location));
            }
            None => drop(self.by_timer.remove(timer)),
        }
        Some(gone)
    }

    /// Takes out a letter of which only one name is known, by looking for its place.
    fn remove_damaged(&mut self, delivery: Key, timer: Key) -> Option<Location> {
        let known = self.by_delivery.get(delivery).or_else(|| self.by_timer.get(timer))?;
        let location = known.location();
        for index in [&mut self.by_delivery, &mut self.by_timer] {
            let mut cursor = Some(Cursor::START);
            while let Some(scan) = cursor.and_then(|from| index.scan(from)) {
                cursor = scan.next;
                let here = scan.entries().find(|entry| entry.location() == location);
                if let Some(entry) = here {
                    index.remove(entry.key(timer.namespace()));
                    break;
                }
            }
        }
        Some(location)
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
    pub(crate) fn relocate(
        &mut self,
        hash_key: u128,
        timer: Key,
        delivery: DeliveryId,
        (from, to): (Location, Location),
    ) -> bool {
        let key = key_of(hash_key, timer.namespace(), delivery);
        let did = self.by_delivery.relocate(key, from, to);
        self.by_timer.relocate(timer, from, to);
        did
    }

    /// Where the letter with this delivery id stands.
    pub(crate) fn get(
        &self,
        hash_key: u128,
        namespace: u32,
        delivery: DeliveryId,
    ) -> Option<Location> {
        Some(self.by_delivery.get(key_of(hash_key, namespace, delivery))?.location())
    }

    /// Where the latest dead letter of a timer stands.
    pub(crate) fn latest(&self, timer: Key) -> Option<Location> {
        Some(self.by_timer.get(timer)?.location())
    }

    /// Where all dead letters of a timer stand, oldest first.
    pub(crate) fn of(&self, hash_key: u128, timer: Key) -> Vec<Location> {
        match self.several.get(&timer) {
            Some(several) => several
                .iter()
                .filter_map(|(_, id)| self.get(hash_key, timer.namespace(), *id))
                .collect(),
            None => self.latest(timer).into_iter().collect(),
        }
    }

    pub(crate) const fn by_timer(&self) -> &Index {
        &self.by_timer
    }

    /// The letters of timers that have several, in order for each timer.
    pub(crate) fn several(&self) -> Vec<layout::Letter> {
        let letter = |key: &Key, (died_ms, delivery): &Died| layout::Letter {
            key: key.pack(),
            died_ms: *died_ms,
            delivery: delivery.to_u128(),
        };
        let all = self.several.iter();
        all.flat_map(|(key, died)| died.iter().map(move |died| letter(key, died))).collect()
    }

    /// Takes over what a checkpoint has.
    pub(crate) fn restore(&mut self, letter: &layout::Letter) {
        let several = self.several.entry(Key::unpack(letter.key)).or_default();
        several.push_back((letter.died_ms, DeliveryId::from_u128(letter.delivery)));
    }

    pub(crate) const fn indexes_mut(&mut self) -> (&mut Index, &mut Index) {
        (&mut self.by_delivery, &mut self.by_timer)
    }

    pub(crate) const fn by_delivery(&self) -> &Index {
        &self.by_delivery
    }

    /// One entry for each letter.
    pub(crate) fn into_index(self) -> Index {
        self.by_delivery
    }

    pub(crate) const fn len(&self) -> u64 {
        self.by_delivery.len() as u64
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.by_delivery.heap_bytes() + self.by_timer.heap_bytes()
    }
}
