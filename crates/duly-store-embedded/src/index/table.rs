//! One small open-addressing table: the entries of one span, in the order of their fingerprints.
//!
//! 1. The table uses ordered linear probing: an entry is at its home slot or behind it, with no empty
//!    slot between, and all entries are in order.
//! 2. So a search ends at the first slot that is not below its target, whether the target exists or not.
//!    Splitting, merging and scanning are copies from front to back.
//! 3. Nothing wraps around: the last slots are not the home of any entry.
//! 4. Capacities follow the size classes of the common allocators (four to a doubling), so that the
//!    allocator uses no more memory than is counted here.

use super::{entry::Entry, key::Fingerprint, span::Span};

/// Slots at the end that are not homes. If a cluster of entries needs more, the table grows.
const TAIL: usize = 15;
const SLOTS_MIN: usize = 2;
/// Slots that a search compares at once.
const FIRST: usize = 4;

/// The table of a span; an empty one owns no memory.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Box<[Entry]>,
    len: u32,
    /// Number of home slots, from the first.
    homes: u32,
    span: Span,
}

impl Table {
    pub(super) fn new(span: Span) -> Self {
        Self { span, ..Self::default() }
    }

    /// Makes a table of these entries, which are in order.
    pub(super) fn of(span: Span, entries: &[Entry]) -> Self {
        Self::filled(span, slots_for(entries.len()), entries.iter().copied())
    }

    /// Makes a table of `slots` slots, or more if the entries need it. The entries are in order.
    fn filled(span: Span, slots: usize, entries: impl Iterator<Item = Entry>) -> Self {
        let homes = to_u32(slots.saturating_sub(TAIL).max(1));
        let mut filled = vec![Entry::EMPTY; slots];
        let mut len = 0;
        let mut next = 0;
        for entry in entries {
            let place = span.home(entry.low(), homes).max(next);
            if place < filled.len() {
                filled[place] = entry;
            } else {
                filled.push(entry);
            }
            next = place + 1;
            len += 1;
        }
        if next > slots {
            filled.resize(rounded(next), Entry::EMPTY);
        }
        Self { slots: filled.into(), len, homes, span }
    }

    pub(super) const fn len(&self) -> usize {
        self.len as usize
    }

    pub(super) const fn span(&self) -> Span {
        self.span
    }

    pub(super) const fn heap_bytes(&self) -> usize {
        self.slots.len() * size_of::<Entry>()
    }

    /// Returns the entry that [`Self::find`] has found.
    pub(super) const fn at(&self, place: usize) -> &Entry {
        &self.slots[place]
    }

    /// Returns the entry that [`Self::find`] has found, for changes that keep its fingerprint.
    pub(super) const fn at_mut(&mut self, place: usize) -> &mut Entry {
        &mut self.slots[place]
    }

    /// Puts an entry in. Returns the entry that it replaces.
    ///
    /// It takes a reference: a copy before the search would have to wait for the caller's writes, which
    /// queue behind those of the put before.
    #[inline]
    pub(super) fn put(&mut self, entry: &Entry) -> Option<Entry> {
        match self.find(entry.fingerprint()) {
            Ok(place) => Some(std::mem::replace(&mut self.slots[place], *entry)),
            Err(place) => {
                self.insert(place, entry);
                None
            }
        }
    }

    /// Removes the entry that [`Self::find`] has found.
    pub(super) fn remove(&mut self, place: usize) -> Entry {
        let removed = self.slots[place];
        // Following entries that are not at their home slot move up.
        let behind = place + 1;
        let moving = self.slots[behind..]
            .iter()
            .enumerate()
            .take_while(|(n, next)| !next.is_empty() && self.home(next.low()) < behind + n)
            .count();
        self.slots.copy_within(behind..behind + moving, place);
        self.slots[place + moving] = Entry::EMPTY;
        self.len -= 1;
        if self.len == 0 {
            *self = Self::new(self.span);
        } else if self.len() * 3 < self.slots.len() && self.slots.len() > SLOTS_MIN {
            self.rebuild(slots_for(self.len() + self.len() / 8));
        }
        removed
    }

    /// Returns the entries from a position on, in order.
    pub(super) fn from(&self, position: u64) -> impl Iterator<Item = Entry> {
        self.iter().skip_while(move |entry| entry.position() < position)
    }

    fn iter(&self) -> impl Iterator<Item = Entry> {
        self.slots.iter().copied().filter(|entry| !entry.is_empty())
    }

    /// Returns the tables of the two halves of its span.
    pub(super) fn split(&self) -> (Self, Self) {
        let (first, second) = self.span.halves();
        let ends = second.start();
        let below = self.iter().take_while(|entry| entry.position() < ends).count();
        let above = self.len() - below;
        // Both tables are going to grow.
        let slots = |len| slots_for(len + len / 16);
        (
            Self::filled(first, slots(below), self.iter().take(below)),
            Self::filled(second, slots(above), self.iter().skip(below)),
        )
    }

    /// Makes the table of a span from those of its halves.
    pub(super) fn merged(span: Span, first: &Self, second: &Self) -> Self {
        debug_assert_eq!(span.halves(), (first.span, second.span));
        let slots = slots_for(first.len() + second.len());
        Self::filled(span, slots, first.iter().chain(second.iter()))
    }

    /// Returns the place of an entry, or the place where it belongs: the first that is not before it.
    #[inline]
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Result<usize, usize> {
        let mut place = self.home(fingerprint.low);
        // Most searches end within the first few slots. Counting those takes no branch that the
        // processor could predict wrongly.
        if let Some((first, _)) = self.slots[place..].split_first_chunk::<FIRST>() {
            place += first.iter().filter(|slot| slot.low() < fingerprint.low).count();
        }
        self.find_from(place, fingerprint)
    }

    /// Reads the word where a search begins; see [`super::Index::touch`].
    #[inline]
    pub(super) fn touch(&self, fingerprint: Fingerprint) -> u64 {
        self.slots.get(self.home(fingerprint.low)).map_or(0, Entry::low)
    }

    /// Finds an entry that may be removed. While the processor waits for the first slots it predicts the
    /// end of the search, and already reads the slots behind, which have to move.
    #[inline]
    pub(super) fn find_to_remove(&self, fingerprint: Fingerprint) -> Option<usize> {
        self.find_from(self.home(fingerprint.low), fingerprint).ok()
    }

    #[inline]
    fn find_from(&self, mut place: usize, fingerprint: Fingerprint) -> Result<usize, usize> {
        for slot in &self.slots[place..] {
            if slot.low() >= fingerprint.low {
                if slot.low() > fingerprint.low || slot.is_empty() {
                    return Err(place);
                }
                if slot.fingerprint() == fingerprint {
                    return Ok(place);
                }
            }
            place += 1;
        }
        Err(place)
    }

    /// Puts an entry at its place; the following entries move by one, up to the next empty slot.
    #[inline(never)]
    fn insert(&mut self, place: usize, entry: &Entry) {
        let home = self.home(entry.low());
        let Some(run) = self.slots[home..].iter().position(Entry::is_empty) else {
            let before = self.iter().take_while(|other| other.low() <= entry.low()).count();
            let all = self.iter().take(before).chain([*entry]).chain(self.iter().skip(before));
            *self = Self::filled(self.span, larger(self.slots.len()), all);
            return;
        };
        self.slots.copy_within(place..home + run, place + 1);
        self.slots[place] = *entry;
        self.len += 1;
        if self.len() > len_max(self.slots.len()) {
            self.rebuild(larger(self.slots.len()));
        }
    }

    fn rebuild(&mut self, slots: usize) {
        *self = Self::filled(self.span, slots, self.iter());
    }

    #[inline]
    const fn home(&self, low: u64) -> usize {
        self.span.home(low, self.homes)
    }
}

/// Returns the most entries in this many slots: 7/8 of them.
const fn len_max(slots: usize) -> usize {
    slots - slots / 8
}

/// Returns the number of slots for this many entries.
fn slots_for(len: usize) -> usize {
    if len == 0 { 0 } else { rounded(len + len / 7) }
}

/// Returns the next larger number of slots.
fn larger(slots: usize) -> usize {
    rounded(slots + 1)
}

/// Returns the least number of slots, from `slots` on, that fill a size class of the allocator.
fn rounded(slots: usize) -> usize {
    let bytes = slots.max(SLOTS_MIN) * size_of::<Entry>();
    let step = (bytes.next_power_of_two() / 8).max(16);
    bytes.next_multiple_of(step) / size_of::<Entry>()
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("a table is far below 4 G slots")
}

#[cfg(test)]
mod tests;
