//! Frames: one group commit each, and the unit that is complete or absent after a crash.
//!
//! ```text
//!  0  magic       u32   "DLYf"
//!  4  length      u32   bytes of the records that follow (multiple of 16; 0: a closing frame)
//!  8  header_crc  u32   over bytes 0..8 and 12..48, seeded by the store
//! 12  crc         u32   over the records, seeded by the store
//! 16  lsn         u64   number of the frame, +1 each, from 1
//! 24  steady      u64   the steady clock when this frame was written, ms
//! 32  epoch       u32   the store's epoch, from the manifest
//! 36  count       u32   records
//! 40  lag         u32   lsn minus the newest lsn known to be on disk when this frame was written
//!                       (u32::MAX: that or more)
//! 44  reserved    u32   0
//! 48  records
//! ```
//!
//! 1. The header has its own checksum, so its length is verified before anything behind it is read.
//!    Bytes that only look like a header cost a read of 48 bytes, not of a segment.
//! 2. `lag` distinguishes a torn tail from damage. A power cut can lose frames written since the last
//!    fsync in any combination. A bad frame is therefore cut off only when no later frame says that it
//!    had been on disk. See [`crate::journal::recovery`].
//! 3. A **closing frame** has no records. It follows a frame that was durable when it was written, and
//!    says so by its `lag` of 1. So damage to that frame is recognised even if no other frame follows.
//!    The closing frame itself has nothing to lose. It is written at a clean stop, and once when nothing
//!    has been written for a while.
//! 4. The checksums start from a [`Seed`] that only the store knows. Payloads are bytes of the callers,
//!    and without the seed a payload could contain whole frames. They would be accepted if a torn frame,
//!    or one that was cut off earlier, leaves that payload behind the end of the journal.

use super::{
    DecodeError,
    fields::{FieldReader, FieldWriter},
};

/// The magic number, "DLYf".
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"DLYf");
/// Bytes of a frame's header.
pub(crate) const HEADER_BYTES: usize = 48;
/// Offset of the checksum in the header.
const HEADER_CRC_AT: usize = 8;

/// Start value of the checksums of a store's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(u32);

impl Seed {
    /// Returns the seed of the store with this hash key (which never leaves the manifest).
    pub(crate) fn of(hash_key: u128) -> Self {
        Self(crc32c::crc32c(&hash_key.to_le_bytes()))
    }

    pub(super) fn crc(self, checked: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, checked)
    }

    /// Returns the checksum of a header without the `u32` at `crc_at`, which holds it.
    pub(super) fn crc_around(self, header: &[u8], crc_at: usize) -> u32 {
        crc32c::crc32c_append(self.crc(&header[..crc_at]), &header[crc_at + 4..])
    }

    /// Writes the checksum of a header into it.
    pub(super) fn seal(self, header: &mut [u8], crc_at: usize) {
        let crc = self.crc_around(header, crc_at);
        header[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Returns a header or trailer of `count` bytes, if it begins with this magic and is intact.
    pub(super) fn checked<'a>(
        self,
        bytes: &'a [u8],
        count: u64,
        magic: &[u8; 8],
        crc_at: usize,
    ) -> Result<&'a [u8], DecodeError> {
        let count = usize::try_from(count).expect("headers and trailers have less than 100 bytes");
        let bytes = bytes.get(..count).ok_or(DecodeError::Truncated(bytes.len()))?;
        if !bytes.starts_with(magic) {
            return Err(DecodeError::Impossible("another magic".into()));
        }
        if bytes[crc_at..crc_at + 4] != self.crc_around(bytes, crc_at).to_le_bytes() {
            return Err(DecodeError::Checksum);
        }
        Ok(bytes)
    }
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: u32,
    /// Checksum of the records.
    pub(crate) crc: u32,
    pub(crate) lsn: u64,
    /// The steady clock when the frame was written.
    pub(crate) steady_ms: u64,
    pub(crate) epoch: u32,
    pub(crate) count: u32,
    pub(crate) lag: u32,
}

impl Header {
    /// Reads a header; `None` if the bytes do not begin a frame of this store.
    pub(crate) fn read(bytes: &[u8], seed: Seed) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        let mut reader = FieldReader::new(bytes);
        if reader.u32().ok()? != MAGIC {
            return None;
        }
        let length = reader.u32().ok()?;
        if reader.u32().ok()? != seed.crc_around(bytes, HEADER_CRC_AT) {
            return None;
        }
        let header = Self {
            length,
            crc: reader.u32().ok()?,
            lsn: reader.u64().ok()?,
            steady_ms: reader.u64().ok()?,
            epoch: reader.u32().ok()?,
            count: reader.u32().ok()?,
            lag: reader.u32().ok()?,
        };
        let has_room = header.length != 0 || header.count == 0;
        (header.length.is_multiple_of(16) && has_room).then_some(header)
    }

    /// Returns `true` if this is a closing frame.
    pub(crate) const fn is_closing(&self) -> bool {
        self.length == 0
    }

    /// Returns the newest lsn that was on disk when this frame was written; 0 if the frame cannot say.
    pub(crate) const fn durable_lsn(&self) -> u64 {
        if self.lag == u32::MAX { 0 } else { self.lsn.saturating_sub(self.lag as u64) }
    }

    /// Returns the bytes of the whole frame.
    pub(crate) const fn frame_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.length as u64
    }
}

/// The fields of a frame's header that do not follow from its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) epoch: u32,
    pub(crate) lsn: u64,
    pub(crate) count: u32,
    /// The newest lsn that is on disk.
    pub(crate) durable_lsn: u64,
    /// The steady clock, ms.
    pub(crate) steady_ms: u64,
}

/// Makes a closing frame.
pub(crate) fn closing(seed: Seed, identity: Identity) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    seal(&mut frame, seed, Identity { count: 0, ..identity });
    frame
}

/// Fills in the header of `frame`, whose first [`HEADER_BYTES`] are reserved.
pub(crate) fn seal(frame: &mut [u8], seed: Seed, identity: Identity) {
    let Identity { epoch, lsn, count, durable_lsn, steady_ms } = identity;
    let (header, records) = frame.split_at_mut(HEADER_BYTES);
    let length =
        u32::try_from(records.len()).expect("a frame fits its segment, which is at most 256 MiB");
    assert!(length.is_multiple_of(16) && (length > 0 || count == 0), "records take room");
    let lag = u32::try_from(lsn - durable_lsn).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    let mut writer = FieldWriter(&mut bytes);
    writer.u32(MAGIC);
    writer.u32(length);
    writer.u32(0);
    writer.u32(seed.crc(records));
    writer.u64(lsn);
    writer.u64(steady_ms);
    writer.u32(epoch);
    writer.u32(count);
    writer.u32(lag);
    writer.u32(0);
    header.copy_from_slice(&bytes);
    seal_header(header, seed);
}

/// Writes the checksum of a header into it.
pub(super) fn seal_header(header: &mut [u8], seed: Seed) {
    seed.seal(&mut header[..HEADER_BYTES], HEADER_CRC_AT);
}

/// Returns `true` if bytes look like a damaged frame of this number. One of the two compared fields is
/// enough.
pub(crate) fn resembles(bytes: &[u8], lsn: u64) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes()) || bytes.get(16..24) == Some(&lsn.to_le_bytes())
}

/// Whether the records of a frame whose header holds agree with their checksum.
pub(crate) fn is_intact(frame: &[u8], seed: Seed, header: &Header) -> bool {
    frame.len() as u64 == header.frame_bytes() && seed.crc(&frame[HEADER_BYTES..]) == header.crc
}

#[cfg(test)]
mod tests;
