//! Entries of an index, 24 bytes each: nearly all bytes of a checkpoint.
//!
//! ```text
//! 0  namespace  u32
//! 4  which      u8       1 live, 2 tombstones, 3 dead letters, 4 dead letters by timer
//! 5  reserved   3 bytes  0
//! 8  entries, each three u64
//! ```
//!
//! They stay bytes until they are read one by one, so that 100 million of them are not copied.

use super::PAYLOAD_BYTES_MAX;
use crate::format::{
    DecodeError,
    fields::{FieldReader, FieldWriter},
    timer::from_code,
};

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 24;
/// Most entries in a block.
pub(crate) const ENTRIES_MAX: usize = (PAYLOAD_BYTES_MAX as usize - 8) / ENTRY_BYTES;

/// The index of a namespace that entries belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum IndexKind {
    Live = 1,
    Tombstones = 2,
    DeadLetters = 3,
    DeadByTimer = 4,
}

impl IndexKind {
    /// All kinds, by their code.
    pub(crate) const ALL: [Self; 4] =
        [Self::Live, Self::Tombstones, Self::DeadLetters, Self::DeadByTimer];
}

/// Entries of one index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entries<'a> {
    pub(crate) namespace: u32,
    pub(crate) which: IndexKind,
    bytes: &'a [u8],
}

impl<'a> Entries<'a> {
    /// Wraps entries that [`append_entry`] gathered in `bytes`, at most [`ENTRIES_MAX`].
    pub(crate) fn new(namespace: u32, which: IndexKind, bytes: &'a [u8]) -> Self {
        assert!(bytes.len().is_multiple_of(ENTRY_BYTES), "{} bytes of entries", bytes.len());
        Self { namespace, which, bytes }
    }

    pub(crate) const fn len(&self) -> usize {
        self.bytes.len() / ENTRY_BYTES
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = [u64; 3]> + use<'a> {
        let (entries, _) = self.bytes.as_chunks::<ENTRY_BYTES>();
        entries.iter().map(words)
    }

    pub(super) fn encode(&self, writer: &mut FieldWriter<'_>) {
        writer.u32(self.namespace);
        writer.u32(self.which as u32);
        writer.raw(self.bytes);
    }

    pub(super) fn decode(reader: &mut FieldReader<'a>, count: usize) -> Result<Self, DecodeError> {
        let namespace = reader.u32()?;
        let [which, ..] = reader.array::<4>()?;
        let which = from_code(&IndexKind::ALL, which, "index")?;
        let bytes = reader.rest();
        if count.checked_mul(ENTRY_BYTES) != Some(bytes.len()) {
            let what = format!("{count} entries in {} bytes", bytes.len());
            return Err(DecodeError::Impossible(what));
        }
        Ok(Self { namespace, which, bytes })
    }
}

/// Appends an entry in the layout that [`Entries::new`] takes.
pub(crate) fn append_entry(bytes: &mut Vec<u8>, words: [u64; 3]) {
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

#[inline]
fn words(entry: &[u8; ENTRY_BYTES]) -> [u64; 3] {
    let (words, _) = entry.as_chunks::<8>();
    [words[0], words[1], words[2]].map(u64::from_le_bytes)
}
