//! Counts over all namespaces. They are updated with every change of a namespace, so the health of a
//! store with a very large number of namespaces needs no walk over them.

use duly_core::Settings;

use super::{Namespace, NamespaceRecord};

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
            + namespace.tombstones.index().heap_bytes()
            + namespace.dead_letters.heap_bytes()
            + namespace.lanes.heap_bytes();
        Self {
            pending: namespace.live.len() as u64,
            dead: namespace.dead(),
            retained: namespace.tombstones.len(),
            index_bytes: bytes as u64,
            paused: u64::from(namespace.paused),
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
