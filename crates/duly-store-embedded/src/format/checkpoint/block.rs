//! One block of a checkpoint, of any kind.

use super::{
    BLOCK_CRC_AT, BLOCK_HEADER_BYTES, BlockHeader, End, Entries, FileSlot, Leases,
    MultipleDeadLetters, Namespace, PAYLOAD_BYTES_MAX, small,
};
use crate::format::{
    DecodeError, align_up,
    fields::{FieldReader, FieldWriter},
    frame::Seed,
};

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
                small::encode_files(&mut writer, files);
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
            FILES => Self::Files(small::decode_files(&mut reader, count)?),
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
