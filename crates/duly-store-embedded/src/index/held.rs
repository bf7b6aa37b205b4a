//! An entry that a search has found, with its place in the index.
//!
//! A caller that reads an entry and then replaces or removes it needs one search instead of two. The
//! index is borrowed meanwhile, so that the place stays valid.

use super::{Entry, Index, Key, Root};

/// An entry of an index.
#[derive(Debug)]
pub(crate) struct FoundEntry<'a> {
    index: &'a mut Index,
    /// Number of its table (0 if that is the only one), and its place there.
    place: (usize, usize),
}

impl<'a> FoundEntry<'a> {
    #[inline]
    pub(super) fn find(index: &'a mut Index, key: Key) -> Option<Self> {
        let place = match &index.0 {
            Root::One(table) => (0, table.find_to_remove(key.fingerprint())?),
            Root::Many(directory) => directory.find(key.fingerprint())?,
        };
        Some(Self { index, place })
    }

    #[inline]
    pub(crate) fn entry(&self) -> Entry {
        match &self.index.0 {
            Root::One(table) => *table.at(self.place.1),
            Root::Many(directory) => *directory.at(self.place),
        }
    }

    /// Puts another entry of the same key in its place. Returns the previous entry.
    #[inline]
    pub(crate) fn replace(&mut self, entry: Entry) -> Entry {
        let held = match &mut self.index.0 {
            Root::One(table) => table.at_mut(self.place.1),
            Root::Many(directory) => directory.at_mut(self.place),
        };
        assert_eq!(held.fingerprint(), entry.fingerprint(), "another key has another place");
        std::mem::replace(held, entry)
    }

    /// Removes the entry from the index.
    pub(crate) fn remove(self) -> Entry {
        match &mut self.index.0 {
            Root::One(table) => table.remove(self.place.1),
            Root::Many(directory) => {
                let removed = directory.remove(self.place);
                self.index.collapse();
                removed
            }
        }
    }
}

#[cfg(test)]
mod tests;
