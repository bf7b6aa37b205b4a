//! Tombstones of one namespace, and the passes that remove them.
//!
//! A tombstone is an index entry whose time is the end of its timer. Nothing else is kept for it. The
//! retention that the namespace has now says for how long it is kept:
//!
//! 1. A changed retention, shorter or longer, counts for every tombstone that is still kept. No entry is
//!    written again for that.
//! 2. A tombstone whose retention was over stays over: a longer retention does not restore it.
//! 3. On disk a tombstone has the time at which its retention is over. The walk of a checkpoint adds the
//!    retention, and loading subtracts it. Both use the retention in the checkpoint.
//! 4. Replay drops no tombstone by time: the retention may still change in a later record.
//!
//! A lookup that meets a tombstone past its retention finds nothing. Passes over the namespace's
//! tombstones, in small steps, remove:
//!
//! 1. Those past their retention, as soon as it is over for the first. In a namespace with a large number
//!    of tombstones this is a little later, so that the passes cost a fraction of a core at any size.
//! 2. The oldest, if there are more than `max_retained` ([`evict`]).

use std::collections::BTreeSet;

use duly_core::{Millis, Timestamp};

use crate::index::{AttemptKind, Claimable, Cursor, Entry, Index, Key, Location};

use super::{Engine, earliest::Ascending};

mod evict;

use evict::{End, OverLimit};

/// Tables of an index that one step of a pass visits.
const TABLES_PER_STEP: usize = 8;
/// Tombstones that one step of a pass removes, plus the rest of a table.
const REMOVALS_PER_STEP: usize = 4_096;
/// Tombstones per millisecond since the last pass that a pass for ended ones may visit.
const VISITS_PER_MS: u64 = 1_000;

/// A tombstone to add.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewTombstone {
    /// Time at which the timer ended.
    pub(super) ended_ms: u64,
    /// Number of the namespace's timers that had ended before.
    pub(super) number: u32,
    pub(super) location: Location,
}

/// The tombstones of a namespace.
#[derive(Debug)]
pub(crate) struct Tombstones {
    pub(crate) index: Index,
    retention_ms: u64,
    /// Tombstones of timers that ended by this time are over, also under a longer retention.
    over_until_ms: u64,
    /// Time of the next pass for ended tombstones; `u64::MAX`: no tombstone waits for its end.
    pass_at_ms: u64,
    /// The oldest by number, for eviction; some may be gone already.
    oldest: Ascending<End>,
}

impl Tombstones {
    pub(super) fn new(retention: Millis) -> Self {
        Self {
            index: Index::new(),
            retention_ms: retention.ms(),
            over_until_ms: 0,
            pass_at_ms: u64::MAX,
            oldest: Ascending::default(),
        }
    }

    /// Applies the retention that the namespace has from `now` on. Returns `true` if it is another.
    pub(super) fn set_retention(&mut self, retention: Millis, now: Timestamp) -> bool {
        if retention.ms() > self.retention_ms {
            // A timer may still end in this millisecond, under the longer retention.
            let over_until_ms = now.unix_ms().saturating_sub(self.retention_ms.max(1));
            self.over_until_ms = self.over_until_ms.max(over_until_ms);
        }
        std::mem::replace(&mut self.retention_ms, retention.ms()) != retention.ms()
    }

    /// Restores an earlier retention, in replay.
    pub(super) const fn restore_retention(&mut self, retention_ms: u64) {
        self.retention_ms = retention_ms;
    }

    /// Keeps `over_until_ms` below the end of a timer that ends now. The clock may have been ahead when the
    /// retention was raised.
    const fn admit(&mut self, ended_ms: u64) {
        if ended_ms <= self.over_until_ms {
            self.over_until_ms = ended_ms.saturating_sub(1);
        }
    }

    pub(crate) const fn retention_ms(&self) -> u64 {
        self.retention_ms
    }

    /// Returns the time at which the retention of a tombstone is over.
    pub(crate) const fn end_of(&self, entry: &Entry) -> u64 {
        let ended_ms = entry.claimable().at_ms;
        if ended_ms <= self.over_until_ms { 0 } else { ended_ms + self.retention_ms }
    }

    /// Returns the number of tombstones, which may include ended ones.
    pub(crate) fn len(&self) -> u64 {
        self.index.len() as u64
    }

    /// Returns a tombstone whose retention is not over.
    pub(crate) fn get(&self, key: Key, now_ms: u64) -> Option<Entry> {
        self.index.get(key).filter(|entry| self.end_of(entry) > now_ms)
    }
}

/// The passes over tombstones, of all namespaces.
#[derive(Debug, Default)]
pub(super) struct TombstonePasses {
    /// Time of the next pass for ended tombstones of each namespace.
    ends: BTreeSet<(u64, u32)>,
    ending: Option<EndPass>,
    over_limit: OverLimit,
}

/// A pass for ended tombstones.
#[derive(Debug)]
struct EndPass {
    number: u32,
    cursor: Cursor,
    /// Earliest end of the tombstones that stay.
    next_ms: u64,
}

impl Engine {
    pub(super) fn keep_tombstone(&mut self, key: Key, tombstone: NewTombstone) {
        let NewTombstone { ended_ms, number: order, location } = tombstone;
        let claimable = Claimable { at_ms: ended_ms, kind: AttemptKind::First };
        let entry = Entry::new(key, 0, claimable, location).with_number(order);
        let number = key.namespace();
        let ends_ms = self.namespaces.get_mut(number).map_or(0, |namespace| {
            namespace.tombstones.admit(ended_ms);
            namespace.tombstones.end_of(&entry)
        });
        if ends_ms <= self.now.wall_ms && !self.replaying {
            self.drop_tombstone(key);
            return;
        }
        self.files.retain(location);
        let old = self.namespaces.with(number, |namespace| namespace.tombstones.index.put(entry));
        if let Some(old) = old.flatten() {
            self.files.release(old.location());
        }
        self.note_tombstone_end(number, ends_ms);
    }

    pub(super) fn drop_tombstone(&mut self, key: Key) {
        let old = self.namespaces.with(key.namespace(), |ns| ns.tombstones.index.remove(key));
        if let Some(old) = old.flatten() {
            self.files.release(old.location());
        }
    }

    /// Runs after a change of a namespace's retention: schedules a pass.
    pub(super) fn note_retention(&mut self, number: u32) {
        if self.namespaces.get(number).is_some_and(|ns| !ns.tombstones.index.is_empty()) {
            self.note_tombstone_end(number, self.now.wall_ms);
        }
    }

    /// Schedules a pass over a namespace for the end of its next tombstone.
    pub(super) fn note_tombstone_end(&mut self, number: u32, ends_ms: u64) {
        let Some(namespace) = self.namespaces.get_mut(number) else {
            return;
        };
        let tombstones = &mut namespace.tombstones;
        if ends_ms < tombstones.pass_at_ms {
            self.tombstone_passes.ends.remove(&(tombstones.pass_at_ms, number));
            self.tombstone_passes.ends.insert((ends_ms, number));
            tombstones.pass_at_ms = ends_ms;
        }
    }

    /// One step of the passes over tombstones.
    pub(super) fn run_tombstone_passes(&mut self) {
        self.run_end_pass();
        self.run_eviction_pass();
    }

    fn run_end_pass(&mut self) {
        let now_ms = self.now.wall_ms;
        let mut removed = 0;
        for _ in 0..TABLES_PER_STEP {
            if removed >= REMOVALS_PER_STEP {
                break;
            }
            let Some(mut ending) =
                self.tombstone_passes.ending.take().or_else(|| self.next_end_pass())
            else {
                return;
            };
            let namespace = self.namespaces.get(ending.number);
            let scan = namespace.and_then(|ns| ns.tombstones.index.scan(ending.cursor));
            let (mut over, mut next) = (Vec::new(), None);
            if let (Some(scan), Some(namespace)) = (scan, namespace) {
                next = scan.next;
                for entry in scan.entries() {
                    let ends_ms = namespace.tombstones.end_of(&entry);
                    if ends_ms <= now_ms {
                        over.push(entry.key(ending.number));
                    } else {
                        ending.next_ms = ending.next_ms.min(ends_ms);
                    }
                }
            }
            removed += over.len();
            over.into_iter().for_each(|key| self.drop_tombstone(key));
            match next {
                Some(cursor) => self.tombstone_passes.ending = Some(EndPass { cursor, ..ending }),
                None => self.finish_end_pass(&ending),
            }
        }
        // Other tombstones may have ended, too: the next step checks.
        self.busy |= self.tombstone_passes.ending.is_some() || removed >= REMOVALS_PER_STEP;
    }

    fn next_end_pass(&mut self) -> Option<EndPass> {
        let (at_ms, number) = *self.tombstone_passes.ends.first()?;
        if at_ms > self.now.wall_ms {
            return None;
        }
        self.tombstone_passes.ends.pop_first();
        let namespace = self.namespaces.get_mut(number)?;
        namespace.tombstones.pass_at_ms = u64::MAX;
        Some(EndPass { number, cursor: Cursor::START, next_ms: u64::MAX })
    }

    fn finish_end_pass(&mut self, ending: &EndPass) {
        if ending.next_ms == u64::MAX {
            return;
        }
        let count = self.namespaces.get(ending.number).map_or(0, |ns| ns.tombstones.len());
        let rest_ms = count / VISITS_PER_MS;
        let next_ms = ending.next_ms.max(self.now.wall_ms.saturating_add(rest_ms));
        self.note_tombstone_end(ending.number, next_ms);
    }
}

#[cfg(test)]
mod tests;
