//! Values ordered by due time, refined only where time is near.
//!
//! Time is cut into eras of 2^32 ms (49.7 days), in an ordered map. A stretch of time without entries
//! has no era. An era is a [`Node`]: a tree of at most five levels with 256 children each, down to
//! single milliseconds. A node starts as one unsorted bag. It is spread into its children only when it
//! is the earliest one and too big to be sorted in place. The effects:
//!
//! * Far time costs memory per entry and nothing per bucket.
//! * A dense second ends as single milliseconds that need no sorting.
//! * A sparse month is never cut up.
//!
//! Invariants:
//!
//! 1. An entry lies in exactly one bag, in the era of its due time.
//! 2. There are no empty eras.
//! 3. `len` counts the entries of all bags.
//! 4. Nothing depends on the `now` of earlier calls.

mod bag;
mod node;
mod slots;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use bag::Entry;
use node::{Level, Node, Pop};

/// Bits of a due time that are its offset within an era; entries keep only these.
const ERA_BITS: u32 = u32::BITS;

/// Values of type `T` ordered by due time in Unix milliseconds.
///
/// An entry moves at most four times between insert and pop, in blocks of a few kilobytes. It takes the
/// size of `T` plus four bytes (with the alignment of `T`) plus a few per cent of memory.
///
/// ```
/// use duly_wheel::Calendar;
///
/// let mut calendar = Calendar::new();
/// calendar.insert(2_000, "second");
/// calendar.insert(1_000, "first");
/// assert_eq!(calendar.next_due(), Some(1_000));
///
/// let mut out = Vec::new();
/// let more = calendar.pop_due(1_999, 100, &mut out);
/// assert_eq!((out, more), (vec![(1_000, "first")], false));
/// ```
pub struct Calendar<T> {
    eras: BTreeMap<u32, Node<T>>,
    len: usize,
}

impl<T: Copy> Calendar<T> {
    /// Creates an empty calendar, without heap memory.
    pub fn new() -> Self {
        Self { eras: BTreeMap::new(), len: 0 }
    }

    /// Adds an entry, in constant time. Any due time is valid: one in the past is popped by the next
    /// [`pop_due`](Self::pop_due), before everything later.
    pub fn insert(&mut self, due_ms: u64, value: T) {
        self.eras
            .entry(era_of(due_ms))
            .or_default()
            .insert(Level::ERA, Entry::new(low_of(due_ms), value));
        self.len += 1;
    }

    /// Moves up to `limit` entries with a due time `<= now_ms`, in non-decreasing due order, to the end
    /// of `out` as (due in ms, value). Among equal due times the order is arbitrary. Returns `true` if
    /// more entries with a due time `<= now_ms` remain.
    ///
    /// The work is proportional to the entries popped. If [`prepare`](Self::prepare) has not spread the
    /// earliest bucket before, this call does it and moves each entry of the bucket once per level.
    pub fn pop_due(&mut self, now_ms: u64, limit: usize, out: &mut Vec<(u64, T)>) -> bool {
        let start_len = out.len();
        let full_len = start_len.saturating_add(limit);
        let more = loop {
            let Some(mut first) = self.eras.first_entry() else {
                break false;
            };
            let era_start_ms = era_start_ms(*first.key());
            if era_start_ms > now_ms {
                break false;
            }
            let latest_low = u32::try_from(now_ms - era_start_ms).unwrap_or(u32::MAX);
            let era = first.get_mut();
            if !era.has_due(latest_low) {
                break false;
            }
            if out.len() >= full_len {
                break true;
            }
            era.pop_due(Level::ERA, &mut Pop { era_start_ms, latest_low, full_len, out });
            if era.is_empty() {
                first.remove();
            }
        };
        self.len -= out.len() - start_len;
        more
    }

    /// Returns the exact due time of the earliest entry. Visits one node of each level.
    pub fn next_due(&self) -> Option<u64> {
        let (&era, node) = self.eras.first_key_value()?;
        node.min_low().map(|low| era_start_ms(era) + u64::from(low))
    }

    /// Spreads big buckets that are about to become current into finer ones, so that
    /// [`pop_due`](Self::pop_due) never meets a big coarse one. Moves about `budget` entries, at most
    /// one block of 512 more. Returns `true` if work remains.
    ///
    /// *About to become current* counts from `now_ms`, or from the earliest entry if that is overdue. It
    /// reaches further for coarser buckets: from one second for a bucket of 256 ms to an hour for an
    /// era. So a `now_ms` that jumps ahead does not cut up all buckets.
    pub fn prepare(&mut self, now_ms: u64, budget: usize) -> bool {
        let Some(next_due_ms) = self.next_due() else {
            return false;
        };
        let from_ms = now_ms.min(next_due_ms);
        let mut budget = budget;
        for (&era, node) in &mut self.eras {
            let start_ms = era_start_ms(era);
            if start_ms > Level::ERA.horizon_ms(from_ms) {
                return false;
            }
            if node.prepare(Level::ERA, start_ms, from_ms, &mut budget) {
                return true;
            }
        }
        false
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the heap bytes held, for metrics. Visits every bucket, but neither blocks nor entries.
    /// Exact except for the map of eras, which is estimated, and the overhead of the allocator.
    pub fn heap_bytes(&self) -> usize {
        // A node of the standard library's B-tree is between half full and full.
        let map_bytes = self.eras.len() * (size_of::<u32>() + size_of::<Node<T>>()) * 3 / 2;
        map_bytes + self.eras.values().map(Node::heap_bytes).sum::<usize>()
    }

    /// Removes all entries and releases their memory.
    pub fn clear(&mut self) {
        *self = Self::new();
    }
}

impl<T: Copy> Default for Calendar<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> fmt::Debug for Calendar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calendar")
            .field("len", &self.len)
            .field("next_due_ms", &self.next_due())
            .finish_non_exhaustive()
    }
}

/// Returns the number of the era in which `due_ms` lies.
fn era_of(due_ms: u64) -> u32 {
    (due_ms >> ERA_BITS) as u32
}

/// Returns the offset of `due_ms` within its era.
fn low_of(due_ms: u64) -> u32 {
    due_ms as u32
}

fn era_start_ms(era: u32) -> u64 {
    u64::from(era) << ERA_BITS
}
