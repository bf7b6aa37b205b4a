//! What deleted namespaces leave: entries whose files still count them, and leases. They are counted
//! out a few tables at a time. A lease of a namespace that is gone means nothing until then: its
//! timer is not found.
//!
//! Memory goes back to the system in the background: of very many tables that takes long.

use std::collections::VecDeque;

use crate::index::{Cursor, Flags, Index};

use super::{Engine, namespaces::Namespace};

/// Tables that one step looks at.
const TABLES_PER_STEP: usize = if cfg!(test) { 1 } else { 8 };

/// Indexes of namespaces that are gone.
#[derive(Debug, Default)]
pub(super) struct Graves {
    /// With the number of the namespace; the first is under way.
    indexes: VecDeque<(u32, Index)>,
    /// How far the first was counted out.
    cursor: Option<Cursor>,
    /// Leases that are still to be dropped.
    leases: u64,
}

impl Graves {
    /// Says whether everything was counted out.
    pub(super) fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Leases of namespaces that are gone.
    pub(super) const fn leases(&self) -> u64 {
        self.leases
    }
}

impl Engine {
    /// Takes over what a deleted namespace held.
    pub(super) fn bury(&mut self, number: u32, mut gone: Namespace) {
        self.graves.leases += gone.in_flight;
        let counted = [&mut gone.live, gone.tombstones.index_mut(), gone.letters.indexes_mut().0];
        for index in counted.into_iter().filter(|index| !index.is_empty()) {
            self.graves.indexes.push_back((number, std::mem::replace(index, Index::new())));
        }
        self.free(gone);
        self.busy = true;
    }

    /// Has memory freed in the background.
    fn free<T: Send + 'static>(&mut self, gone: T) {
        self.in_background(move || drop(gone), |_, ()| {});
    }

    /// One step.
    pub(super) fn count_out(&mut self) {
        for _ in 0..TABLES_PER_STEP {
            let Some((number, index)) = self.graves.indexes.front() else {
                return;
            };
            let scan = index.scan(self.graves.cursor.unwrap_or(Cursor::START));
            let next = scan.and_then(|scan| {
                let next = scan.next;
                for entry in scan.entries() {
                    self.files.release(entry.location());
                    if entry.flags().has(Flags::LEASED) {
                        let gone = self.leases.remove(entry.key(*number));
                        self.graves.leases -= u64::from(gone.is_some());
                    }
                }
                next
            });
            self.graves.cursor = next;
            if next.is_none()
                && let Some(gone) = self.graves.indexes.pop_front()
            {
                self.free(gone);
            }
        }
        self.busy |= !self.graves.indexes.is_empty();
    }

    /// All at once, before a store is in use.
    pub(super) fn count_out_all(&mut self) {
        while !self.graves.indexes.is_empty() {
            self.count_out();
        }
    }
}

#[cfg(test)]
mod tests;
