//! The unsorted entries of one bucket.
//!
//! A bag is a stack of blocks: full ones of [`BLOCK_ENTRIES`], and an open one at the end that grows in
//! small steps. Growing never copies more than one block. Spreading a bag returns its memory block by
//! block.
//!
//! Invariants:
//!
//! 1. Every sealed block is full.
//! 2. `span` is exact for the whole bag.
//! 3. The span kept with a sealed block covers that block and all below it. So taking blocks off the end
//!    leaves an exact span without a scan of entries.

use std::mem;

/// Entries in a full block: few enough that one moves quickly, enough that its header does not count.
pub(super) const BLOCK_ENTRIES: usize = 512;

/// Initial capacity of the first block of a bag.
const FIRST_CAPACITY: usize = 2;

/// A value and the offset of its due time within the era, as bytes so that no alignment is added.
#[derive(Clone, Copy)]
pub(super) struct Entry<T> {
    low: [u8; 4],
    value: T,
}

impl<T: Copy> Entry<T> {
    pub(super) fn new(low: u32, value: T) -> Self {
        Self { low: low.to_ne_bytes(), value }
    }

    pub(super) fn low(&self) -> u32 {
        u32::from_ne_bytes(self.low)
    }

    /// Returns the entry as (due in ms, value).
    fn timed(&self, era_start_ms: u64) -> (u64, T) {
        (era_start_ms + u64::from(self.low()), self.value)
    }
}

/// Smallest and largest offset of a set of entries; `min > max` if the set is empty.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) min: u32,
    pub(super) max: u32,
}

impl Span {
    const EMPTY: Self = Self { min: u32::MAX, max: 0 };

    pub(super) fn of<T: Copy>(entries: &[Entry<T>]) -> Self {
        let mut span = Self::EMPTY;
        for entry in entries {
            span.cover(entry.low());
        }
        span
    }

    fn cover(&mut self, low: u32) {
        self.min = self.min.min(low);
        self.max = self.max.max(low);
    }

    fn with(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

struct Sealed<T> {
    entries: Vec<Entry<T>>,
    /// Span of this block and all below it.
    span: Span,
}

pub(super) struct Bag<T> {
    sealed: Vec<Sealed<T>>,
    open: Vec<Entry<T>>,
    span: Span,
}

impl<T> Default for Bag<T> {
    fn default() -> Self {
        Self { sealed: Vec::new(), open: Vec::new(), span: Span::EMPTY }
    }
}

impl<T: Copy> Bag<T> {
    pub(super) fn len(&self) -> usize {
        self.sealed.len() * BLOCK_ENTRIES + self.open.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.sealed.is_empty()
    }

    /// Returns the offset of the earliest entry.
    pub(super) fn min_low(&self) -> Option<u32> {
        (!self.is_empty()).then_some(self.span.min)
    }

    /// Returns `true` if all entries are due at the same millisecond, so that any order is due order.
    pub(super) fn is_one_instant(&self) -> bool {
        self.span.min >= self.span.max
    }

    pub(super) fn push(&mut self, entry: Entry<T>) {
        if self.open.len() == BLOCK_ENTRIES {
            let entries = mem::take(&mut self.open);
            self.sealed.push(Sealed { entries, span: self.span });
        }
        if self.open.len() == self.open.capacity() {
            self.open.reserve_exact(self.growth());
        }
        self.open.push(entry);
        self.span.cover(entry.low());
    }

    /// Returns the number of entries by which the open block grows: by half. A new block starts in
    /// proportion to the bag, so that unused capacity stays a fraction of the whole.
    fn growth(&self) -> usize {
        let wanted = match self.open.len() {
            0 => self.len() / 8,
            len => len / 2,
        };
        wanted.max(FIRST_CAPACITY).min(BLOCK_ENTRIES - self.open.len())
    }

    /// Adds a block that was taken from another bag. A full block is adopted without a copy.
    pub(super) fn push_block(&mut self, entries: Vec<Entry<T>>) {
        if entries.len() != BLOCK_ENTRIES {
            entries.into_iter().for_each(|entry| self.push(entry));
            return;
        }
        let own = Span::of(&entries);
        let below = self.sealed.last().map_or(Span::EMPTY, |block| block.span);
        self.sealed.push(Sealed { entries, span: below.with(own) });
        self.span = self.span.with(own);
    }

    /// Removes and returns the last block, at most [`BLOCK_ENTRIES`] entries; an empty one if the bag is
    /// empty. An empty bag holds no memory.
    pub(super) fn pop_block(&mut self) -> Vec<Entry<T>> {
        let block = match mem::take(&mut self.open) {
            open if open.is_empty() => self.sealed.pop().map(|block| block.entries),
            open => Some(open),
        };
        if let Some(below) = self.sealed.last() {
            self.span = below.span;
        } else {
            *self = Self::default();
        }
        block.unwrap_or_default()
    }

    /// Moves up to `room` entries to the end of `out`. The bag must be of one instant.
    pub(super) fn pop_any(&mut self, room: usize, era_start_ms: u64, out: &mut Vec<(u64, T)>) {
        debug_assert!(self.is_one_instant());
        let span = self.span;
        let mut room = room;
        while room > 0 && !self.is_empty() {
            if self.open.is_empty() {
                self.open = self.pop_block();
            }
            let keep = self.open.len().saturating_sub(room);
            room -= self.open.len() - keep;
            out.extend(self.open.drain(keep..).map(|e| e.timed(era_start_ms)));
        }
        if self.is_empty() {
            *self = Self::default();
        } else {
            self.span = span;
        }
    }

    /// Moves the earliest `room` entries at or before `latest_low` to the end of `out`, sorted. Visits
    /// every entry, so it is only for a bag of less than one block.
    pub(super) fn pop_sorted(
        &mut self,
        latest_low: u32,
        room: usize,
        era_start_ms: u64,
        out: &mut Vec<(u64, T)>,
    ) {
        debug_assert!(self.sealed.is_empty());
        let start_len = out.len();
        let due = self.open.extract_if(.., |e| e.low() <= latest_low);
        out.extend(due.map(|e| e.timed(era_start_ms)));
        out[start_len..].sort_unstable_by_key(|&(due_ms, _)| due_ms);
        let end_len = out.len().min(start_len.saturating_add(room));
        let too_many = out.drain(end_len..);
        self.open.extend(
            too_many.map(|(due_ms, value)| Entry::new((due_ms - era_start_ms) as u32, value)),
        );
        self.span = Span::of(&self.open);
    }

    pub(super) fn heap_bytes(&self) -> usize {
        // Sealed blocks have grown to exactly their size.
        let entries = self.open.capacity() + self.sealed.len() * BLOCK_ENTRIES;
        entries * size_of::<Entry<T>>() + self.sealed.capacity() * size_of::<Sealed<T>>()
    }
}
