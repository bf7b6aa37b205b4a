//! What deleted namespaces leave: entries whose files still count them. They are counted out a few
//! tables at a time.

use crate::index::{Cursor, Index};

use super::{Engine, namespaces::Namespace};

/// Tables that one step looks at.
const TABLES_PER_STEP: usize = 8;

/// Indexes of namespaces that are gone.
#[derive(Debug, Default)]
pub(super) struct Graves {
    indexes: Vec<Index>,
    cursor: Option<Cursor>,
}

impl Engine {
    /// Takes over what a deleted namespace held.
    pub(super) fn bury(&mut self, gone: Namespace) {
        let held = [gone.live, gone.stubs.into_index(), gone.letters.into_index()];
        self.graves.indexes.extend(held.into_iter().filter(|index| !index.is_empty()));
        self.busy = true;
    }

    /// One step.
    pub(super) fn count_out(&mut self) {
        for _ in 0..TABLES_PER_STEP {
            let Some(index) = self.graves.indexes.last() else {
                return;
            };
            let scan = index.scan(self.graves.cursor.unwrap_or(Cursor::START));
            let next = scan.and_then(|scan| {
                let next = scan.next;
                scan.entries().for_each(|entry| self.files.release(entry.location()));
                next
            });
            self.graves.cursor = next;
            if next.is_none() {
                self.graves.indexes.pop();
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
