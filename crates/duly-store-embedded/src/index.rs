//! The index of one namespace: 24 bytes of RAM for each timer, found by its key.
//!
//! 1. Entries are in small tables, in the order of their fingerprints. A namespace of up to
//!    [`TABLE_LEN_MAX`] timers has a single table, a larger one a directory over many (see `directory`).
//! 2. Every table grows, splits and merges on its own, so no step copies more than a few thousand
//!    entries. An index without entries owns no memory.
//! 3. A scan visits entries in the order of the fingerprints, with a position as its cursor. An entry
//!    never changes its position. So a complete scan visits every entry that stays exactly once, even if
//!    other entries are put or removed between its steps.
//! 4. Pending timers, tombstones and dead letters each have an index of this kind.

mod directory;
mod entry;
mod held;
mod key;
mod load;
mod span;
mod table;

use directory::{Directory, TABLE_LEN_MAX};
pub(crate) use entry::{AttemptKind, Claimable, Entry, Flags, Location, NUMBER_MAX};
pub(crate) use held::FoundEntry;
#[cfg(test)]
pub(crate) use key::COLLIDES;
use key::Fingerprint;
pub(crate) use key::{Key, NAMESPACE_MAX, PackedKey};
pub(crate) use load::IndexLoader;
pub(crate) use span::Cursor;
use span::{Span, position};
use table::Table;

/// The entries of one namespace, by key. Callers must not ask for keys of other namespaces: entries do
/// not store their namespace.
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

    /// Starts an index of about `len` entries that come in the order of a scan. See [`IndexLoader`].
    pub(crate) fn load(len: usize) -> IndexLoader {
        IndexLoader::new(len)
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<Entry> {
        let fingerprint = key.fingerprint();
        let table = self.table(fingerprint);
        table.find(fingerprint).ok().map(|place| *table.at(place))
    }

    /// Prefetches the first words that searches for these keys read. The processor fetches them for many
    /// keys at a time, while searches would wait for one after the other.
    pub(crate) fn warm(&self, keys: impl Iterator<Item = Key>) {
        // `black_box` keeps the compiler from removing the reads.
        std::hint::black_box(keys.fold(0, |all, key| all ^ self.touch(key)));
    }

    /// Reads the first word that a search for a key reads, and returns it; see [`Self::warm`].
    #[inline]
    pub(crate) fn touch(&self, key: Key) -> u64 {
        let fingerprint = key.fingerprint();
        self.table(fingerprint).touch(fingerprint)
    }

    /// Finds an entry, which can then be replaced or removed without a second search.
    #[inline]
    pub(crate) fn find(&mut self, key: Key) -> Option<FoundEntry<'_>> {
        FoundEntry::find(self, key)
    }

    /// Puts an entry in. Returns the entry that it replaces.
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
        self.find(key).map(FoundEntry::remove)
    }

    /// Gives an entry these flags and no others. Returns `true` if there is such an entry.
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

    /// Performs one step of a scan: returns the entries from a position on in one table (so at most
    /// about [`TABLE_LEN_MAX`]), and the next cursor. Returns `None` if the index is empty.
    ///
    /// A scan begins at [`Cursor::START`] and ends when there is no next cursor. It gives every entry
    /// that exists from its first to its last step exactly once. That holds even if other entries come
    /// and go between the steps, or the entry gets other flags or a new location.
    pub(crate) fn scan(&self, from: Cursor) -> Option<Scan<'_>> {
        let table = self.table_at(from.0);
        (!self.is_empty()).then(|| Scan {
            table,
            from: from.0,
            next: table.span().end().map(Cursor),
        })
    }

    /// Returns all entries, in the order of a scan.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        let mut cursor = Some(Cursor::START);
        let scans = std::iter::from_fn(move || {
            let scan = self.scan(cursor?)?;
            cursor = scan.next;
            Some(scan)
        });
        scans.flat_map(|scan| scan.entries())
    }

    /// Performs one step of a scan, passes its entries to `each`, and returns the next cursor.
    pub(crate) fn visit(&self, from: Cursor, each: impl FnMut(Entry)) -> Option<Cursor> {
        let scan = self.scan(from)?;
        scan.entries().for_each(each);
        scan.next
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

    /// Returns the heap memory that the index owns; always known without a scan.
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

    /// Removes the directory if only one table or no entry is left.
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
    /// The cursor of the next step; `None` at the end.
    pub(crate) next: Option<Cursor>,
}

impl<'a> Scan<'a> {
    /// Returns the entries, in the order of the scan.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> + use<'a> {
        self.table.from(self.from)
    }
}

#[cfg(test)]
mod tests;
