//! The header of a journal segment.
//!
//! ```text
//!  0  magic     8 bytes  "DULYJRN\n"
//!  8  version   u32      format version
//! 12  crc       u32      over bytes 0..12 and 16..64
//! 16  store     u128     the store's UUID
//! 32  sequence  u64      number of the segment, +1 each, from 1
//! 40  base_lsn  u64      lsn of its first frame
//! 48  length    u64      bytes of the file
//! 56  reserved  u64      0
//! 64  frames
//! ```

use super::fields::{FieldReader, FieldWriter};

/// First bytes of a segment.
pub(crate) const MAGIC: &[u8; 8] = b"DULYJRN\n";
/// Bytes of the header.
pub(crate) const HEADER_BYTES: u64 = 64;

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) store: u128,
    pub(crate) sequence: u64,
    pub(crate) base_lsn: u64,
    pub(crate) length: u64,
}

impl Header {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut writer = FieldWriter(&mut bytes);
        writer.u32(self.version);
        writer.u32(0);
        writer.u128(self.store);
        writer.u64(self.sequence);
        writer.u64(self.base_lsn);
        writer.u64(self.length);
        writer.u64(0);
        let crc = checksum(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header; `None` if it is not a valid one.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..usize::try_from(HEADER_BYTES).ok()?)?;
        if &bytes[..8] != MAGIC {
            return None;
        }
        let mut reader = FieldReader::new(&bytes[8..]);
        let version = reader.u32().ok()?;
        let crc = reader.u32().ok()?;
        if checksum(bytes) != crc {
            return None;
        }
        Some(Self {
            version,
            store: reader.u128().ok()?,
            sequence: reader.u64().ok()?,
            base_lsn: reader.u64().ok()?,
            length: reader.u64().ok()?,
        })
    }
}

/// Returns the checksum of the whole header, without the checksum itself.
fn checksum(header: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..])
}

#[cfg(test)]
mod tests;
