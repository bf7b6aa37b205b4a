//! Many tables under one directory: extendible hashing.
//!
//! 1. The directory is indexed by the top bits of a position (see `span`). Each of its pointers names
//!    the table of the span that contains the position.
//! 2. A table that becomes too long is split in two by the next bit. If the directory does not have that
//!    bit yet, it doubles (4 bytes for each pointer).
//! 3. Two halves that become short are merged. So no step copies more than two tables and, rarely, the
//!    directory.
//!
//! What must stay true:
//!
//! 1. The spans of the tables are disjoint and cover everything.
//! 2. The pointers in a table's span, and only those, name it.
//! 3. `len`, `table_bytes` and `deepest` are sums over the tables.

use super::{
    entry::Entry,
    key::Fingerprint,
    span::{DEPTH_MAX, position},
    table::Table,
};

/// Number of entries above which a table is split. They fill a size class (56 KiB).
pub(super) const TABLE_LEN_MAX: usize = 2048;
/// Number of entries below which two halves together are merged.
const MERGED_LEN_MAX: usize = TABLE_LEN_MAX / 4;
/// Number of bits that the deepest table may be deeper than the average. Hashes are spread far more
/// evenly than that. If they were not, a long table would be better than a large directory.
const DEPTH_MORE: u8 = 6;

#[derive(Debug)]
pub(super) struct Directory {
    tables: Vec<Table>,
    /// Numbers of tables, indexed by the top `depth` bits.
    pointers: Box<[u32]>,
    depth: u8,
    /// Tables whose span is as deep as the directory. If there are none, the directory can be halved.
    deepest: usize,
    len: usize,
    table_bytes: usize,
}

impl Directory {
    /// Makes a directory over these tables, whose spans are disjoint and cover everything.
    pub(super) fn new(tables: Vec<Table>) -> Self {
        let depths = || tables.iter().map(|table| table.span().depth());
        let depth = depths().max().unwrap_or(0);
        let mut directory = Self {
            pointers: vec![0; 1 << depth].into(),
            depth,
            deepest: depths().filter(|other| *other == depth).count(),
            len: tables.iter().map(Table::len).sum(),
            table_bytes: tables.iter().map(Table::heap_bytes).sum(),
            tables,
        };
        let mut number = 0;
        while number < directory.tables.len() {
            directory.point_to(number);
            directory.split_long(number);
            number += 1;
        }
        directory
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn heap_bytes(&self) -> usize {
        self.table_bytes
            + self.tables.capacity() * size_of::<Table>()
            + self.pointers.len() * size_of::<u32>()
    }

    /// Returns the table whose span contains this position.
    #[inline]
    pub(super) fn table(&self, position: u64) -> &Table {
        &self.tables[self.number(position)]
    }

    /// Returns the number of the table that contains an entry, and its place in the table.
    #[inline]
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<(usize, usize)> {
        let number = self.number(position(fingerprint.low));
        let place = self.tables[number].find_to_remove(fingerprint)?;
        Some((number, place))
    }

    /// Returns the entry that [`Self::find`] has found.
    pub(super) fn at(&self, (number, place): (usize, usize)) -> &Entry {
        self.tables[number].at(place)
    }

    /// Returns the entry that [`Self::find`] has found, for changes that keep its fingerprint.
    pub(super) fn at_mut(&mut self, (number, place): (usize, usize)) -> &mut Entry {
        self.tables[number].at_mut(place)
    }

    /// Puts an entry in. Returns the entry that it replaces.
    pub(super) fn put(&mut self, entry: &Entry) -> Option<Entry> {
        let number = self.number(entry.position());
        let old = self.change(number, |table| table.put(entry));
        if old.is_none() {
            self.len += 1;
            self.split_long(number);
        }
        old
    }

    /// Removes the entry that [`Self::find`] has found.
    pub(super) fn remove(&mut self, (number, place): (usize, usize)) -> Entry {
        let old = self.change(number, |table| table.remove(place));
        self.len -= 1;
        let mut merged = Some(number);
        while let Some(number) = merged {
            merged = self.merge(number);
        }
        old
    }

    /// Takes the only table, if there are no others, and leaves an empty one behind.
    pub(super) fn take_only(&mut self) -> Option<Table> {
        match &mut self.tables[..] {
            [only] => Some(std::mem::take(only)),
            _ => None,
        }
    }

    #[inline]
    fn number(&self, position: u64) -> usize {
        // Two shifts, because a depth of 0 would need a shift by 64.
        self.pointers[(position >> 1 >> (63 - self.depth)) as usize] as usize
    }

    /// Changes a table and maintains the sum of their sizes. The sum is written only if it changes,
    /// which is rare: an addition at each call would make every call wait for the one before.
    #[inline]
    fn change<T>(&mut self, number: usize, change: impl FnOnce(&mut Table) -> T) -> T {
        let table = &mut self.tables[number];
        let before = table.heap_bytes();
        let result = change(table);
        let after = table.heap_bytes();
        if before != after {
            self.table_bytes = self.table_bytes - before + after;
        }
        result
    }

    /// Splits a table that has become too long, and its halves as far as they are too long.
    fn split_long(&mut self, mut number: usize) {
        let mut added = self.tables.len();
        loop {
            while self.is_long(number) {
                self.split(number);
            }
            if added == self.tables.len() {
                return;
            }
            number = added;
            added += 1;
        }
    }

    fn is_long(&self, number: usize) -> bool {
        let table = &self.tables[number];
        table.len() > TABLE_LEN_MAX && table.span().depth() < depth_max(self.len)
    }

    fn split(&mut self, number: usize) {
        let (first, second) = self.tables[number].split();
        let depth = first.span().depth();
        if depth > self.depth {
            self.pointers = self.pointers.iter().flat_map(|number| [*number; 2]).collect();
            self.depth = depth;
            self.deepest = 0;
        }
        if depth == self.depth {
            self.deepest += 2;
        }
        self.table_bytes += second.heap_bytes();
        self.tables.push(second);
        self.change(number, |table| *table = first);
        self.point_to(self.tables.len() - 1);
    }

    /// Merges a table with the other half of its parent if both are short. Returns the number of the
    /// merged table.
    fn merge(&mut self, number: usize) -> Option<usize> {
        let table = &self.tables[number];
        if table.len() >= MERGED_LEN_MAX {
            return None;
        }
        let (parent, buddy) = table.span().parent_and_buddy()?;
        let other = self.number(buddy.start());
        // If the spans differ, the other half is itself split.
        let whole = self.tables[other].span() == buddy;
        if !whole || table.len() + self.tables[other].len() >= MERGED_LEN_MAX {
            return None;
        }
        if buddy.depth() == self.depth {
            self.deepest -= 2;
        }
        let [first, second] =
            if table.span().start() < buddy.start() { [number, other] } else { [other, number] };
        let merged = Table::merged(parent, &self.tables[first], &self.tables[second]);
        let (stays, goes) = (first.min(second), first.max(second));
        self.change(stays, |table| *table = merged);
        self.table_bytes -= self.tables.swap_remove(goes).heap_bytes();
        self.point_to(stays);
        if goes < self.tables.len() {
            self.point_to(goes);
        }
        if self.tables.len() < self.tables.capacity() / 4 {
            self.tables.shrink_to(self.tables.len() * 2);
        }
        while self.deepest == 0 {
            self.halve();
        }
        Some(stays)
    }

    fn halve(&mut self) {
        self.pointers = self.pointers.iter().copied().step_by(2).collect();
        self.depth -= 1;
        self.deepest = self.tables.iter().filter(|t| t.span().depth() == self.depth).count();
    }

    /// Points all pointers of a table's span to the table.
    fn point_to(&mut self, number: usize) {
        let pointers = self.tables[number].span().pointers(self.depth);
        self.pointers[pointers].fill(u32::try_from(number).expect("at most 2^24 tables"));
    }
}

/// Returns the maximum depth to which a split may take a table, in an index of `len` entries.
pub(super) fn depth_max(len: usize) -> u8 {
    let average = (len / TABLE_LEN_MAX).checked_ilog2().unwrap_or(0);
    u8::try_from(average).map_or(DEPTH_MAX, |average| (average + DEPTH_MORE).min(DEPTH_MAX))
}

#[cfg(test)]
mod check;
