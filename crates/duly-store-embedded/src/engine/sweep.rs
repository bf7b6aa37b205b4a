//! Sweeping out what deleted namespaces left in the index, a few tables at a time.

use crate::index::{Key, TABLES};

use super::Engine;

/// Tables that one step looks at.
const TABLES_PER_STEP: usize = 64;

/// How far the sweep is.
#[derive(Debug)]
pub(super) struct Sweep {
    table: usize,
}

impl Engine {
    /// Begins a pass over the whole index.
    pub(super) fn sweep_soon(&mut self) {
        self.sweeping = Some(Sweep { table: 0 });
    }

    pub(super) fn sweep_some(&mut self) {
        let Some(Sweep { table }) = self.sweeping else {
            return;
        };
        let end = (table + TABLES_PER_STEP).min(TABLES);
        for number in table..end {
            self.sweep_table(number);
        }
        self.sweeping = (end < TABLES).then_some(Sweep { table: end });
        self.busy |= self.sweeping.is_some();
    }

    /// The whole pass at once, before a store is in use.
    pub(super) fn sweep_all(&mut self) {
        for number in 0..TABLES {
            self.sweep_table(number);
        }
        self.sweeping = None;
    }

    fn sweep_table(&mut self, number: usize) {
        let gone = |engine: &Self, key: Key| engine.namespaces.get(key.namespace()).is_none();
        let live: Vec<Key> =
            self.live.table(number).map(|e| e.key()).filter(|key| gone(self, *key)).collect();
        for key in live {
            if let Some(entry) = self.live.remove(key) {
                self.journal.release(entry.location());
            }
        }
        let stubs: Vec<Key> =
            self.stubs.table(number).map(|e| e.key()).filter(|key| gone(self, *key)).collect();
        for key in stubs {
            if let Some(entry) = self.stubs.remove(key) {
                self.journal.release(entry.location());
            }
        }
    }
}
