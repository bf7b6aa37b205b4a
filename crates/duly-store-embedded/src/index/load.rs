//! Makes an index of entries that come in the order of a scan, as from a checkpoint.
//!
//! The entries gather in a buffer. As soon as it holds more than fit into one table, the next table
//! is cut from its front: that of the largest span that begins where the last one ended and does
//! not hold too many. These are the spans that puts would have led to, whatever number of entries
//! was announced; no entry is searched for, and each is copied two or three times.
//!
//! Entries that come out of order wait for the end and are put then, which takes a search for each.
//! They are newer than all others of their keys: those were behind everything when they came.

use super::{
    Entry, Index, Root,
    directory::{Directory, TABLE_LEN_MAX, depth_max},
    span::Span,
    table::Table,
};

/// Makes an index of entries that come in the order of a scan.
#[derive(Debug)]
pub(crate) struct Loader {
    /// Tables of the spans so far, in order.
    tables: Vec<Table>,
    /// The first position behind them.
    start: u64,
    /// Entries from `start` on, in order.
    buffer: Vec<Entry>,
    /// The buffer's length at which a table can be cut from it.
    enough: usize,
    /// Entries that were not behind all before them.
    late: Vec<Entry>,
    /// Depth at which a span gets a table however many entries it has.
    depth_max: u8,
}

impl Loader {
    /// The number of entries need not be exact.
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

    /// The index of all entries pushed.
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
        // Not at each entry again where very many begin alike.
        let is_long = self.buffer.len() > TABLE_LEN_MAX;
        self.enough = if is_long { self.buffer.len() * 2 } else { TABLE_LEN_MAX + 1 };
    }

    /// The largest span at the start that is not too long, if it is known to have all its entries.
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

    /// How many entries of the buffer are in a span at the start.
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
