//! Frames: one group commit each, the unit that is whole or absent after a crash.
//!
//! ```text
//!  0  magic   u32   "DLYf"
//!  4  length  u32   bytes of the records that follow (multiple of 16, never 0)
//!  8  crc     u32   over everything after this field, records included, seeded by the store
//! 12  epoch   u32   the store's epoch, from the manifest
//! 16  lsn     u64   number of the frame, +1 each, from 1
//! 24  count   u32   records
//! 28  lag     u32   lsn minus the newest lsn known to be on disk when this frame was written
//!                   (u32::MAX: that or more)
//! 32  records
//! ```
//!
//! `lag` is what tells a torn tail from damage. Frames written since the last fsync may be lost in
//! any combination by a power cut; a bad frame is therefore cut off only when no later frame says
//! that it had been on disk. See [`crate::journal::recovery`].
//!
//! The checksum starts from a [`Seed`] that only the store knows. Payloads are the callers' bytes:
//! without it a payload could hold whole frames, which would be believed where a torn frame, or a
//! frame that was cut off earlier, leaves that payload behind the end of the journal.

use super::fields::{Reader, Writer};

/// "DLYf".
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"DLYf");
/// Bytes of a frame's header.
pub(crate) const HEADER_BYTES: usize = 32;
/// Where the checksummed part begins.
const CHECKED_FROM: usize = 12;

/// What the checksums of a store's frames start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seed(u32);

impl Seed {
    /// The seed of the store with this hash key (which never leaves the manifest).
    pub(crate) fn of(hash_key: u128) -> Self {
        Self(crc32c::crc32c(&hash_key.to_le_bytes()))
    }

    pub(super) fn crc(self, checked: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, checked)
    }

    /// Over a header without the checksum in it, which is the `u32` at `crc_at`.
    pub(super) fn crc_around(self, header: &[u8], crc_at: usize) -> u32 {
        crc32c::crc32c_append(self.crc(&header[..crc_at]), &header[crc_at + 4..])
    }
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: u32,
    pub(crate) crc: u32,
    pub(crate) epoch: u32,
    pub(crate) lsn: u64,
    pub(crate) count: u32,
    pub(crate) lag: u32,
}

impl Header {
    /// Reads a header; `None` when the bytes do not begin a frame at all.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes.get(..HEADER_BYTES)?);
        let magic = reader.u32().ok()?;
        let header = Self {
            length: reader.u32().ok()?,
            crc: reader.u32().ok()?,
            epoch: reader.u32().ok()?,
            lsn: reader.u64().ok()?,
            count: reader.u32().ok()?,
            lag: reader.u32().ok()?,
        };
        let plausible = magic == MAGIC && header.length != 0 && header.length.is_multiple_of(16);
        plausible.then_some(header)
    }

    /// The newest lsn that was on disk when this frame was written; 0 when the frame cannot say.
    pub(crate) const fn durable_lsn(&self) -> u64 {
        if self.lag == u32::MAX { 0 } else { self.lsn.saturating_sub(self.lag as u64) }
    }

    /// Bytes of the whole frame.
    pub(crate) const fn frame_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.length as u64
    }
}

/// What a frame says of itself besides its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) epoch: u32,
    pub(crate) lsn: u64,
    pub(crate) count: u32,
    /// The newest lsn that is on disk.
    pub(crate) durable_lsn: u64,
}

/// Fills in the header of `frame`, whose first [`HEADER_BYTES`] are reserved.
pub(crate) fn seal(frame: &mut [u8], seed: Seed, identity: Identity) {
    let Identity { epoch, lsn, count, durable_lsn } = identity;
    let length = u32::try_from(frame.len() - HEADER_BYTES)
        .expect("a frame fits its segment, which is at most 256 MiB");
    assert!(length > 0 && length.is_multiple_of(16), "an empty frame would end the journal");
    let lag = u32::try_from(lsn - durable_lsn).unwrap_or(u32::MAX);
    let mut header = Vec::with_capacity(HEADER_BYTES);
    let mut writer = Writer(&mut header);
    writer.u32(MAGIC);
    writer.u32(length);
    writer.u32(0);
    writer.u32(epoch);
    writer.u64(lsn);
    writer.u32(count);
    writer.u32(lag);
    frame[..HEADER_BYTES].copy_from_slice(&header);
    let crc = seed.crc(&frame[CHECKED_FROM..]);
    frame[8..12].copy_from_slice(&crc.to_le_bytes());
}

/// Whether the whole frame's bytes agree with its checksum.
pub(crate) fn is_intact(frame: &[u8], seed: Seed, header: &Header) -> bool {
    frame.len() as u64 == header.frame_bytes() && seed.crc(&frame[CHECKED_FROM..]) == header.crc
}

#[cfg(test)]
mod tests;
