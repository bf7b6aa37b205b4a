//! The index entry and its parts.
//!
//! ```text
//!   word 0   fingerprint, low 64 bits
//!   word 1   fingerprint, high 8 | flags 8 | zero 16 | lane 8 | offset/16 24
//!   word 2   due 43 | retry 1 | file 16 | size class 4
//! ```
//!
//! 1. The namespace is not stored: each namespace has an index of its own.
//! 2. Due is in Unix milliseconds: the time from which the timer can be claimed. For a tombstone it is
//!    the time at which the timer ended; in a checkpoint, the time at which its retention is over.
//! 3. The offset counts units of 16 bytes in a file; the size class says how much to read in one call.
//! 4. A tombstone has no lane. The 24 bits from there on are its number in the order of ends.
//! 5. One kind of entry leads from a timer to its latest dead letter. It has the dead letter's key in
//!    place of flags, lane, offset, file and size class. The high 56 bits of the key's low part
//!    are in word 1. The other 8 bits of that part and the 8 bits of its high part are in the low 16
//!    bits of word 2.

use super::{
    key::{Fingerprint, Key},
    span::position,
};

const OFFSET_BITS: u32 = 24;
const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;
const LANE_SHIFT: u32 = OFFSET_BITS;
const FLAGS_SHIFT: u32 = 48;
const FLAGS_MASK: u64 = 0xFF << FLAGS_SHIFT;
const HIGH_SHIFT: u32 = 56;
const CLASS_MASK: u64 = 0xF;
const FILE_SHIFT: u32 = 4;
const RETRY_SHIFT: u32 = 20;
/// The bits of file and size class.
const PLACE_MASK: u64 = (1 << RETRY_SHIFT) - 1;
const DUE_SHIFT: u32 = 21;
/// The high 56 bits of a named key's low part are in word 1, and the rest in word 2.
const NAMED_BITS: u32 = 8;
const NAMED_MASK: u64 = (1 << NAMED_BITS) - 1;
/// Largest number of a tombstone.
pub(crate) const NUMBER_MAX: u32 = (1 << 24) - 1;
/// Bytes read for a record of size class 0; each class doubles it.
const CLASS_BYTES: u64 = 64;
const CLASS_MAX: u8 = 15;
/// The largest payload, and the most that everything else can take.
const LARGEST_BYTES: u64 = duly_core::payload::PAYLOAD_BYTES_HARD + (1 << 20);

/// The last word of an empty slot: a due time that no timer has.
const EMPTY: u64 = u64::MAX;

/// The place of a record: slot of the file, offset in units of 16 bytes, size class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    slot: u16,
    unit: u32,
    class: u8,
}

impl Location {
    /// Makes the location of a record of `bytes` bytes.
    pub(crate) fn new(slot: u16, unit: u64, bytes: u64) -> Self {
        let unit = u32::try_from(unit).expect("segments have at most 256 MiB");
        assert!(unit < 1 << OFFSET_BITS, "segments have at most 256 MiB");
        let class = (0..CLASS_MAX).find(|class| CLASS_BYTES << class >= bytes).unwrap_or(CLASS_MAX);
        Self { slot, unit, class }
    }

    /// Returns the same place in the file of another slot.
    #[must_use]
    pub(crate) const fn in_slot(self, slot: u16) -> Self {
        Self { slot, ..self }
    }

    pub(crate) const fn slot(self) -> u16 {
        self.slot
    }

    /// Returns a number that sorts locations by file and by offset.
    pub(crate) const fn order(self) -> u64 {
        (self.slot as u64) << OFFSET_BITS | self.unit as u64
    }

    pub(crate) const fn unit(self) -> u64 {
        self.unit as u64
    }

    /// Returns the number of bytes to read so that they include the record (the last class may need a
    /// second read).
    pub(crate) const fn bytes_max(self) -> u64 {
        CLASS_BYTES << self.class
    }

    /// Returns an upper bound of the record's size; the last class has none.
    pub(crate) const fn bytes_bound(self) -> Option<u64> {
        if self.class < CLASS_MAX { Some(self.bytes_max()) } else { None }
    }

    /// Returns an upper bound of the record's size, for every class.
    pub(crate) const fn bytes_at_most(self) -> u64 {
        if self.class < CLASS_MAX { self.bytes_max() } else { LARGEST_BYTES }
    }

    /// Returns an estimate of the record's size from its class; much too low for a very large record.
    pub(crate) const fn bytes_estimate(self) -> u64 {
        self.bytes_max() / 4 * 3
    }
}

/// Further facts about a timer, which change without a change of the timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u8);

impl Flags {
    pub(crate) const NONE: Self = Self(0);
    /// The timer is counted as due.
    pub(crate) const COUNTED_DUE: Self = Self(1);
    /// The timer is leased.
    pub(crate) const LEASED: Self = Self(2);
    /// The timer has a time after which it must not be delivered.
    pub(crate) const EXPIRES: Self = Self(4);
    /// The timer is counted as due, but its record could not be read at the latest attempt.
    pub(crate) const UNREADABLE: Self = Self(8);
    /// All flags that count the timer as due.
    pub(crate) const DUE: Self = Self(Self::COUNTED_DUE.0 | Self::UNREADABLE.0);

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns `true` if all of `other` are set.
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// An entry: 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry([u64; 3]);

impl Entry {
    /// The content of a slot without an entry. It sorts behind all entries, so a search that stops at
    /// the first slot that is not below its target stops here too.
    pub(super) const EMPTY: Self = Self([u64::MAX, 0, EMPTY]);

    /// Makes an entry without flags.
    pub(crate) fn new(key: Key, lane: u8, claim: Claimable, location: Location) -> Self {
        debug_assert!(claim.at_ms < (1 << 43) - 1, "times end at 2200");
        let Fingerprint { low, high } = key.fingerprint();
        let word1 = u64::from(high) << HIGH_SHIFT | u64::from(lane) << LANE_SHIFT;
        let word2 =
            claim.at_ms << DUE_SHIFT | u64::from(claim.kind == AttemptKind::Retry) << RETRY_SHIFT;
        Self([low, word1, word2]).at(location)
    }

    /// Makes an entry that names another key of its namespace in place of a lane and a location. It
    /// leads from a timer to its latest dead letter.
    pub(crate) fn naming(key: Key, at_ms: u64, other: Key) -> Self {
        debug_assert!(at_ms < (1 << 43) - 1, "times end at 2200");
        let Fingerprint { low, high } = key.fingerprint();
        let named = other.fingerprint();
        let word1 = u64::from(high) << HIGH_SHIFT | named.low >> NAMED_BITS;
        let rest = (named.low & NAMED_MASK) << NAMED_BITS | u64::from(named.high);
        Self([low, word1, at_ms << DUE_SHIFT | rest])
    }

    /// Returns the key that [`Self::naming`] took.
    pub(crate) const fn named(&self, namespace: u32) -> Key {
        let [_, word1, word2] = self.0;
        let low = word1 << NAMED_BITS | word2 >> NAMED_BITS & NAMED_MASK;
        let high = (word2 & NAMED_MASK) as u8;
        Key::from_parts(Fingerprint { low, high }, namespace)
    }

    /// Restores the entry that [`Self::words`] gave; `None` for words that mark an empty slot.
    pub(crate) fn from_words(words: [u64; 3]) -> Option<Self> {
        let entry = Self(words);
        (!entry.is_empty()).then_some(entry)
    }

    pub(crate) const fn words(&self) -> [u64; 3] {
        self.0
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0[2] == EMPTY
    }

    /// Returns the low 64 bits of its fingerprint, which order an index.
    pub(super) const fn low(&self) -> u64 {
        self.0[0]
    }

    pub(super) const fn position(&self) -> u64 {
        position(self.0[0])
    }

    pub(super) const fn fingerprint(&self) -> Fingerprint {
        Fingerprint { low: self.0[0], high: (self.0[1] >> HIGH_SHIFT) as u8 }
    }

    /// Returns its key, given the namespace whose index it comes from.
    pub(crate) fn key(&self, namespace: u32) -> Key {
        Key::from_parts(self.fingerprint(), namespace)
    }

    pub(crate) const fn lane(&self) -> u8 {
        (self.0[1] >> LANE_SHIFT) as u8
    }

    /// Returns the number of a tombstone.
    pub(crate) const fn number(&self) -> u32 {
        (self.0[1] >> LANE_SHIFT) as u32 & NUMBER_MAX
    }

    /// Returns a tombstone's entry with this number, modulo 2^24, in place of the lane.
    #[must_use]
    pub(crate) const fn with_number(self, number: u32) -> Self {
        let [low, word1, word2] = self.0;
        let number = ((number & NUMBER_MAX) as u64) << LANE_SHIFT;
        Self([low, word1 & !((NUMBER_MAX as u64) << LANE_SHIFT) | number, word2])
    }

    pub(crate) const fn flags(&self) -> Flags {
        Flags((self.0[1] >> FLAGS_SHIFT) as u8)
    }

    /// Returns the entry with these flags and no others.
    #[must_use]
    pub(crate) const fn with_flags(self, flags: Flags) -> Self {
        let [low, word1, word2] = self.0;
        Self([low, word1 & !FLAGS_MASK | (flags.0 as u64) << FLAGS_SHIFT, word2])
    }

    pub(crate) const fn claimable(&self) -> Claimable {
        let retry = self.0[2] >> RETRY_SHIFT & 1 == 1;
        let kind = if retry { AttemptKind::Retry } else { AttemptKind::First };
        Claimable { at_ms: self.0[2] >> DUE_SHIFT, kind }
    }

    /// Returns the entry with another time.
    #[must_use]
    pub(crate) const fn due(self, at_ms: u64) -> Self {
        debug_assert!(at_ms < (1 << 43) - 1, "times end at 2200");
        let [low, word1, word2] = self.0;
        Self([low, word1, word2 & ((1 << DUE_SHIFT) - 1) | at_ms << DUE_SHIFT])
    }

    pub(crate) const fn location(&self) -> Location {
        Location {
            slot: (self.0[2] >> FILE_SHIFT) as u16,
            unit: (self.0[1] & OFFSET_MASK) as u32,
            class: (self.0[2] & CLASS_MASK) as u8,
        }
    }

    /// Returns the entry with its record at another location.
    #[must_use]
    pub(crate) const fn at(self, location: Location) -> Self {
        let [low, word1, word2] = self.0;
        let place = (location.slot as u64) << FILE_SHIFT | location.class as u64;
        Self([low, word1 & !OFFSET_MASK | location.unit as u64, word2 & !PLACE_MASK | place])
    }
}

/// The kind of the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AttemptKind {
    First,
    Retry,
}

impl AttemptKind {
    /// Both kinds, in the order in which arrays by kind have them.
    pub(crate) const ALL: [Self; 2] = [Self::First, Self::Retry];
}

/// The time from which a timer can be claimed, and the kind of that attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Claimable {
    pub(crate) at_ms: u64,
    pub(crate) kind: AttemptKind,
}

#[cfg(test)]
mod tests;
