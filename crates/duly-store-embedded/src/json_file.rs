//! Small files that are written whole: a first line with a checksum, and JSON.
//!
//! ```text
//! <magic><CRC-32C of the rest, 8 hexadecimal digits>\n
//! <JSON>
//! ```
//!
//! A file is written under another name, and renamed when it is durable.

use serde::{Serialize, de::DeserializeOwned};

use crate::disk::{self, Disk};

/// Characters of the checksum and the line break.
const SUM_BYTES: usize = 9;

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

impl JsonFile {
    /// Reads the file; `None` if there is none. The inner error is the damage.
    pub(crate) fn load<T: DeserializeOwned>(
        self,
        disk: &dyn Disk,
    ) -> disk::Result<Option<Result<T, String>>> {
        let bytes = disk.open(self.name).and_then(|file| {
            let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX)];
            file.read_exact_at(0, &mut bytes)?;
            Ok(bytes)
        });
        match bytes {
            Ok(bytes) => Ok(Some(self.decode(&bytes))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the file, durably. Returns its bytes.
    pub(crate) fn save<T: Serialize>(self, disk: &dyn Disk, value: &T) -> disk::Result<u64> {
        let bytes = self.encode(value);
        disk::replace(disk, [self.temporary, self.name], &bytes)?;
        Ok(bytes.len() as u64)
    }

    fn encode<T: Serialize>(self, value: &T) -> Vec<u8> {
        let json = serde_json::to_vec_pretty(value).expect("text and numbers are JSON");
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
