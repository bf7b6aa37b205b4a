//! Sorted runs: immutable files of records that are sorted by time.
//!
//! ```text
//!  0  magic       8 bytes  "DULYRUN\n"
//!  8  version     u32      format version
//! 12  crc         u32      over bytes 0..12 and 16..64, seeded by the store
//! 16  store       u128     the store's UUID
//! 32  id          u64      number of the run, from 1
//! 40  kind        u8       1 pending timers, 2 tombstones, 3 dead letters
//! 41  reserved    7 bytes  0
//! 48  created_at  u64      Unix ms
//! 56  reserved    u64      0
//! 64  records, as in a frame of the journal; then the directory, then the trailer (see there)
//! ```
//!
//! 1. Records are in the order of (hour, namespace). Each such group has one entry in the directory, and
//!    one more for each MiB of the file that begins within it.
//! 2. The decoder does not trust its input: counts and offsets are checked against the length of the
//!    file before anything is allocated for them.

use duly_record::ReadFields as _;

use super::{
    ALIGN, DecodeError,
    fields::{FieldReader, FieldWriter},
    frame::Seed,
};

#[cfg(test)]
mod tests;

/// First bytes of a sorted run.
pub(crate) const MAGIC: &[u8; 8] = b"DULYRUN\n";
/// First bytes of a sorted run's trailer.
pub(crate) const TRAILER_MAGIC: &[u8; 8] = b"DULYRNE\n";
/// Bytes of the header; the records begin behind it.
pub(crate) const HEADER_BYTES: u64 = 64;
/// Bytes of the trailer, the last of the file.
pub(crate) const TRAILER_BYTES: u64 = 64;
/// Longest sorted run: a location counts 24 bits of [`ALIGN`].
pub(crate) const RUN_BYTES_MAX: u64 = 256 << 20;
/// Bytes of a chunk. Space is deallocated in such chunks, and a group of the directory ends where a
/// chunk ends.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;
/// Milliseconds of an hour of the directory.
pub(crate) const HOUR_MS: u64 = 3_600_000;

const HEADER_CRC_AT: usize = 12;
const TRAILER_CRC_AT: usize = 8;

/// Returns the hour that contains a time.
pub(crate) fn hour_of(time_ms: u64) -> u32 {
    u32::try_from(time_ms / HOUR_MS).unwrap_or(u32::MAX)
}

/// The kind of the records in a sorted run. Each kind has its own files, so that the records of each end
/// in the order in which they are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunKind {
    /// Pending timers, by the time from which they can be claimed.
    Pending = 1,
    /// Tombstones, by when they expire.
    Tombstones = 2,
    /// Dead letters, by their due time.
    DeadLetters = 3,
}

impl RunKind {
    fn from_u8(value: u8) -> Result<Self, DecodeError> {
        duly_record::from_code(
            &[Self::Pending, Self::Tombstones, Self::DeadLetters],
            value,
            "kind of run",
        )
    }
}

/// A sorted run's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) store: u128,
    pub(crate) id: u64,
    pub(crate) kind: RunKind,
    pub(crate) created_at_ms: u64,
}

impl Header {
    pub(crate) fn encode(&self, seed: Seed) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut writer = FieldWriter(&mut bytes);
        writer.u32(self.version);
        writer.u32(0);
        writer.u128(self.store);
        writer.u64(self.id);
        writer.u64(self.kind as u64);
        writer.u64(self.created_at_ms);
        writer.u64(0);
        seed.seal(&mut bytes, HEADER_CRC_AT);
        bytes
    }

    pub(crate) fn read(bytes: &[u8], seed: Seed) -> Result<Self, DecodeError> {
        let bytes = seed.checked(bytes, HEADER_BYTES, MAGIC, HEADER_CRC_AT)?;
        let mut reader = FieldReader::new(&bytes[MAGIC.len()..]);
        let (version, _crc, store, id) =
            (reader.u32()?, reader.u32()?, reader.u128()?, reader.u64()?);
        let [kind, ..] = reader.u64()?.to_le_bytes();
        Ok(Self { version, store, id, kind: RunKind::from_u8(kind)?, created_at_ms: reader.u64()? })
    }
}

/// The last bytes of a sorted run: the place of the directory, and the numbers that must fit together.
///
/// ```text
///  0  magic          8 bytes  "DULYRNE\n"
///  8  crc            u32      over bytes 0..8 and 12..64, seeded by the store
/// 12  directory_crc  u32      over the whole directory, seeded by the store
/// 16  id             u64      as in the header
/// 24  records        u64
/// 32  directory_at   u64      where the records end and the directory begins
/// 40  groups         u64      entries of the directory
/// 48  time_min       u64      earliest time of a record, Unix ms; 0 without records
/// 56  time_max       u64      latest
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) directory_crc: u32,
    pub(crate) id: u64,
    pub(crate) records: u64,
    pub(crate) directory_at: u64,
    pub(crate) groups: u64,
    pub(crate) time_min_ms: u64,
    pub(crate) time_max_ms: u64,
}

impl Trailer {
    pub(crate) fn encode(&self, seed: Seed) -> Vec<u8> {
        let mut bytes = TRAILER_MAGIC.to_vec();
        let mut writer = FieldWriter(&mut bytes);
        writer.u32(0);
        writer.u32(self.directory_crc);
        for number in [
            self.id,
            self.records,
            self.directory_at,
            self.groups,
            self.time_min_ms,
            self.time_max_ms,
        ] {
            writer.u64(number);
        }
        seed.seal(&mut bytes, TRAILER_CRC_AT);
        bytes
    }

    /// Reads the trailer of a file of `length` bytes and checks that it describes one.
    pub(crate) fn read(bytes: &[u8], seed: Seed, length: u64) -> Result<Self, DecodeError> {
        let bytes = seed.checked(bytes, TRAILER_BYTES, TRAILER_MAGIC, TRAILER_CRC_AT)?;
        let mut reader = FieldReader::new(&bytes[TRAILER_MAGIC.len() + 4..]);
        let trailer = Self {
            directory_crc: reader.u32()?,
            id: reader.u64()?,
            records: reader.u64()?,
            directory_at: reader.u64()?,
            groups: reader.u64()?,
            time_min_ms: reader.u64()?,
            time_max_ms: reader.u64()?,
        };
        match trailer.contradiction(length) {
            None => Ok(trailer),
            Some(what) => Err(DecodeError::Impossible(what.into())),
        }
    }

    /// Returns the first contradiction to a file of this length. After this check the directory, as
    /// bytes and as groups together, is no larger than the file.
    fn contradiction(&self, length: u64) -> Option<&'static str> {
        let directory_end = self
            .groups
            .checked_mul(GROUP_BYTES)
            .and_then(|bytes| bytes.checked_add(self.directory_at));
        if directory_end.and_then(|end| end.checked_add(TRAILER_BYTES)) != Some(length) {
            return Some("records, directory and trailer do not make up the file");
        }
        let Some(record_bytes) = self.directory_at.checked_sub(HEADER_BYTES) else {
            return Some("the directory begins in the header");
        };
        if !record_bytes.is_multiple_of(ALIGN) {
            return Some("the directory does not begin where a record can end");
        }
        // A record has at least its header, and a group at least one record.
        if self.records > record_bytes / ALIGN || self.groups > self.records {
            return Some("more records or groups than there is room for");
        }
        if (self.records == 0) != (record_bytes == 0) || (self.groups == 0) != (self.records == 0) {
            return Some("records, groups and bytes are not all there or all absent");
        }
        (self.time_min_ms > self.time_max_ms).then_some("the earliest time is behind the latest")
    }
}

/// Bytes of an entry.
pub(crate) const GROUP_BYTES: u64 = 16;

/// Records of one hour and namespace: all of them, or those that begin in one MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) hour: u32,
    pub(crate) namespace: u32,
    /// Offset of the first record, in units of [`ALIGN`].
    pub(crate) unit: u32,
    pub(crate) count: u32,
}

impl Group {
    /// Returns the sort key of a group.
    pub(crate) const fn key(&self) -> (u32, u32) {
        (self.hour, self.namespace)
    }
}

/// The directory of a sorted run: the place of the records of each hour and namespace.
///
/// ```text
///  0  hour       u32  time / 3 600 000
///  4  namespace  u32  number
///  8  unit       u32  offset of the first record / 16
/// 12  count      u32  records
/// ```
///
/// There is one entry for each group, and one more for each MiB that begins within it. Entries are
/// sorted by (hour, namespace). The records of an entry end where those of the next one begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) groups: Vec<Group>,
}

/// A fault, and its offset in the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Misplaced {
    pub(crate) offset: u64,
    pub(crate) error: DecodeError,
}

impl Directory {
    /// Returns the bytes of the directory, and their checksum for the trailer.
    pub(crate) fn encode(&self, seed: Seed) -> (Vec<u8>, u32) {
        let mut bytes = Vec::new();
        let mut writer = FieldWriter(&mut bytes);
        for group in &self.groups {
            for number in [group.hour, group.namespace, group.unit, group.count] {
                writer.u32(number);
            }
        }
        let crc = seed.crc(&bytes);
        (bytes, crc)
    }

    /// Reads the directory and checks it against the trailer.
    pub(crate) fn decode(bytes: &[u8], trailer: &Trailer, seed: Seed) -> Result<Self, Misplaced> {
        let whole = |error| Misplaced { offset: 0, error };
        if seed.crc(bytes) != trailer.directory_crc {
            return Err(whole(DecodeError::Checksum));
        }
        if trailer.groups.checked_mul(GROUP_BYTES) != Some(bytes.len() as u64) {
            return Err(whole(DecodeError::Truncated(bytes.len())));
        }
        let mut reader = FieldReader::new(bytes);
        let mut groups = Vec::with_capacity(bytes.len() / GROUP_BYTES as usize);
        while !reader.is_done() {
            groups.push(read_group(&mut reader).map_err(whole)?);
        }
        let directory = Self { groups };
        match directory.contradiction(trailer) {
            None => Ok(directory),
            Some((index, what)) => Err(Misplaced {
                offset: index as u64 * GROUP_BYTES,
                error: DecodeError::Impossible(what.into()),
            }),
        }
    }

    /// Returns the first contradiction within the directory or to the trailer, with the index of its
    /// group.
    fn contradiction(&self, trailer: &Trailer) -> Option<(usize, &'static str)> {
        let mut records = 0;
        for (index, group) in self.groups.iter().enumerate() {
            let start = u64::from(group.unit) * ALIGN;
            let end = match self.groups.get(index + 1) {
                Some(next) if next.key() < group.key() => {
                    return Some((index + 1, "the groups are not sorted"));
                }
                Some(next) => u64::from(next.unit) * ALIGN,
                None => trailer.directory_at,
            };
            if index == 0 && start != HEADER_BYTES {
                return Some((index, "the first group is not behind the header"));
            }
            let Some(bytes) = end.checked_sub(start).filter(|_| end <= trailer.directory_at) else {
                return Some((index, "the group ends where it must not"));
            };
            if group.count == 0 || u64::from(group.count) > bytes / ALIGN {
                return Some((index, "the group has no such number of records"));
            }
            records += u64::from(group.count);
        }
        if records != trailer.records {
            return Some((0, "the groups do not add up to the records"));
        }
        let (first, last) = (self.groups.first()?, self.groups.last()?);
        let hours = (hour_of(trailer.time_min_ms), hour_of(trailer.time_max_ms));
        (hours != (first.hour, last.hour)).then_some((0, "the hours are not those of the trailer"))
    }
}

fn read_group(reader: &mut FieldReader<'_>) -> Result<Group, DecodeError> {
    Ok(Group {
        hour: reader.u32()?,
        namespace: reader.u32()?,
        unit: reader.u32()?,
        count: reader.u32()?,
    })
}
