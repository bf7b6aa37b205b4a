//! Positions, spans and cursors: the order in which an index holds its entries, and parts of it.
//!
//! A *position* is the place of a fingerprint in that order. A *span* is all positions that begin with
//! the same bits. A *cursor* is the place where a scan continues.
//!
//! Positions are in the order of the fingerprints, but not as evenly spread: the last thousandth of the
//! positions has twice as many fingerprints as the first. So at any time the tables of a large index
//! have all lengths from one to two times the shortest. If positions were even, all tables would have
//! the same length and would grow or split at nearly the same time. That would cause bursts of work, and
//! leave much memory in blocks of a size that no table needs any more.

/// Longest prefix of a span.
pub(super) const DEPTH_MAX: u8 = 24;

/// Returns the position of a fingerprint with the low 64 bits x. As fractions: x + x (1 - x) / 3.
#[inline]
pub(super) const fn position(low: u64) -> u64 {
    // It never decreases with `low`: the second term falls by 1 at most where the first rises by 1.
    let product = (low as u128 * !low as u128) >> 64;
    low + product as u64 / 3
}

/// The place where a scan continues: the next position that it has not seen. It depends only on the
/// order of the fingerprints, so it stays valid when tables change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cursor(pub(crate) u64);

impl Cursor {
    /// The place before all entries.
    pub(crate) const START: Self = Self(0);
}

/// All positions whose highest `depth` bits are `prefix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    prefix: u32,
    depth: u8,
}

impl Span {
    pub(super) fn new(prefix: u32, depth: u8) -> Self {
        debug_assert!(depth <= DEPTH_MAX && prefix >> depth == 0, "the prefix has {depth} bits");
        Self { prefix, depth }
    }

    /// Returns the largest span that begins at this position, where another one ended.
    pub(super) fn largest_at(start: u64) -> Self {
        let depth = (64 - start.trailing_zeros()) as u8;
        Self::new((start >> 1 >> (63 - depth)) as u32, depth)
    }

    pub(super) const fn depth(self) -> u8 {
        self.depth
    }

    /// Returns the first position in the span.
    pub(super) const fn start(self) -> u64 {
        // Two shifts, because a prefix of 0 bits would need a shift by 64.
        (self.prefix as u64) << (63 - self.depth) << 1
    }

    /// Returns the start of the next span; `None` for the last.
    pub(super) const fn end(self) -> Option<u64> {
        let next = self.prefix + 1;
        if next >> self.depth == 0 { Some((next as u64) << (64 - self.depth)) } else { None }
    }

    /// Returns the halves, by the next bit.
    pub(super) fn halves(self) -> (Self, Self) {
        let first = self.prefix << 1;
        (Self::new(first, self.depth + 1), Self::new(first | 1, self.depth + 1))
    }

    /// Returns the span that this is a half of, and the other half; `None` for the span of everything.
    pub(super) fn parent_and_buddy(self) -> Option<(Self, Self)> {
        let depth = self.depth.checked_sub(1)?;
        Some((Self::new(self.prefix >> 1, depth), Self::new(self.prefix ^ 1, self.depth)))
    }

    /// Spreads the fingerprints in the span over `0..homes`, as evenly as possible and in their order,
    /// by multiply-shift range reduction (Lemire, "Fast random integer generation in an interval").
    #[inline]
    pub(super) const fn home(self, low: u64, homes: u32) -> usize {
        // Within a part of the positions they are even enough; over all of them only the hash itself is.
        let even = if self.depth == 0 { low } else { position(low) << self.depth };
        ((even as u128 * homes as u128) >> 64) as usize
    }

    /// Returns the range of pointers to this span in a directory by `directory_depth` bits.
    pub(super) const fn pointers(self, directory_depth: u8) -> std::ops::Range<usize> {
        let shift = directory_depth - self.depth;
        let first = (self.prefix as usize) << shift;
        first..first + (1 << shift)
    }
}

#[cfg(test)]
mod tests;
