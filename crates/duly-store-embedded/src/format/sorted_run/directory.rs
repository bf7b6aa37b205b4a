//! The directory of a sorted run: the place of the records of each hour and namespace.
//!
//! ```text
//!  0  hour       u32  time / 3 600 000
//!  4  namespace  u32  number
//!  8  unit       u32  offset of the first record / 16
//! 12  count      u32  records
//! ```
//!
//! There is one entry for each group, and one more for each MiB that begins within it. Entries are
//! sorted by (hour, namespace). The records of an entry end where those of the next one begin.

use super::{HEADER_BYTES, Trailer, hour_of};
use crate::format::{
    ALIGN, DecodeError,
    fields::{FieldReader, FieldWriter},
    frame::Seed,
};

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

/// All groups of a sorted run.
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
