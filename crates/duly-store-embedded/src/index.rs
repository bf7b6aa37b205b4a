//! The index: 24 bytes of RAM for each timer, found by its key.
//!
//! Entries lie in [`TABLES`] small open-addressing tables that each grow by a quarter, so no step
//! copies more than one table and none doubles. An entry never moves to another table: a pass
//! that visits the tables one after the other sees every unchanged entry exactly once.
//!
//! The same structure holds the pending timers and the stubs of ended ones.

mod entry;
mod table;

pub(crate) use entry::{Claimable, Entry, Key, Kind, Location, NAMESPACE_MAX, PackedKey};
use table::Table;

/// Number of tables.
pub(crate) const TABLES: usize = 4096;

/// Entries by key.
#[derive(Debug)]
pub(crate) struct Index {
    tables: Vec<Table>,
    len: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { tables: (0..TABLES).map(|_| Table::default()).collect(), len: 0 }
    }

    pub(crate) fn get(&self, key: Key) -> Option<Entry> {
        self.tables[key.table()].get(key)
    }

    /// Puts an entry in; answers the one it replaces.
    pub(crate) fn put(&mut self, entry: Entry) -> Option<Entry> {
        let old = self.tables[entry.key().table()].put(entry);
        self.len += usize::from(old.is_none());
        old
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Entry> {
        let old = self.tables[key.table()].remove(key);
        self.len -= usize::from(old.is_some());
        old
    }

    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The entries of one table, for passes over everything.
    pub(crate) fn table(&self, number: usize) -> impl Iterator<Item = Entry> {
        self.tables[number].iter()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let spine = self.tables.capacity() * size_of::<Table>();
        spine + self.tables.iter().map(Table::heap_bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests;
