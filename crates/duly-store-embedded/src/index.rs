//! The index of one namespace: 24 bytes of RAM for each timer, found by its key.
//!
//! Entries lie in small tables in the order of their fingerprints; a namespace of up to
//! [`TABLE_LEN_MAX`] timers has a single table, a larger one a directory over many (see
//! `directory`). Every table grows, splits and merges on its own, so no step copies more than a few
//! thousand entries. An index without entries owns no memory.
//!
//! A scan goes in the order of the fingerprints with a position as its cursor. An entry never
//! changes its position, so a pass sees every entry that stays exactly once, whatever else is put
//! and removed between its steps.
//!
//! Pending timers, tombstones of ended ones and dead letters have indexes of this kind, each its own.

mod directory;
mod entry;
mod held;
mod key;
mod load;
mod span;
mod table;

use directory::{Directory, TABLE_LEN_MAX};
pub(crate) use entry::{Claimable, Entry, Flags, Kind, Location, NUMBER_MAX};
pub(crate) use held::Held;
#[cfg(test)]
pub(crate) use key::COLLIDES;
use key::Fingerprint;
pub(crate) use key::{Key, NAMESPACE_MAX, PackedKey};
pub(crate) use load::Loader;
pub(crate) use span::Cursor;
use span::{Span, position};
use table::Table;

/// The entries of one namespace, by key. Keys of other namespaces must not be asked for: entries
/// do not know their namespace.
#[derive(Debug)]
pub(crate) struct Index(Root);

#[derive(Debug)]
enum Root {
    /// At most [`TABLE_LEN_MAX`] entries.
    One(Table),
    /// More than one table.
    Many(Box<Directory>),
}

impl Index {
    pub(crate) fn new() -> Self {
        Self(Root::One(Table::new(Span::default())))
    }

    /// Begins an index of about `len` entries that come in the order of a scan. See [`Loader`].
    pub(crate) fn load(len: usize) -> Loader {
        Loader::new(len)
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<Entry> {
        let fingerprint = key.fingerprint();
        let table = self.table(fingerprint);
        table.find(fingerprint).ok().map(|place| *table.at(place))
    }

    /// Reads what searches for these keys read first: the processor fetches that from memory for many at
    /// a time, where the searches would wait for one after the other.
    pub(crate) fn warm(&self, keys: impl Iterator<Item = Key>) {
        // Told to be of use, or it would not be read.
        std::hint::black_box(keys.fold(0, |all, key| all ^ self.touch(key)));
    }

    /// Reads the first of what a search for a key reads, and answers something of it; see
    /// [`Self::warm`].
    #[inline]
    pub(crate) fn touch(&self, key: Key) -> u64 {
        let fingerprint = key.fingerprint();
        self.table(fingerprint).touch(fingerprint)
    }

    /// An entry, to be read and then perhaps replaced or removed without a second search.
    #[inline]
    pub(crate) fn find(&mut self, key: Key) -> Option<Held<'_>> {
        Held::find(self, key)
    }

    /// Puts an entry in; answers the one it replaces.
    pub(crate) fn put(&mut self, entry: Entry) -> Option<Entry> {
        match &mut self.0 {
            Root::One(table) => {
                let old = table.put(&entry);
                if table.len() > TABLE_LEN_MAX {
                    let directory = Directory::new(vec![std::mem::take(table)]);
                    self.0 = Root::Many(Box::new(directory));
                }
                old
            }
            Root::Many(directory) => directory.put(&entry),
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Entry> {
        self.find(key).map(Held::remove)
    }

    /// Gives an entry these flags and no others; answers whether there is one.
    pub(crate) fn set_flags(&mut self, key: Key, flags: Flags) -> bool {
        let held = self.find(key);
        held.map(|mut held| held.replace(held.entry().with_flags(flags))).is_some()
    }

    /// Moves an entry from one location to another, if it is there; answers what it was before.
    pub(crate) fn relocate(&mut self, key: Key, from: Location, to: Location) -> Option<Entry> {
        let mut held = self.find(key).filter(|held| held.entry().location() == from)?;
        let before = held.entry();
        held.replace(before.at(to));
        Some(before)
    }

    /// One step of a scan: the entries from a position on, as far as one table goes (so at most
    /// about [`TABLE_LEN_MAX`]), and where to go on. `None` if the index is empty.
    ///
    /// A pass that begins at [`Cursor::START`] and goes on until there is no next cursor gives every
    /// entry that is there from its first to its last step exactly once, even if others come and go
    /// (or it gets other flags or a new location) between the steps.
    pub(crate) fn scan(&self, from: Cursor) -> Option<Scan<'_>> {
        let table = self.table_at(from.0);
        (!self.is_empty()).then(|| Scan {
            table,
            from: from.0,
            next: table.span().end().map(Cursor),
        })
    }

    pub(crate) const fn len(&self) -> usize {
        match &self.0 {
            Root::One(table) => table.len(),
            Root::Many(directory) => directory.len(),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that it owns, besides itself; known at all times.
    pub(crate) const fn heap_bytes(&self) -> usize {
        match &self.0 {
            Root::One(table) => table.heap_bytes(),
            Root::Many(directory) => size_of::<Directory>() + directory.heap_bytes(),
        }
    }

    #[inline]
    fn table(&self, fingerprint: Fingerprint) -> &Table {
        match &self.0 {
            Root::One(table) => table,
            Root::Many(directory) => directory.table(position(fingerprint.low)),
        }
    }

    fn table_at(&self, position: u64) -> &Table {
        match &self.0 {
            Root::One(table) => table,
            Root::Many(directory) => directory.table(position),
        }
    }

    /// Does without the directory where one table is left, or no entry.
    fn collapse(&mut self) {
        if let Root::Many(directory) = &mut self.0 {
            if directory.len() == 0 {
                *self = Self::new();
            } else if let Some(only) = directory.take_only() {
                self.0 = Root::One(only);
            }
        }
    }
}

/// One step of a scan, over one table.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    table: &'a Table,
    from: u64,
    /// Where to go on; `None` at the end.
    pub(crate) next: Option<Cursor>,
}

impl<'a> Scan<'a> {
    /// The entries, in the order of the scan.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> + use<'a> {
        self.table.from(self.from)
    }
}

#[cfg(test)]
mod tests;
