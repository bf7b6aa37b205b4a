//! Small files that are written whole: a first line with a checksum, JSON, and spaces.
//!
//! ```text
//! <magic><CRC-32C of the rest, 8 hexadecimal digits>\n
//! <JSON>
//! <spaces up to the end of the file>
//! ```
//!
//! Each file is kept twice, so one damaged file loses nothing. Rules:
//!
//! 1. Each file has room to grow. While the JSON fits into a file, a change is written in place and needs no free block
//!    and no free inode: a key can be revoked on a full disk (unless the file system copies on write). Otherwise the
//!    file is replaced by a larger one. A file whose room is less than [`JsonPair::reserve`] is replaced while the disk has
//!    space, so a full disk finds this room.
//! 2. The copy is written and synced first, or the file if it is damaged or older. So one of the two is whole and new at
//!    every moment.
//! 3. Of two whole files the one with the later version counts, so a file that was put back from an earlier time undoes
//!    nothing. Of two with one version the file counts, not its copy. An older build, which keeps no copy, changes the
//!    file alone. A value may keep parts of the other file ([`Versioned::merged`]).

use std::cmp::Ordering;

use serde::{Serialize, de::DeserializeOwned};

use crate::disk::{self, Disk};

/// Characters of the checksum and the line break.
const SUM_BYTES: usize = 9;
/// A file of a pair that is replaced gets a multiple of this size, so that it has room.
const ROOM: usize = 4_096;
/// The fault of a file that is not there.
pub(crate) const MISSING: &str = "it is missing";
/// Most bytes of a file.
const BYTES_MAX: u64 = 256 << 20;

/// A value that is kept twice.
pub(crate) trait Versioned {
    /// Returns a version that grows with each change.
    fn version(&self) -> impl Ord + use<Self>;

    /// Returns the value with what the other file, which does not count, has besides.
    #[must_use]
    fn merged(self, _other: Self) -> Self
    where
        Self: Sized,
    {
        self
    }
}

/// A file of a pair: the value with its JSON, or the damage.
type Side<T> = Result<(T, Vec<u8>), String>;

/// A kind of file that is kept twice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonPair {
    /// The name of the file.
    pub(crate) name: &'static str,
    /// The name of the copy.
    pub(crate) copy: &'static str,
    /// The name of either until it is durable.
    pub(crate) temporary: &'static str,
    /// Begins both files.
    pub(crate) magic: &'static str,
    /// Bytes of room that each file keeps while the disk has space; a larger file gets twice as much.
    pub(crate) reserve: usize,
}

/// The content of a pair.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    /// `None` if there is neither a file nor a copy. The inner error is the damage of both.
    pub(crate) value: Option<Result<T, String>>,
    /// A file that is not as it should be, and the reason. The value is that of the other one, if there is any.
    pub(crate) faults: Vec<(&'static str, String)>,
}

impl<T> Kept<T> {
    /// Returns the faults for a report. Older builds keep no copy, so a missing one is not a fault.
    pub(crate) fn findings(
        self,
        copy: &'static str,
    ) -> impl Iterator<Item = (&'static str, String)> {
        let is_of_older = move |(name, what): &(&str, String)| *name == copy && what == MISSING;
        self.faults.into_iter().filter(move |fault| !is_of_older(fault))
    }
}

impl JsonPair {
    /// Returns a file of at least `length` bytes.
    pub(crate) fn encode<T: Serialize>(self, value: &T, length: usize) -> Vec<u8> {
        let mut json = serde_json::to_vec_pretty(value).expect("text and numbers are JSON");
        let rest = length.saturating_sub(self.magic.len() + SUM_BYTES);
        json.resize(json.len().max(rest), b' ');
        let mut bytes = format!("{}{:08x}\n", self.magic, crc32c::crc32c(&json)).into_bytes();
        bytes.extend(json);
        bytes
    }

    fn decode<T: DeserializeOwned>(self, bytes: &[u8]) -> Result<T, String> {
        let (head, json) = bytes
            .split_at_checked(self.magic.len() + SUM_BYTES)
            .ok_or_else(|| "it is too short".to_owned())?;
        let expected = format!("{}{:08x}\n", self.magic, crc32c::crc32c(json));
        if head != expected.as_bytes() {
            return Err("its first line does not fit the rest".to_owned());
        }
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// Reads the file and its copy.
    pub(crate) fn load<T: DeserializeOwned + Versioned>(
        self,
        disk: &dyn Disk,
    ) -> disk::Result<Kept<T>> {
        let [of_file, of_copy] = [self.side::<T>(disk, self.name)?, self.side(disk, self.copy)?];
        let missing = || MISSING.to_owned();
        let (file, copy) = (self.name, self.copy);
        let kept = match (of_file, of_copy) {
            (Some(Ok((of_file, file_json))), Some(Ok((of_copy, copy_json)))) => {
                let older = |other| format!("it is older than {other}, as after a crash");
                let order = of_file.version().cmp(&of_copy.version());
                let (value, fault) = match order {
                    Ordering::Less => (of_copy.merged(of_file), Some((file, older(copy)))),
                    Ordering::Greater => (of_file.merged(of_copy), Some((copy, older(file)))),
                    Ordering::Equal if file_json == copy_json => (of_file, None),
                    Ordering::Equal => {
                        let what = format!("it has not the content of {file}");
                        (of_file.merged(of_copy), Some((copy, what)))
                    }
                };
                Kept { value: Some(Ok(value)), faults: fault.into_iter().collect() }
            }
            (Some(Ok((value, _))), Some(Err(what))) => {
                Kept { value: Some(Ok(value)), faults: vec![(copy, what)] }
            }
            (Some(Ok((value, _))), None) => {
                Kept { value: Some(Ok(value)), faults: vec![(copy, missing())] }
            }
            (of_file, Some(Ok((value, _)))) => {
                let what = of_file.and_then(Result::err).unwrap_or_else(missing);
                Kept { value: Some(Ok(value)), faults: vec![(file, what)] }
            }
            (None, None) => Kept { value: None, faults: Vec::new() },
            (of_file, of_copy) => {
                let [of_file, of_copy] = [of_file, of_copy]
                    .map(|side| side.and_then(Result::err).unwrap_or_else(missing));
                let damage = format!("{file}: {of_file}; {copy}: {of_copy}");
                Kept { value: Some(Err(damage)), faults: vec![(file, of_file), (copy, of_copy)] }
            }
        };
        Ok(kept)
    }

    /// Reads one of the two files with its JSON; `None` if there is none. A file that the disk cannot read is damaged.
    fn side<T: DeserializeOwned>(
        self,
        disk: &dyn Disk,
        name: &str,
    ) -> disk::Result<Option<Side<T>>> {
        match read(disk, name) {
            Ok(bytes) => Ok(bytes.map(|bytes| {
                let value = self.decode(&bytes)?;
                // The files may have different room.
                let json = bytes[self.magic.len() + SUM_BYTES..].trim_ascii_end();
                Ok((value, json.to_vec()))
            })),
            Err(error @ (disk::Error::Io { .. } | disk::Error::NotPlain { .. })) => {
                Ok(Some(Err(error.to_string())))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a damaged, older or missing file again from the other one, if it can. Returns these files for a report.
    pub(crate) fn heal<T: Serialize + DeserializeOwned + Versioned>(
        self,
        disk: &dyn Disk,
    ) -> disk::Result<Vec<(&'static str, String)>> {
        let kept = self.load::<T>(disk)?;
        match &kept.value {
            Some(Ok(value)) if !kept.faults.is_empty() => self.save(disk, value)?,
            _ => return Ok(Vec::new()),
        };
        let findings: Vec<_> = kept.findings(self.copy).collect();
        if findings.is_empty() {
            tracing::info!(file = self.copy, "copy written; an older release keeps none");
        }
        Ok(findings)
    }

    /// Returns `true` if a file has less room than the reserve, or is not there.
    pub(crate) fn lacks_reserve<T: Serialize>(
        self,
        disk: &dyn Disk,
        value: &T,
    ) -> disk::Result<bool> {
        let needed = self.encode(value, 0).len() + self.reserve;
        Ok(length(disk, self.name)?.min(length(disk, self.copy)?) < needed)
    }

    /// Writes both files, durably. Returns the bytes of both.
    pub(crate) fn save<T: Serialize + DeserializeOwned + Versioned>(
        self,
        disk: &dyn Disk,
        value: &T,
    ) -> disk::Result<u64> {
        let needed = self.encode(value, 0).len();
        let with_room = (needed + (2 * self.reserve).max(ROOM / 4)).next_multiple_of(ROOM);
        let faults = self.load::<T>(disk)?.faults;
        let is_fit = !faults.iter().any(|(name, _)| *name == self.name);
        // The damaged or older one first: until it is durable, the other one is the only one that counts.
        let order = if is_fit { [self.copy, self.name] } else { [self.name, self.copy] };
        let mut written = 0;
        for name in order {
            let length = length(disk, name)?;
            if needed + self.reserve > length {
                let bytes = self.encode(value, with_room);
                match disk::replace(disk, [self.temporary, name], &bytes) {
                    Ok(()) => {
                        written += with_room;
                        continue;
                    }
                    Err(error) if needed > length || !error.is_shortage() => return Err(error),
                    // The reserve is for this.
                    Err(_) => {}
                }
            }
            let file = disk.open(name)?;
            file.write_at(0, &self.encode(value, length))?;
            file.sync_all()?;
            written += length;
        }
        Ok(written as u64)
    }
}

/// Reads a file; `None` if there is none.
fn read(disk: &dyn Disk, name: &str) -> disk::Result<Option<Vec<u8>>> {
    let bytes = disk.open(name).and_then(|file| {
        // A damaged file may have any length. Nothing behind the limit is ever read.
        let mut bytes = vec![0; file.len()?.min(BYTES_MAX) as usize];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    });
    match bytes {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the length of a file; 0 if there is none, or if it is too long to be one.
fn length(disk: &dyn Disk, name: &str) -> disk::Result<usize> {
    match disk.open(name).and_then(|file| file.len()) {
        Ok(length) if length <= BYTES_MAX => Ok(length as usize),
        Ok(_) => Ok(0),
        Err(error) if error.is_not_found() => Ok(0),
        Err(error) => Err(error),
    }
}
