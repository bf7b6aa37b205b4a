//! Builds an index from entries that come in the order of a scan, as from a checkpoint.
//!
//! 1. The entries gather in a buffer. When it holds more than fit into one table, the next table is cut
//!    from its front.
//! 2. The new table has the largest span that begins where the last one ended and does not hold too many
//!    entries. These are the spans that puts would have led to, even if the announced number of entries
//!    is wrong.
//! 3. No entry is searched for, and each is copied two or three times.
//! 4. Entries that come out of order wait for the end and are put then, with a search for each. They
//!    replace all earlier entries of their keys, because those came before them.

use super::{
    Entry, Index, Root,
    directory::{Directory, TABLE_LEN_MAX, depth_max},
    span::Span,
    table::Table,
};

/// Builds an index from entries that come in the order of a scan.
#[derive(Debug)]
pub(crate) struct IndexLoader {
    /// Tables of the spans so far, in order.
    tables: Vec<Table>,
    /// The first position behind these tables.
    start: u64,
    /// Entries from `start` on, in order.
    buffer: Vec<Entry>,
    /// Length of the buffer at which a table can be cut from it.
    enough: usize,
    /// Entries that came out of order.
    late: Vec<Entry>,
    /// Depth at which a span gets a table, however many entries it has.
    depth_max: u8,
}

impl IndexLoader {
    /// Makes a loader for about `len` entries.
    pub(super) fn new(len: usize) -> Self {
        let enough = TABLE_LEN_MAX + 1;
        Self {
            tables: Vec::new(),
            start: 0,
            buffer: Vec::with_capacity(enough.min(len)),
            enough,
            late: Vec::new(),
            depth_max: depth_max(len),
        }
    }

    /// Adds an entry, or replaces the one of the same key.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        if self.buffer.last().is_some_and(|last| last.low() >= entry.low()) {
            self.late.push(entry);
            return;
        }
        self.buffer.push(entry);
        if self.buffer.len() >= self.enough {
            self.cut();
        }
    }

    /// Returns the index of all pushed entries.
    pub(crate) fn finish(mut self) -> Index {
        let mut next = Some(self.start);
        while let Some(start) = next {
            self.start = start;
            let span = self.span(|_| true).expect("a span that is known if it is short enough");
            self.make_table(span);
            next = span.end();
        }
        let mut index = Index(if self.tables.len() == 1 {
            Root::One(self.tables.remove(0))
        } else {
            Root::Many(Box::new(Directory::new(self.tables)))
        });
        for entry in self.late {
            index.put(entry);
        }
        index
    }

    /// Cuts off tables until the buffer is short, or until no span is known to have all its entries.
    fn cut(&mut self) {
        while let Some(last) = self.buffer.last().filter(|_| self.buffer.len() > TABLE_LEN_MAX) {
            let known = last.position();
            let Some(span) = self.span(|span| span.end().is_some_and(|end| end <= known)) else {
                break;
            };
            self.make_table(span);
            self.start = span.end().expect("the last span is never known before the end");
        }
        // If very many entries begin with the same bits, this avoids another attempt at each entry.
        let is_long = self.buffer.len() > TABLE_LEN_MAX;
        self.enough = if is_long { self.buffer.len() * 2 } else { TABLE_LEN_MAX + 1 };
    }

    /// Returns the largest span at the start that is not too long, if all its entries are known to be
    /// there.
    fn span(&self, is_known: impl Fn(Span) -> bool) -> Option<Span> {
        let mut span = Span::largest_at(self.start);
        while !is_known(span) || self.count(span) > TABLE_LEN_MAX {
            if span.depth() >= self.depth_max {
                return is_known(span).then_some(span);
            }
            span = span.halves().0;
        }
        Some(span)
    }

    /// Returns the number of entries of the buffer in a span at the start.
    fn count(&self, span: Span) -> usize {
        let is_in = |entry: &Entry| span.end().is_none_or(|end| entry.position() < end);
        self.buffer.partition_point(is_in)
    }

    fn make_table(&mut self, span: Span) {
        let len = self.count(span);
        self.tables.push(Table::of(span, &self.buffer[..len]));
        self.buffer.drain(..len);
    }
}

#[cfg(test)]
mod tests;
