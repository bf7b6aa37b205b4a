//! The index entry and what it is made of.
//!
//! ```text
//!   word 0   fingerprint, low 64 bits
//!   word 1   fingerprint, high 8 | namespace 24 | lane 8 | offset/16 24
//!   word 2   due 43 | retry 1 | file 16 | size class 4
//! ```
//!
//! Fingerprint and namespace are the key: 96 bits of which 72 come from a hash keyed per store, so
//! nobody can construct two ids that collide. Due is in Unix milliseconds: the time at which it can
//! be claimed (for a stub: at which it goes). The offset counts units of 16 bytes in a segment; the
//! size class says how much to read in one call.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

const OFFSET_BITS: u32 = 24;
const LANE_SHIFT: u32 = OFFSET_BITS;
const NAMESPACE_SHIFT: u32 = LANE_SHIFT + 8;
const HIGH_SHIFT: u32 = NAMESPACE_SHIFT + 24;
const RETRY_SHIFT: u32 = 20;
const FILE_SHIFT: u32 = 4;
const DUE_SHIFT: u32 = 21;
/// Largest namespace number.
pub(crate) const NAMESPACE_MAX: u32 = (1 << 24) - 1;
/// Bytes read for a record of size class 0; each class doubles it.
const CLASS_BYTES: u64 = 64;

/// The second word of an empty slot: a due time that no timer has.
const EMPTY: u64 = u64::MAX;

/// What a timer is found by: 72 bits of keyed hash and the number of its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    low: u64,
    /// High 8 bits of the fingerprint, then the namespace.
    high: u32,
}

/// A key in 12 bytes, for structures that hold very many.
pub(crate) type PackedKey = [u8; 12];

impl Key {
    /// The key of an id, by the store's own hash key.
    pub(crate) fn of(hash_key: u128, namespace: u32, id: &str) -> Self {
        debug_assert!(namespace <= NAMESPACE_MAX, "namespace numbers have 24 bits");
        let mut hasher = SipHasher13::new_with_key(&hash_key.to_le_bytes());
        hasher.write(&namespace.to_le_bytes());
        hasher.write(id.as_bytes());
        let hash = hasher.finish128();
        #[expect(clippy::cast_possible_truncation)]
        let high = (hash.h2 as u32 & 0xFF) << 24 | namespace;
        Self { low: hash.h1, high }
    }

    /// Number of its namespace.
    pub(crate) const fn namespace(self) -> u32 {
        self.high & NAMESPACE_MAX
    }

    /// Which table it lies in: 12 bits that do not take part in the place within the table.
    pub(crate) const fn table(self) -> usize {
        ((self.high >> 24) as usize) << 4 | (self.low & 0xF) as usize
    }

    /// The bits that decide its place within a table.
    pub(crate) const fn spread(self) -> u64 {
        self.low
    }

    pub(crate) fn pack(self) -> PackedKey {
        let mut packed = [0; 12];
        packed[..8].copy_from_slice(&self.low.to_le_bytes());
        packed[8..].copy_from_slice(&self.high.to_le_bytes());
        packed
    }

    pub(crate) fn unpack(packed: PackedKey) -> Self {
        let (low, high) = packed.split_at(8);
        Self {
            low: u64::from_le_bytes(low.try_into().expect("8 of 12 bytes")),
            high: u32::from_le_bytes(high.try_into().expect("4 of 12 bytes")),
        }
    }
}

/// Where a record stands: slot of the segment, offset in units of 16 bytes, size class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    slot: u16,
    unit: u32,
    class: u8,
}

impl Location {
    /// A place for a record of `bytes` bytes.
    pub(crate) fn new(slot: u16, unit: u64, bytes: u64) -> Self {
        let unit = u32::try_from(unit).expect("segments have at most 256 MiB");
        assert!(unit < 1 << OFFSET_BITS, "segments have at most 256 MiB");
        let class = (0..15).find(|class| CLASS_BYTES << class >= bytes).unwrap_or(15);
        Self { slot, unit, class }
    }

    pub(crate) const fn slot(self) -> u16 {
        self.slot
    }

    pub(crate) const fn unit(self) -> u64 {
        self.unit as u64
    }

    /// How much to read so that the record is in it (the last class may need a second read).
    pub(crate) const fn bytes_max(self) -> u64 {
        CLASS_BYTES << self.class
    }

    /// The record's size, estimated from its class.
    pub(crate) const fn bytes_estimate(self) -> u64 {
        self.bytes_max() / 4 * 3
    }
}

/// An entry: 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry([u64; 3]);

impl Entry {
    pub(super) const EMPTY: Self = Self([0, 0, EMPTY]);

    pub(crate) fn new(key: Key, lane: u8, claim: Claimable, location: Location) -> Self {
        debug_assert!(claim.at_ms < 1 << 43, "times end at 2200");
        let high = u64::from(key.high >> 24);
        let word1 = high << HIGH_SHIFT
            | u64::from(key.namespace()) << NAMESPACE_SHIFT
            | u64::from(lane) << LANE_SHIFT
            | u64::from(location.unit);
        let word2 = claim.at_ms << DUE_SHIFT
            | u64::from(claim.kind == Kind::Retry) << RETRY_SHIFT
            | u64::from(location.slot) << FILE_SHIFT
            | u64::from(location.class);
        Self([key.low, word1, word2])
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0[2] == EMPTY
    }

    #[cfg(test)]
    pub(super) const fn words(&self) -> [u64; 3] {
        self.0
    }

    pub(crate) const fn key(&self) -> Key {
        let high = (self.0[1] >> HIGH_SHIFT) as u32;
        let namespace = (self.0[1] >> NAMESPACE_SHIFT) as u32 & NAMESPACE_MAX;
        Key { low: self.0[0], high: high << 24 | namespace }
    }

    pub(crate) const fn lane(&self) -> u8 {
        (self.0[1] >> LANE_SHIFT) as u8
    }

    pub(crate) const fn claimable(&self) -> Claimable {
        let retry = self.0[2] >> RETRY_SHIFT & 1 == 1;
        let kind = if retry { Kind::Retry } else { Kind::First };
        Claimable { at_ms: self.0[2] >> DUE_SHIFT, kind }
    }

    pub(crate) const fn location(&self) -> Location {
        Location {
            slot: (self.0[2] >> FILE_SHIFT) as u16,
            unit: (self.0[1] & ((1 << OFFSET_BITS) - 1)) as u32,
            class: (self.0[2] & 0xF) as u8,
        }
    }
}

/// Whether no attempt of the firing has failed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    First,
    Retry,
}

/// When, and as what, a timer can be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Claimable {
    pub(crate) at_ms: u64,
    pub(crate) kind: Kind,
}
