//! Small files that are written whole: a first line with a checksum, JSON, and spaces.
//!
//! ```text
//! <magic><CRC-32C of the rest, 8 hexadecimal digits>\n
//! <JSON>
//! <spaces up to the end of the file>
//! ```
//!
//! * A [`JsonFile`] alone is written under another name, and renamed when it is durable.
//! * A [`JsonPair`] is kept twice, so one damaged file loses nothing. Rules:
//!   1. Each file has room to grow. While the JSON fits into a file, a change is written in place and needs no free block
//!      and no free inode: a key can be revoked on a full disk (unless the file system copies on write). Otherwise the file
//!      is replaced by a larger one.
//!   2. The copy is written and synced first, or the file if it is damaged. So one of the two is whole at every moment. A
//!      change counts once the file itself has it.
//!   3. Of two whole files the file counts, not its copy. So an operator replaces a file, and an older build, which keeps
//!      no copy, changes the file alone.

use serde::{
    Serialize,
    de::{DeserializeOwned, IgnoredAny},
};

use crate::disk::{self, Disk};

/// Characters of the checksum and the line break.
const SUM_BYTES: usize = 9;
/// A file of a pair that is replaced gets a multiple of this size, so that it has room.
const ROOM: usize = 4_096;
/// The fault of a file that is not there.
pub(crate) const MISSING: &str = "it is missing";
/// Most bytes of a file.
const BYTES_MAX: u64 = 256 << 20;

/// A kind of file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonFile {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its name until it is durable.
    pub(crate) temporary: &'static str,
    /// Begins the file.
    pub(crate) magic: &'static str,
}

/// A file of a pair: the value with its JSON, or the damage.
type Side<T> = Result<(T, Vec<u8>), String>;

/// A kind of file that is kept twice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonPair {
    pub(crate) file: JsonFile,
    /// The name of the copy.
    pub(crate) copy: &'static str,
}

/// The content of a pair.
#[derive(Debug)]
pub(crate) struct Kept<T> {
    /// `None` if there is neither a file nor a copy. The inner error is the damage of both.
    pub(crate) value: Option<Result<T, String>>,
    /// A file that is not as it should be, and the reason. The value is that of the other one, if there is any.
    pub(crate) faults: Vec<(&'static str, String)>,
}

impl JsonFile {
    /// Reads the file; `None` if there is none. The inner error is the damage.
    pub(crate) fn load<T: DeserializeOwned>(
        self,
        disk: &dyn Disk,
    ) -> disk::Result<Option<Result<T, String>>> {
        let bytes = read(disk, self.name)?;
        Ok(bytes.map(|bytes| self.decode(&bytes)))
    }

    /// Writes the file, durably.
    pub(crate) fn save<T: Serialize>(self, disk: &dyn Disk, value: &T) -> disk::Result<()> {
        disk::replace(disk, [self.temporary, self.name], &self.encode(value, 0))
    }

    /// Returns a file of at least `length` bytes.
    fn encode<T: Serialize>(self, value: &T, length: usize) -> Vec<u8> {
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
}

impl JsonPair {
    /// Reads the file and its copy.
    pub(crate) fn load<T: DeserializeOwned>(self, disk: &dyn Disk) -> disk::Result<Kept<T>> {
        let [of_file, of_copy] = [self.side(disk, self.file.name)?, self.side(disk, self.copy)?];
        let missing = || MISSING.to_owned();
        let (file, copy) = (self.file.name, self.copy);
        let kept = match (of_file, of_copy) {
            (Some(Ok((value, file_json))), Some(Ok((_, copy_json)))) => {
                let differs = file_json != copy_json;
                let faults = differs.then(|| (copy, format!("it has not the content of {file}")));
                Kept { value: Some(Ok(value)), faults: faults.into_iter().collect() }
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
                let value = self.file.decode(&bytes)?;
                // The files may have different room.
                let json = bytes[self.file.magic.len() + SUM_BYTES..].trim_ascii_end();
                Ok((value, json.to_vec()))
            })),
            Err(error @ (disk::Error::Io { .. } | disk::Error::NotPlain { .. })) => {
                Ok(Some(Err(error.to_string())))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes both files, durably. Returns the bytes of both.
    pub(crate) fn save<T: Serialize>(self, disk: &dyn Disk, value: &T) -> disk::Result<u64> {
        let needed = self.file.encode(value, 0).len();
        let with_room = (needed + ROOM / 4).next_multiple_of(ROOM);
        let is_whole = matches!(self.side::<IgnoredAny>(disk, self.file.name)?, Some(Ok(_)));
        // The damaged one first: until it is durable, the other one is the only whole file.
        let order =
            if is_whole { [self.copy, self.file.name] } else { [self.file.name, self.copy] };
        let mut written = 0;
        for name in order {
            let length = length(disk, name)?;
            if needed <= length {
                let file = disk.open(name)?;
                file.write_at(0, &self.file.encode(value, length))?;
                file.sync_all()?;
                written += length;
            } else {
                let bytes = self.file.encode(value, with_room);
                disk::replace(disk, [self.file.temporary, name], &bytes)?;
                written += with_room;
            }
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
