//! One small open-addressing table: linear probing, backward-shift deletion, any capacity.

use super::{Entry, Key};

/// A table grows when more than 7/8 of its slots are taken, by a quarter.
const LOAD_NUMERATOR: usize = 7;
const LOAD_DENOMINATOR: usize = 8;
const CAPACITY_MIN: usize = 8;

/// A table; empty ones own no memory.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Box<[Entry]>,
    len: usize,
}

impl Table {
    pub(super) fn get(&self, key: Key) -> Option<Entry> {
        self.find(key).map(|place| self.slots[place])
    }

    pub(super) fn put(&mut self, entry: Entry) -> Option<Entry> {
        if let Some(place) = self.find(entry.key()) {
            return Some(std::mem::replace(&mut self.slots[place], entry));
        }
        if (self.len + 1) * LOAD_DENOMINATOR > self.slots.len() * LOAD_NUMERATOR {
            self.resize((self.slots.len() + self.slots.len() / 4).max(CAPACITY_MIN));
        }
        self.insert_new(entry);
        self.len += 1;
        None
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<Entry> {
        let mut hole = self.find(key)?;
        let removed = self.slots[hole];
        let mut next = self.after(hole);
        // Entries behind the hole move up unless that would put them before their home.
        while !self.slots[next].is_empty() {
            let home = self.home(self.slots[next].key());
            let distance_from_home = self.distance(home, next);
            if distance_from_home >= self.distance(hole, next) {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.slots[hole] = Entry::EMPTY;
        self.len -= 1;
        if self.len * 3 < self.slots.len() && self.slots.len() > CAPACITY_MIN {
            self.resize((self.len + self.len / 4).max(CAPACITY_MIN));
        }
        Some(removed)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.slots.iter().copied().filter(|entry| !entry.is_empty())
    }

    pub(super) const fn heap_bytes(&self) -> usize {
        self.slots.len() * size_of::<Entry>()
    }

    fn find(&self, key: Key) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut place = self.home(key);
        while !self.slots[place].is_empty() {
            if self.slots[place].key() == key {
                return Some(place);
            }
            place = self.after(place);
        }
        None
    }

    fn insert_new(&mut self, entry: Entry) {
        let mut place = self.home(entry.key());
        while !self.slots[place].is_empty() {
            place = self.after(place);
        }
        self.slots[place] = entry;
    }

    fn resize(&mut self, capacity: usize) {
        // At least one slot stays empty, so that every probe ends.
        let capacity = capacity.max(self.len + 2);
        let old = std::mem::replace(&mut self.slots, vec![Entry::EMPTY; capacity].into());
        for entry in old.iter().filter(|entry| !entry.is_empty()) {
            self.insert_new(*entry);
        }
    }

    /// Multiply-shift range reduction (Lemire, "Fast random integer generation in an interval").
    #[expect(clippy::cast_possible_truncation)]
    const fn home(&self, key: Key) -> usize {
        ((key.spread() as u128 * self.slots.len() as u128) >> 64) as usize
    }

    const fn after(&self, place: usize) -> usize {
        if place + 1 == self.slots.len() { 0 } else { place + 1 }
    }

    const fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.slots.len() - from }
    }
}
