//! The blocks with items of one size: index entries, leases, dead letters of timers with several, files; and
//! the end.
//!
//! ```text
//! entries  namespace u32 | which u8 (1 live, 2 tombstones, 3 dead letters, 4 dead letters by timer) |
//!          reserved 3 bytes | each: three u64
//! leases   namespace u32 | reserved u32 | each: key 12 bytes | nonce u64 | attempt u32 |
//!          flags u8 (1: a node holds it) | node u64 | claimed_at u64 | lease_ms u64 | until u64
//! several  namespace u32 | reserved u32 | each: timer 12 bytes | died_at u64 | letter 12 bytes
//! files    each: slot u16 | kind u8 (1 segment, 2 run) | reserved 5 bytes | number u64
//! end      blocks u64 | namespaces u64 | entries u64 | highest namespace number u32 |
//!          reserved u32
//! ```
//!
//! Entries are nearly all bytes of a checkpoint. They stay bytes until they are read one by one, so that 100
//! million of them are not copied. Keys are 12 bytes as the index packs them. A dead letter's key is that of
//! its delivery id.

use duly_record::{ReadFields as _, WriteFields as _};

use super::{Block, PAYLOAD_BYTES_MAX};
use crate::format::{
    DecodeError,
    fields::{FieldReader, FieldWriter},
    record::Lease,
};

const LEASE_BYTES: usize = 57;
const DEAD_LETTER_BYTES: usize = 32;
const FILE_BYTES: usize = 16;
/// Namespace and reserved bytes in front of leases and dead letters.
const PREFIX_BYTES: usize = 8;

/// Most leases in a block.
pub(crate) const LEASES_MAX: usize = (PAYLOAD_BYTES_MAX as usize - PREFIX_BYTES) / LEASE_BYTES;
/// Most dead letters in a block.
pub(crate) const DEAD_LETTERS_MAX: usize =
    (PAYLOAD_BYTES_MAX as usize - PREFIX_BYTES) / DEAD_LETTER_BYTES;
/// Most files in a block.
pub(crate) const FILES_MAX: usize = PAYLOAD_BYTES_MAX as usize / FILE_BYTES;

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
        let which = duly_record::from_code::<_, DecodeError>(&IndexKind::ALL, which, "index")?;
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

/// Leases under way in one namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leases {
    pub(crate) namespace: u32,
    pub(crate) leases: Vec<([u8; 12], Lease)>,
}

impl Leases {
    pub(super) fn encode(&self, writer: &mut FieldWriter<'_>) {
        writer.u32(self.namespace);
        writer.u32(0);
        for (key, lease) in &self.leases {
            writer.raw(key);
            lease.encode(writer);
        }
    }

    pub(super) fn decode(reader: &mut FieldReader<'_>, count: usize) -> Result<Self, DecodeError> {
        let (namespace, _reserved) = (reader.u32()?, reader.u32()?);
        let leases = each(reader, count, LEASE_BYTES, |reader| {
            Ok((reader.array()?, Lease::decode(reader)?))
        })?;
        Ok(Self { namespace, leases })
    }
}

/// Dead letters of timers in one namespace that have more than one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MultipleDeadLetters {
    pub(crate) namespace: u32,
    pub(crate) dead_letters: Vec<DeadLetterEntry>,
}

/// A dead letter of a timer that has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeadLetterEntry {
    pub(crate) timer: [u8; 12],
    pub(crate) dead_lettered_ms: u64,
    /// The key of the dead letter's delivery id.
    pub(crate) letter: [u8; 12],
}

impl MultipleDeadLetters {
    pub(super) fn encode(&self, writer: &mut FieldWriter<'_>) {
        writer.u32(self.namespace);
        writer.u32(0);
        for letter in &self.dead_letters {
            writer.raw(&letter.timer);
            writer.u64(letter.dead_lettered_ms);
            writer.raw(&letter.letter);
        }
    }

    pub(super) fn decode(reader: &mut FieldReader<'_>, count: usize) -> Result<Self, DecodeError> {
        let (namespace, _reserved) = (reader.u32()?, reader.u32()?);
        let dead_letters = each(reader, count, DEAD_LETTER_BYTES, |reader| {
            Ok(DeadLetterEntry {
                timer: reader.array()?,
                dead_lettered_ms: reader.u64()?,
                letter: reader.array()?,
            })
        })?;
        Ok(Self { namespace, dead_letters })
    }
}

/// Identity of a data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileId {
    /// A segment, by its sequence.
    Segment(u64),
    /// A sorted run, by its id.
    SortedRun(u64),
}

const SEGMENT: u8 = 1;
const SORTED_RUN: u8 = 2;

/// The file that locations with this slot point into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSlot {
    pub(crate) slot: u16,
    pub(crate) id: FileId,
}

pub(super) fn encode_files(writer: &mut FieldWriter<'_>, files: &[FileSlot]) {
    for file in files {
        let (kind, number) = match file.id {
            FileId::Segment(number) => (SEGMENT, number),
            FileId::SortedRun(number) => (SORTED_RUN, number),
        };
        let [low, high] = file.slot.to_le_bytes();
        writer.raw(&[low, high, kind, 0, 0, 0, 0, 0]);
        writer.u64(number);
    }
}

pub(super) fn decode_files(
    reader: &mut FieldReader<'_>,
    count: usize,
) -> Result<Vec<FileSlot>, DecodeError> {
    each(reader, count, FILE_BYTES, |reader| {
        let slot = reader.u16()?;
        let [kind, _reserved @ ..] = reader.array::<6>()?;
        let id = match kind {
            SEGMENT => FileId::Segment(reader.u64()?),
            SORTED_RUN => FileId::SortedRun(reader.u64()?),
            other => return Err(DecodeError::unknown("kind of file", other)),
        };
        Ok(FileSlot { slot, id })
    })
}

/// The last block: the counts of the whole checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct End {
    /// Blocks before this one.
    pub(crate) blocks: u64,
    pub(crate) namespaces: u64,
    /// Entries of all indexes.
    pub(crate) entries: u64,
    /// Highest number that a namespace ever had. A number is reused only when no record on disk has it.
    pub(crate) highest_namespace: u32,
}

impl End {
    /// Bytes of its payload.
    pub(crate) const PAYLOAD_BYTES: u64 = 32;

    /// Counts a block before the end.
    pub(crate) fn count(&mut self, block: &Block<'_>) {
        match block {
            Block::Namespace(namespace) => {
                self.namespaces += 1;
                self.highest_namespace = self.highest_namespace.max(namespace.number);
            }
            Block::Entries(entries) => self.entries += entries.len() as u64,
            _ => {}
        }
        self.blocks += 1;
    }

    pub(super) fn encode(&self, writer: &mut FieldWriter<'_>) {
        writer.u64(self.blocks);
        writer.u64(self.namespaces);
        writer.u64(self.entries);
        writer.u32(self.highest_namespace);
        writer.u32(0);
    }

    pub(super) fn decode(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let end = Self {
            blocks: reader.u64()?,
            namespaces: reader.u64()?,
            entries: reader.u64()?,
            highest_namespace: reader.u32()?,
        };
        reader.u32()?;
        Ok(end)
    }
}

/// Reads `count` items of `bytes` bytes each, which must be all that is left.
fn each<T>(
    reader: &mut FieldReader<'_>,
    count: usize,
    bytes: usize,
    mut read: impl FnMut(&mut FieldReader<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let rest = reader.rest();
    if count.checked_mul(bytes) != Some(rest.len()) {
        return Err(DecodeError::Impossible(format!("{count} things in {} bytes", rest.len())));
    }
    let mut rest = FieldReader::new(rest);
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        all.push(read(&mut rest)?);
    }
    Ok(all)
}
