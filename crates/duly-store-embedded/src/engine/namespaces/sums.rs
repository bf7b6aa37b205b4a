//! Counts over all namespaces, kept with every change of one: so the health of a store of very many
//! namespaces costs no walk over them.

use super::Namespace;

/// What one namespace adds to the counts, or all of them together.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Pending timers.
    pub(crate) pending: u64,
    /// Dead letters.
    pub(crate) dead: u64,
    /// Stubs of ended timers.
    pub(crate) retained: u64,
    /// Memory of the indexes.
    pub(crate) index_bytes: u64,
    /// Namespaces that are paused.
    pub(crate) paused: u64,
    /// Namespaces with as many dead letters as they may have.
    pub(crate) dead_full: u64,
}

impl Sums {
    pub(super) fn of(namespace: &Namespace) -> Self {
        let bytes = size_of::<Namespace>()
            + namespace.live.heap_bytes()
            + namespace.stubs.index().heap_bytes()
            + namespace.letters.heap_bytes();
        Self {
            pending: namespace.live.len() as u64,
            dead: namespace.dead(),
            retained: namespace.stubs.len(),
            index_bytes: bytes as u64,
            paused: u64::from(namespace.paused),
            dead_full: u64::from(namespace.is_dead_full()),
        }
    }

    /// A namespace that added `before` adds `after` now.
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
