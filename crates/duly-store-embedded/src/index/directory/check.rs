//! Checks the invariants, for tests.

use super::*;

impl Directory {
    /// Panics unless all invariants hold. `len` is the number of entries at the last put into a long
    /// table. If the table had the maximum depth at that time, it is split only at its next put, even if
    /// the maximum depth has grown since.
    pub(in crate::index) fn check_made_at(&self, len: usize) {
        let mut expected = 0_u64;
        let mut pointers = self.pointers.iter();
        while let Some(number) = pointers.next() {
            let table = &self.tables[*number as usize];
            let span = table.span();
            assert_eq!(span.start(), expected, "spans follow each other");
            assert!(table.len() <= TABLE_LEN_MAX || span.depth() >= depth_max(len));
            table.check();
            let pointers_more = span.pointers(self.depth).len() - 1;
            assert!(pointers.by_ref().take(pointers_more).all(|other| other == number));
            if let Some((_, buddy)) = span.parent_and_buddy() {
                let other = self.table(buddy.start());
                let short = table.len() + other.len() < MERGED_LEN_MAX;
                assert!(other.span() != buddy || !short, "short halves are merged");
            }
            expected = span.end().unwrap_or(u64::MAX);
        }
        assert_eq!(expected, u64::MAX, "the last span ends everything");
        let depths = || self.tables.iter().map(|table| table.span().depth());
        assert_eq!(depths().max(), Some(self.depth), "the directory is as deep as it has to be");
        assert_eq!(depths().filter(|depth| *depth == self.depth).count(), self.deepest);
        assert_eq!(self.pointers.len(), 1 << self.depth);
        assert_eq!(self.tables.iter().map(Table::len).sum::<usize>(), self.len);
        assert_eq!(self.tables.iter().map(Table::heap_bytes).sum::<usize>(), self.table_bytes);
    }

    pub(in crate::index) const fn depth(&self) -> u8 {
        self.depth
    }

    pub(in crate::index) const fn tables(&self) -> usize {
        self.tables.len()
    }
}
