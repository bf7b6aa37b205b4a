//! Counts over all namespaces, and over the due timers of their lanes. They are updated with every change,
//! so the health of a store with a very large number of namespaces needs no walk over them.

use std::collections::BTreeSet;

use duly_core::Settings;

use super::{
    super::{lane_due::LaneDue, refill::LaneKindKey},
    Namespace, NamespaceRecord,
};

/// The counts of one namespace, or of all of them together.
#[derive(Debug, Default)]
pub(crate) struct NamespaceSums {
    /// Pending timers.
    pub(crate) pending: u64,
    /// Dead letters.
    pub(crate) dead: u64,
    /// Tombstones of ended timers.
    pub(crate) retained: u64,
    /// Memory of the indexes, settings and lanes.
    pub(crate) index_bytes: u64,
    /// Namespaces that are paused.
    pub(crate) paused: u64,
    /// Namespaces that have as many dead letters as they may have.
    pub(crate) dead_full: u64,
}

impl NamespaceSums {
    pub(super) fn of(namespace: &Namespace) -> Self {
        let bytes = namespace.fixed_bytes
            + namespace.live.heap_bytes()
            + namespace.tombstones.index.heap_bytes()
            + namespace.dead_letters.heap_bytes()
            + namespace.lanes.heap_bytes();
        Self {
            pending: namespace.live.len() as u64,
            dead: namespace.dead(),
            retained: namespace.tombstones.len(),
            index_bytes: bytes as u64,
            paused: u64::from(namespace.record.paused),
            dead_full: u64::from(namespace.is_dead_full()),
        }
    }

    /// Replaces the counts `before` of a namespace with `after`.
    pub(super) fn replace(&mut self, before: Self, after: Self) {
        let change = |all: &mut u64, before: u64, after: u64| *all = *all + after - before;
        change(&mut self.pending, before.pending, after.pending);
        change(&mut self.dead, before.dead, after.dead);
        change(&mut self.retained, before.retained, after.retained);
        change(&mut self.index_bytes, before.index_bytes, after.index_bytes);
        change(&mut self.paused, before.paused, after.paused);
        change(&mut self.dead_full, before.dead_full, after.dead_full);
    }
}

/// Returns the memory of an empty namespace: its settings, and its entries in the tables by number (up to
/// half of which is free) and by name.
pub(super) fn fixed_bytes(record: &NamespaceRecord) -> usize {
    /// Memory that the allocator and tree nodes add to the name, which is stored twice.
    const NODES_BYTES: usize = 160;
    let settings = size_of::<Settings>() + record.settings.heap_bytes();
    2 * size_of::<(u32, Namespace)>() + NODES_BYTES + 2 * record.name.as_str().len() + settings
}

/// Counts of the due timers in the lanes of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct DueCounts {
    /// Due timers in the resident windows.
    pub(super) resident: usize,
    /// All due timers.
    pub(crate) len: u64,
    /// Of these, the unreadable ones.
    pub(crate) unreadable: u64,
    /// Earliest due timer of each lane, as far as it is known.
    firsts: BTreeSet<(u64, LaneKindKey)>,
}

impl DueCounts {
    /// Returns the time at which the earliest due timer became claimable, if it is known.
    pub(crate) fn first_ms(&self) -> Option<u64> {
        self.firsts.first().map(|(at_ms, _)| *at_ms)
    }

    /// Changes the due timers of a lane, and updates the counts.
    pub(super) fn change(
        &mut self,
        place: LaneKindKey,
        due: &mut LaneDue,
        change: impl FnOnce(&mut LaneDue),
    ) {
        let before = LaneCounts::of(due);
        change(due);
        self.replace(place, &before, &LaneCounts::of(due));
    }

    /// Removes a lane with all its due timers from the counts.
    pub(super) fn forget(&mut self, place: LaneKindKey, due: &LaneDue) {
        self.replace(place, &LaneCounts::of(due), &LaneCounts::default());
    }

    fn replace(&mut self, place: LaneKindKey, before: &LaneCounts, after: &LaneCounts) {
        self.resident = self.resident + after.resident - before.resident;
        self.len = self.len + after.len - before.len;
        self.unreadable = self.unreadable + after.unreadable - before.unreadable;
        if before.first_ms != after.first_ms {
            if let Some(at_ms) = before.first_ms {
                self.firsts.remove(&(at_ms, place));
            }
            self.firsts.extend(after.first_ms.map(|at_ms| (at_ms, place)));
        }
    }
}

#[derive(Default)]
struct LaneCounts {
    resident: usize,
    len: u64,
    unreadable: u64,
    first_ms: Option<u64>,
}

impl LaneCounts {
    fn of(due: &LaneDue) -> Self {
        let (resident, first_ms) = (due.window().len(), due.first_ms());
        Self { resident, len: due.len(), unreadable: due.unreadable(), first_ms }
    }
}
