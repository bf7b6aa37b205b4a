//! Checkpoints: the state of the engine at about one moment, in blocks.
//!
//! ```text
//!  0  magic       8 bytes  "DULYCKP\n"
//!  8  version     u32      format version
//! 12  crc         u32      over bytes 0..12 and 16..96, seeded by the store
//! 16  store       u128     the store's UUID
//! 32  number      u64      number of the checkpoint, from 1
//! 40  sequence    u64      replay point: segment,
//! 48  offset      u64      byte in it,
//! 56  lsn         u64      and lsn of the first frame to replay
//! 64  epoch       u64      epoch in which it was written
//! 72  begun_at    u64      Unix ms
//! 80  retry_due   u64      latest due time of any retry there has been, Unix ms
//! 88  steady      u64      the steady clock when it was begun, ms
//! 96  blocks
//! ```
//!
//! A block is
//!
//! ```text
//!  0  kind     u32  see `Block`
//!  4  length   u32  bytes of the payload, at most 4 MiB
//!  8  count    u32  items in it
//! 12  crc      u32  over bytes 0..12 and the payload, seeded by the store
//! 16  payload, then zeros up to the next multiple of 16
//! ```
//!
//! 1. The last block is the *end*, and nothing follows it. A file without it is not a checkpoint.
//! 2. Lengths and counts are checked against the bytes that exist before anything is allocated.

use duly_core::destination::LaneKey;
use duly_record::{ReadFields as _, WriteFields as _};

use super::{
    DecodeError, align_up,
    fields::{FieldReader, FieldWriter},
    frame::Seed,
    record::NamespaceRecord,
    settings,
};

mod items;

#[cfg(test)]
pub(super) mod tests;

pub(crate) use items::{
    DEAD_LETTERS_MAX, DeadLetterEntry, ENTRIES_MAX, ENTRY_BYTES, End, Entries, FILES_MAX, FileId,
    FileSlot, IndexKind, LEASES_MAX, Leases, MultipleDeadLetters, append_entry,
};

/// First bytes of a checkpoint.
pub(crate) const MAGIC: &[u8; 8] = b"DULYCKP\n";
/// Bytes of the header; the blocks begin behind it.
pub(crate) const HEADER_BYTES: u64 = 96;
/// Bytes of a block's header.
pub(crate) const BLOCK_HEADER_BYTES: u64 = 16;
/// Longest payload of a block.
pub(crate) const PAYLOAD_BYTES_MAX: u64 = 4 << 20;
/// Bytes of the end block, the last of the file.
pub(crate) const END_BLOCK_BYTES: u64 = BLOCK_HEADER_BYTES + End::PAYLOAD_BYTES;

const HEADER_CRC_AT: usize = 12;
const BLOCK_CRC_AT: usize = 12;

/// A place from which the journal can be replayed: a former end of the journal. Everything before it is
/// durable, and known from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayPoint {
    /// Number of the segment.
    pub(crate) sequence: u64,
    /// Offset of the frame, existing or not.
    pub(crate) offset: u64,
    /// Number of that frame.
    pub(crate) lsn: u64,
    /// Epoch of the start in which this was the end. A frame here with an older epoch is a left-over
    /// from before a cut.
    pub(crate) epoch: u32,
}

/// A checkpoint's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) store: u128,
    pub(crate) number: u64,
    pub(crate) replay: ReplayPoint,
    pub(crate) begun_at_ms: u64,
    /// The latest due time of any retry so far.
    pub(crate) retry_due_max_ms: u64,
    /// The steady clock when the checkpoint was begun.
    pub(crate) steady_ms: u64,
}

impl Header {
    pub(crate) fn encode(&self, seed: Seed) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut writer = FieldWriter(&mut bytes);
        writer.u32(self.version);
        writer.u32(0);
        writer.u128(self.store);
        let ReplayPoint { sequence, offset, lsn, epoch } = self.replay;
        for number in [self.number, sequence, offset, lsn, u64::from(epoch), self.begun_at_ms] {
            writer.u64(number);
        }
        writer.u64(self.retry_due_max_ms);
        writer.u64(self.steady_ms);
        seed.seal(&mut bytes, HEADER_CRC_AT);
        bytes
    }

    pub(crate) fn read(bytes: &[u8], seed: Seed) -> Result<Self, DecodeError> {
        let bytes = seed.checked(bytes, HEADER_BYTES, MAGIC, HEADER_CRC_AT)?;
        let mut reader = FieldReader::new(&bytes[MAGIC.len()..]);
        let (version, _crc, store) = (reader.u32()?, reader.u32()?, reader.u128()?);
        Ok(Self {
            version,
            store,
            number: reader.u64()?,
            replay: ReplayPoint {
                sequence: reader.u64()?,
                offset: reader.u64()?,
                lsn: reader.u64()?,
                epoch: reader
                    .u64()?
                    .try_into()
                    .map_err(|_| DecodeError::Impossible("the epoch is past its range".into()))?,
            },
            begun_at_ms: reader.u64()?,
            retry_due_max_ms: reader.u64()?,
            steady_ms: reader.u64()?,
        })
    }
}

/// A block's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) kind: u32,
    pub(crate) length: u32,
    pub(crate) count: u32,
    pub(crate) crc: u32,
}

impl BlockHeader {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = FieldReader::new(bytes);
        let header = Self {
            kind: reader.u32()?,
            length: reader.u32()?,
            count: reader.u32()?,
            crc: reader.u32()?,
        };
        if u64::from(header.length) > PAYLOAD_BYTES_MAX {
            let what = format!("a block of {} bytes", header.length);
            return Err(DecodeError::Impossible(what));
        }
        Ok(header)
    }

    /// Returns the bytes of the whole block, padding included.
    pub(crate) const fn block_bytes(&self) -> u64 {
        align_up(BLOCK_HEADER_BYTES + self.length as u64)
    }

    /// Returns the payload of the block that begins with this header, if its checksum is right.
    pub(crate) fn payload<'a>(&self, block: &'a [u8], seed: Seed) -> Result<&'a [u8], DecodeError> {
        let bytes = BLOCK_HEADER_BYTES as usize + self.length as usize;
        let block = block.get(..bytes).ok_or(DecodeError::Truncated(block.len()))?;
        if seed.crc_around(block, BLOCK_CRC_AT) != self.crc {
            return Err(DecodeError::Checksum);
        }
        Ok(&block[BLOCK_HEADER_BYTES as usize..])
    }
}

const NAMESPACE: u32 = 1;
const ENTRIES: u32 = 2;
const LEASES: u32 = 3;
const SEVERAL: u32 = 4;
const FILES: u32 = 5;
const END: u32 = 6;

/// The contents of a block. Entries are borrowed from the buffer that they were read into.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block<'a> {
    /// Kind 1: one namespace.
    Namespace(Box<Namespace>),
    /// Kind 2: entries of one index.
    Entries(Entries<'a>),
    /// Kind 3: leases of one namespace.
    Leases(Leases),
    /// Kind 4: dead letters of timers that have several.
    MultipleDeadLetters(MultipleDeadLetters),
    /// Kind 5: the file of each slot.
    Files(Vec<FileSlot>),
    /// Kind 6: the end.
    End(End),
}

impl<'a> Block<'a> {
    /// Appends the block.
    ///
    /// # Panics
    /// When its payload is longer than [`PAYLOAD_BYTES_MAX`]. The caller must keep to the limits of the
    /// kinds.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, seed: Seed) {
        let start = out.len();
        out.extend_from_slice(&[0; BLOCK_HEADER_BYTES as usize]);
        let mut writer = FieldWriter(out);
        let (kind, count) = match self {
            Self::Namespace(namespace) => {
                namespace.encode(&mut writer);
                (NAMESPACE, 1)
            }
            Self::Entries(entries) => {
                entries.encode(&mut writer);
                (ENTRIES, entries.len())
            }
            Self::Leases(leases) => {
                leases.encode(&mut writer);
                (LEASES, leases.leases.len())
            }
            Self::MultipleDeadLetters(several) => {
                several.encode(&mut writer);
                (SEVERAL, several.dead_letters.len())
            }
            Self::Files(files) => {
                items::encode_files(&mut writer, files);
                (FILES, files.len())
            }
            Self::End(end) => {
                end.encode(&mut writer);
                (END, 1)
            }
        };
        let payload_bytes = (out.len() - start) as u64 - BLOCK_HEADER_BYTES;
        assert!(payload_bytes <= PAYLOAD_BYTES_MAX, "a block of {payload_bytes} bytes");
        let length = u32::try_from(payload_bytes).expect("at most 4 MiB");
        let count = u32::try_from(count).expect("fewer than bytes");
        let block = &mut out[start..];
        block[..4].copy_from_slice(&kind.to_le_bytes());
        block[4..8].copy_from_slice(&length.to_le_bytes());
        block[8..12].copy_from_slice(&count.to_le_bytes());
        seed.seal(block, BLOCK_CRC_AT);
        let padded_bytes = align_up(block.len() as u64);
        out.resize(start + usize::try_from(padded_bytes).expect("little more than 4 MiB"), 0);
    }

    /// Decodes the payload that belongs to this header.
    pub(crate) fn decode(header: &BlockHeader, payload: &'a [u8]) -> Result<Self, DecodeError> {
        let count = header.count as usize;
        let mut reader = FieldReader::new(payload);
        let block = match header.kind {
            NAMESPACE => Self::Namespace(Box::new(Namespace::decode(&mut reader)?)),
            ENTRIES => Self::Entries(Entries::decode(&mut reader, count)?),
            LEASES => Self::Leases(Leases::decode(&mut reader, count)?),
            SEVERAL => Self::MultipleDeadLetters(MultipleDeadLetters::decode(&mut reader, count)?),
            FILES => Self::Files(items::decode_files(&mut reader, count)?),
            END => Self::End(End::decode(&mut reader)?),
            other => return Err(DecodeError::unknown("kind of block", other)),
        };
        if !reader.is_done() {
            return Err(DecodeError::Impossible("bytes left over after the block".into()));
        }
        if matches!(block, Self::Namespace(_) | Self::End(_)) && count != 1 {
            return Err(DecodeError::Impossible(format!("{count} where there is one")));
        }
        Ok(block)
    }
}

/// A namespace.
///
/// ```text
/// 0  number  u32
/// 4  lsn     u64  of the newest record whose effect on the totals is in them
///    counts  4 x u64  about how many entries of each index follow, to reserve memory
///    body         as in a namespace's record: name, times, totals, settings
///    lanes   u32  how many, then of each, ascending:
///                 number u8, key text: "" follows the namespace, "pull", "overflow", or an origin
/// ```
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Namespace {
    pub(crate) number: u32,
    /// Records up to this lsn are already counted in the totals.
    pub(crate) lsn: u64,
    pub(crate) record: NamespaceRecord,
    /// Lanes, by number.
    pub(crate) lanes: Vec<Lane>,
    /// Approximate number of entries of each index that follow: a hint.
    pub(crate) counts: [u64; 4],
}

/// A lane and its number in index entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) number: u8,
    /// `None` for the lane that follows the namespace's own destination.
    pub(crate) key: Option<LaneKey>,
}

impl Namespace {
    fn encode(&self, writer: &mut FieldWriter<'_>) {
        writer.u32(self.number);
        writer.u64(self.lsn);
        for count in self.counts {
            writer.u64(count);
        }
        settings::encode_namespace(writer, &self.record);
        let lanes = u32::try_from(self.lanes.len()).expect("lanes have numbers of one byte");
        writer.u32(lanes);
        for lane in &self.lanes {
            writer.u8(lane.number);
            writer.text(lane.key.as_ref().map_or("", LaneKey::label));
        }
    }

    fn decode(reader: &mut FieldReader<'_>) -> Result<Self, DecodeError> {
        let (number, lsn) = (reader.u32()?, reader.u64()?);
        let counts = [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
        let record = settings::decode_namespace(reader)?;
        // Ascending numbers of one byte: there are never more than 256.
        let mut lanes: Vec<Lane> = Vec::new();
        for _ in 0..reader.u32()? {
            let lane = Lane { number: reader.u8()?, key: key_of(reader.text()?) };
            if lanes.last().is_some_and(|last| last.number >= lane.number) {
                return Err(DecodeError::Impossible("the lanes are not sorted".into()));
            }
            lanes.push(lane);
        }
        Ok(Self { number, lsn, record, lanes, counts })
    }
}

/// Origins are `scheme://host:port`, so they cannot equal the labels of the other lanes.
fn key_of(label: &str) -> Option<LaneKey> {
    if label.is_empty() {
        return None;
    }
    let named = [LaneKey::Pull, LaneKey::Overflow].into_iter().find(|key| key.label() == label);
    Some(named.unwrap_or_else(|| LaneKey::Receiver(label.into())))
}
