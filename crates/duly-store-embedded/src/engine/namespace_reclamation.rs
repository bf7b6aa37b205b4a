//! Namespace reclamation: releases the entries and leases of deleted namespaces, a few tables a step.
//!
//! Their files still count these entries. A lease of a deleted namespace has no effect until then,
//! because its timer is not found. The background thread frees the memory: for a large number of tables
//! that takes long.

use std::collections::VecDeque;

use crate::index::{Cursor, Flags, Index};

use super::{Engine, namespaces::Namespace};

/// Tables that one step visits.
const TABLES_PER_STEP: usize = if cfg!(test) { 1 } else { 8 };

/// Indexes of deleted namespaces.
#[derive(Debug, Default)]
pub(super) struct Reclamation {
    /// Each with the number of its namespace; the first is under way.
    indexes: VecDeque<(u32, Index)>,
    /// Place in the first index.
    cursor: Option<Cursor>,
    /// Leases that are still to be dropped.
    pub(super) leases: u64,
}

impl Reclamation {
    /// Returns `true` if everything is released.
    pub(super) fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }
}

impl Engine {
    /// Takes over the indexes of a deleted namespace.
    pub(super) fn begin_reclamation(&mut self, number: u32, mut gone: Namespace) {
        self.reclamation.leases += gone.in_flight;
        let counted =
            [&mut gone.live, &mut gone.tombstones.index, &mut gone.dead_letters.by_delivery];
        for index in counted.into_iter().filter(|index| !index.is_empty()) {
            self.reclamation.indexes.push_back((number, std::mem::replace(index, Index::new())));
        }
        self.free(gone);
        self.busy = true;
    }

    /// Frees memory in the background.
    fn free<T: Send + 'static>(&mut self, gone: T) {
        self.in_background(move || drop(gone), |_, ()| {});
    }

    /// Runs one step.
    pub(super) fn reclaim_namespaces(&mut self) {
        for _ in 0..TABLES_PER_STEP {
            let Some((number, index)) = self.reclamation.indexes.front() else {
                return;
            };
            let next = index.visit(self.reclamation.cursor.unwrap_or(Cursor::START), |entry| {
                self.files.release(entry.location());
                if entry.flags().has(Flags::LEASED) {
                    let gone = self.leases.remove(entry.key(*number));
                    self.reclamation.leases -= u64::from(gone.is_some());
                }
            });
            self.reclamation.cursor = next;
            if next.is_none()
                && let Some(gone) = self.reclamation.indexes.pop_front()
            {
                self.free(gone);
            }
        }
        self.busy |= !self.reclamation.indexes.is_empty();
    }

    /// Releases everything at once, before the store is in use.
    pub(super) fn reclaim_all_namespaces(&mut self) {
        while !self.reclamation.indexes.is_empty() {
            self.reclaim_namespaces();
        }
    }
}

#[cfg(test)]
mod tests;
