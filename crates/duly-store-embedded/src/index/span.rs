//! Parts of the order in which an index holds its entries: a *position* is where a fingerprint
//! stands in it, a *span* is all positions that begin with the same bits, a *cursor* is where a scan
//! goes on.
//!
//! Positions are in the order of the fingerprints, but not as even: twice as many fingerprints
//! belong to the last thousandth of them as to the first. So at any time the tables of a large index
//! have all lengths from one to two times the shortest. Were positions even, all tables would be
//! equally long, and all would grow, or be split, at nearly the same time: bursts of work, and much
//! memory in blocks of the size that no table wants any more.

/// Longest prefix of a span.
pub(super) const DEPTH_MAX: u8 = 24;

/// The position of a fingerprint, of its low 64 bits x. As fractions: x + x (1 - x) / 3.
#[inline]
pub(super) const fn position(low: u64) -> u64 {
    // It never decreases with `low`: the second term falls by 1 at most where the first rises by 1.
    let product = (low as u128 * !low as u128) >> 64;
    low + product as u64 / 3
}

/// Where a scan goes on: the next position that it has not seen. Only the order of the fingerprints
/// is in it, so it means the same whatever happens to the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cursor(pub(crate) u64);

impl Cursor {
    /// Before everything.
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

    /// The largest one that begins at this position, which another ended at.
    pub(super) fn largest_at(start: u64) -> Self {
        let depth = (64 - start.trailing_zeros()) as u8;
        Self::new((start >> 1 >> (63 - depth)) as u32, depth)
    }

    pub(super) const fn depth(self) -> u8 {
        self.depth
    }

    /// The first position in it.
    pub(super) const fn start(self) -> u64 {
        // Two shifts, because the prefix of no bits would need a shift by 64.
        (self.prefix as u64) << (63 - self.depth) << 1
    }

    /// Where the next one begins; `None` for the last.
    pub(super) const fn end(self) -> Option<u64> {
        let next = self.prefix + 1;
        if next >> self.depth == 0 { Some((next as u64) << (64 - self.depth)) } else { None }
    }

    /// The halves, by the next bit.
    pub(super) fn halves(self) -> (Self, Self) {
        let first = self.prefix << 1;
        (Self::new(first, self.depth + 1), Self::new(first | 1, self.depth + 1))
    }

    /// What it is a half of, and the other half; `None` for the span of everything.
    pub(super) fn parent_and_buddy(self) -> Option<(Self, Self)> {
        let depth = self.depth.checked_sub(1)?;
        Some((Self::new(self.prefix >> 1, depth), Self::new(self.prefix ^ 1, self.depth)))
    }

    /// Spreads the fingerprints in it over `0..homes`, as evenly as can be and in their order:
    /// multiply-shift range reduction (Lemire, "Fast random integer generation in an interval").
    #[inline]
    pub(super) const fn home(self, low: u64, homes: u32) -> usize {
        // Over a part of the positions they are even enough; over all only the hash itself is.
        let even = if self.depth == 0 { low } else { position(low) << self.depth };
        ((even as u128 * homes as u128) >> 64) as usize
    }

    /// The pointers to it in a directory by `directory_depth` bits.
    pub(super) const fn pointers(self, directory_depth: u8) -> std::ops::Range<usize> {
        let shift = directory_depth - self.depth;
        let first = (self.prefix as usize) << shift;
        first..first + (1 << shift)
    }
}

#[cfg(test)]
mod tests;
