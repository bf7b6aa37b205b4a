//! Evictions: if a namespace has more than `max_retained` tombstones, the oldest are removed.
//!
//! ```text
//!   too many ─► find the oldest (a pass) ─► Record::Evicted { below } ─► absorb drops them
//! ```
//!
//! How it works:
//!
//! 1. An eviction is a record like every other change. The excess depended on the timers that had ended
//!    by then, so no restart could find it again.
//! 2. The record says below which end number of the namespace no tombstone is left. That holds for every
//!    possible content of a fuzzy checkpoint. In replay the last such record counts, after all records
//!    are in ([`Engine::settle_evictions`]).
//! 3. With few tombstones, the end that exceeds the limit evicts the oldest at once. With a large number,
//!    the next step evicts all that exceed it.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    format::record::Record,
    index::{Cursor, Entry, Index, Key, NUMBER_MAX, PackedKey},
};

use super::{
    super::{
        Engine, NotWritten,
        earliest::{Ascending, Earliest},
        time::AGAIN_MS,
    },
    TABLES_PER_STEP, Tombstones,
};

/// Tombstones that are visited at once; with more, a pass works in steps.
const AT_ONCE: usize = 16_384;
/// Tombstones that one call evicts.
const EVICTIONS_PER_STEP: u64 = 4_096;
/// One of every `OLDEST_SHARE` tombstones is remembered as one of the oldest, which takes a pass over all
/// of them.
const OLDEST_SHARE: usize = 8;
/// Remembered tombstones that are checked in a row, and most gone ones that one step skips.
const VISITS_AT_ONCE: usize = 256;
const GONE_MAX: usize = 16_384;
/// Fewest and most of the oldest that are remembered.
const OLDEST: std::ops::RangeInclusive<usize> = 64..=262_144;

/// End number within the namespace, and key of the timer.
pub(super) type End = (u64, PackedKey);

/// Namespaces with more than `max_retained` tombstones.
#[derive(Debug, Default)]
pub(super) struct OverLimit {
    numbers: BTreeSet<u32>,
    /// Namespace that had its turn last.
    latest: u32,
    /// Time before which no eviction is written, by the boot-time clock: the last one could not be.
    not_before_ms: u64,
    gathering: Option<OldestPass>,
    /// During replay: the end number below which no tombstone is left, by namespace.
    replayed: BTreeMap<u32, u64>,
}

/// A pass for the oldest tombstones.
#[derive(Debug)]
struct OldestPass {
    number: u32,
    cursor: Cursor,
    oldest: Earliest<End>,
    /// Number of ended timers when the pass began. Later ends are none of the oldest.
    began_at: u64,
}

impl OldestPass {
    fn offer(&mut self, entry: &Entry, ended: u64) {
        let end = end_of(entry, ended);
        if end >= self.began_at {
            return;
        }
        self.oldest.offer((end, entry.key(self.number).pack()));
    }
}

/// Returns the end number of a tombstone, given the number of ended timers. Its entry has only the low
/// bits.
fn end_of(entry: &Entry, ended: u64) -> u64 {
    let low = u64::from(entry.number());
    let age = ended.wrapping_sub(1).wrapping_sub(low) & u64::from(NUMBER_MAX);
    ended.saturating_sub(1 + age)
}

/// Returns `true` if the tombstone of this end still exists.
fn is_there(tombstones: &Index, (end, key): End) -> bool {
    let entry = tombstones.get(Key::unpack(key));
    entry.is_some_and(|entry| u64::from(entry.number()) == end & u64::from(NUMBER_MAX))
}

impl Tombstones {
    fn oldest_wanted(&self) -> usize {
        (self.index.len() / OLDEST_SHARE).clamp(*OLDEST.start(), *OLDEST.end())
    }

    /// Returns the end number below which the `count` oldest tombstones are, or as many of them as are
    /// known.
    fn below(&mut self, count: u64) -> Option<u64> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut gone = 0;
        loop {
            let front = self.oldest.front(count.max(VISITS_AT_ONCE));
            let visited = front.len();
            self.index.warm(front.iter().map(|(_, key)| Key::unpack(*key)));
            let there = front.iter().filter(|end| is_there(&self.index, **end));
            match there.take(count).last() {
                Some((last, _)) => return Some(last + 1),
                None if visited == 0 => return None,
                // Most of the remembered ones are gone: another pass finds the oldest.
                None if gone > GONE_MAX => self.oldest = Ascending::default(),
                None => {
                    gone += visited;
                    self.oldest.take_out(visited);
                }
            }
        }
    }
}

impl Engine {
    /// Evicts the tombstones of a namespace that exceed the limit. With a large number of tombstones, the
    /// next step does it.
    pub(in crate::engine) fn evict_tombstones(&mut self, number: u32) {
        let Some(namespace) = self.namespaces.get(number) else {
            return;
        };
        let is_small = namespace.tombstones.index.len() <= AT_ONCE;
        let mut left = EVICTIONS_PER_STEP;
        while let over @ 1.. = self.tombstones_over(number) {
            let evicted = if is_small { self.evict(number, over.min(left)) } else { 0 };
            left = left.saturating_sub(evicted);
            if evicted == 0 || left == 0 {
                self.tombstone_passes.over_limit.numbers.insert(number);
                self.busy = true;
                return;
            }
        }
    }

    /// Returns the number of tombstones of a namespace past `max_retained`.
    fn tombstones_over(&self, number: u32) -> u64 {
        self.namespaces.get(number).map_or(0, |namespace| {
            namespace.tombstones.len().saturating_sub(namespace.record.settings.limits.max_retained)
        })
    }

    /// Evicts some of the oldest tombstones, at most `most`. Returns how many.
    fn evict(&mut self, number: u32, most: u64) -> u64 {
        let below = |engine: &mut Self| engine.namespaces.get_mut(number)?.tombstones.below(most);
        let mut known = below(self);
        let before = self.namespaces.get(number).map_or(0, |namespace| namespace.tombstones.len());
        if known.is_none() && before <= AT_ONCE as u64 {
            self.gather_at_once(number);
            known = below(self);
        }
        let Some(below) = known else {
            return 0;
        };
        match self.write(number, &Record::Evicted { below }) {
            Ok(()) => {}
            Err(NotWritten::Refused(_) | NotWritten::Unread(_) | NotWritten::NotNow(_)) => {
                self.tombstone_passes.over_limit.not_before_ms = self.now.boot_ms + AGAIN_MS;
                return 0;
            }
            Err(NotWritten::Terminal) => return 0,
        }
        before - self.namespaces.get(number).map_or(0, |namespace| namespace.tombstones.len())
    }

    /// Applies an eviction record to the state.
    pub(in crate::engine) fn absorb_evicted(&mut self, number: u32, below: u64) {
        if self.replaying {
            self.tombstone_passes.over_limit.replayed.insert(number, below);
            return;
        }
        while let Some(namespace) = self.namespaces.get_mut(number)
            && let Some(end) = namespace.tombstones.oldest.front(1).first().copied()
            && end.0 < below
        {
            namespace.tombstones.oldest.take_out(1);
            if is_there(&namespace.tombstones.index, end) {
                self.drop_tombstone(Key::unpack(end.1));
            }
        }
    }

    /// Runs after replay: drops the tombstones that eviction records name, and finds the namespaces with
    /// too many.
    pub(in crate::engine) fn settle_evictions(&mut self) {
        for (number, below) in std::mem::take(&mut self.tombstone_passes.over_limit.replayed) {
            let Some(namespace) = self.namespaces.get(number) else {
                continue;
            };
            let ended = namespace.ended();
            let mut evicted = Vec::new();
            let mut cursor = Some(Cursor::START);
            while let Some(scan) = cursor.and_then(|from| namespace.tombstones.index.scan(from)) {
                cursor = scan.next;
                let gone = scan.entries().filter(|entry| end_of(entry, ended) < below);
                evicted.extend(gone.map(|entry| entry.key(number)));
            }
            evicted.into_iter().for_each(|key| self.drop_tombstone(key));
        }
        let over_limit: Vec<u32> = self.namespaces.iter().map(|(number, _)| number).collect();
        let over_limit =
            over_limit.into_iter().filter(|number| self.tombstones_over(*number) > 0).collect();
        self.tombstone_passes.over_limit.numbers = over_limit;
    }

    fn gather_at_once(&mut self, number: u32) {
        let Some(mut gathering) = self.begin_gathering(number) else {
            return;
        };
        while !self.gather(&mut gathering) {}
        self.end_gathering(gathering);
    }

    fn begin_gathering(&self, number: u32) -> Option<OldestPass> {
        let namespace = self.namespaces.get(number)?;
        let (wanted, began_at) = (namespace.tombstones.oldest_wanted(), namespace.ended());
        Some(OldestPass { number, cursor: Cursor::START, oldest: Earliest::new(wanted), began_at })
    }

    /// Visits some more tombstones. Returns `true` if all were visited.
    fn gather(&self, gathering: &mut OldestPass) -> bool {
        let Some(namespace) = self.namespaces.get(gathering.number) else {
            return true;
        };
        for _ in 0..TABLES_PER_STEP {
            let (index, ended) = (&namespace.tombstones.index, namespace.ended());
            match index.visit(gathering.cursor, |entry| gathering.offer(&entry, ended)) {
                Some(next) => gathering.cursor = next,
                None => return true,
            }
        }
        false
    }

    fn end_gathering(&mut self, gathering: OldestPass) {
        if let Some(namespace) = self.namespaces.get_mut(gathering.number) {
            namespace.tombstones.oldest = Ascending::of(gathering.oldest.into_parts().0);
        }
    }

    /// Runs one step for one of the namespaces with too many tombstones.
    pub(super) fn run_eviction_pass(&mut self) {
        let over_limit = &mut self.tombstone_passes.over_limit;
        if let Some(mut gathering) = over_limit.gathering.take() {
            if self.gather(&mut gathering) {
                self.end_gathering(gathering);
            } else {
                self.tombstone_passes.over_limit.gathering = Some(gathering);
            }
        } else if self.now.boot_ms < over_limit.not_before_ms {
            return;
        } else if let Some(number) = over_limit.next() {
            let over = self.tombstones_over(number);
            if over == 0 {
                self.tombstone_passes.over_limit.numbers.remove(&number);
            } else if self.evict(number, over.min(EVICTIONS_PER_STEP)) == 0 {
                self.tombstone_passes.over_limit.gathering = self.begin_gathering(number);
            }
        }
        let over_limit = &self.tombstone_passes.over_limit;
        self.busy |= over_limit.gathering.is_some() || !over_limit.numbers.is_empty();
    }
}

impl OverLimit {
    /// Returns the namespace whose turn it is.
    fn next(&mut self) -> Option<u32> {
        let behind = self.numbers.range(self.latest.saturating_add(1)..).next();
        self.latest = *behind.or_else(|| self.numbers.first())?;
        Some(self.latest)
    }
}
