//! The manifest: identity and format of the data directory, and the epoch of its latest start.
//!
//! ```text
//!  0  magic        8 bytes  "DULYMAN\n"
//!  8  version      u32      format version of the directory
//! 12  reader_min   u32      oldest build format that may read it
//! 16  features     u64      feature bits a reader must understand
//! 24  store        u128     UUID of the store
//! 40  hash_key     u128     key of the index hash
//! 56  epoch        u64      +1 at every start; frames of an earlier epoch never follow later ones
//! 64  created_at   u64      Unix ms
//! 72  crc          u32      over bytes 0..72
//! ```
//!
//! The manifest is kept twice, as `MANIFEST` and as `MANIFEST.copy`, so one damaged file loses nothing.
//! Rules:
//!
//! 1. A change is written over the older of the two files, synced, and then written over the other. So
//!    one of them is complete at every moment, and both hold the same before any frame is written.
//! 2. An existing file is written in place, so a start needs no free block and no free inode. A file
//!    that is missing or too short is written under another name, synced and renamed.
//! 3. Of two complete files the one with the later epoch counts. The features of both count within one epoch.
//! 4. The 76 bytes keep this layout in every later version, so that an older build can say what it
//!    cannot read. Bytes behind them are for later versions and are ignored.

use crate::{
    disk::{self, Disk},
    format::{
        self,
        fields::{FieldReader, FieldWriter},
        frame,
    },
    numbered::{self, DIRS},
    open::{OpenError, Result, Tail},
};

/// The epoch of a store whose first segment is not durable yet. Frames begin with the next epoch, so
/// from then on the journal cannot be missing.
pub(crate) const EPOCH_BEFORE_JOURNAL: u64 = 1;

/// Name of the file.
pub(crate) const NAME: &str = "MANIFEST";
/// Name of its copy.
pub(crate) const COPY: &str = "MANIFEST.copy";
/// A file that marks a directory as restored from a backup. The next start pauses every namespace,
/// durably, and removes the file. It is empty if the journal ends with a closing frame, and holds [`OPEN_MARK`] if not.
pub(crate) const RESTORED: &str = "RESTORED";
/// Content of [`RESTORED`] if the journal ends without a closing frame.
pub(crate) const OPEN_MARK: &[u8] = b"without a closing frame\n";
const TEMPORARY: &str = "MANIFEST.tmp";
const MAGIC: &[u8; 8] = b"DULYMAN\n";
const BYTES: usize = 76;
/// Offset of the epoch.
pub(crate) const EPOCH_AT: u64 = 56;

/// The contents of the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) version: u32,
    pub(crate) reader_min: u32,
    pub(crate) features: u64,
    pub(crate) store: u128,
    pub(crate) hash_key: u128,
    pub(crate) epoch: u64,
    pub(crate) created_at_ms: u64,
}

/// Returns the first directory of a store that is not empty.
fn first_in_use(disk: &dyn Disk) -> disk::Result<Option<&'static str>> {
    for dir in DIRS {
        if !disk.list(dir)?.is_empty() {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}

/// Returns the end of the journal of a backup, or of a directory that was restored and not started since; `None` for
/// any other directory.
pub(crate) fn restored_tail(disk: &dyn Disk) -> disk::Result<Option<Tail>> {
    let tail = |mark: Vec<u8>| if mark == OPEN_MARK { Tail::Open } else { Tail::Closed };
    Ok(read_mark(disk)?.map(tail))
}

/// Returns `true` if [`RESTORED`] holds what no build writes.
pub(crate) fn is_mark_damaged(disk: &dyn Disk) -> disk::Result<bool> {
    Ok(read_mark(disk)?.is_some_and(|mark| !mark.is_empty() && mark != OPEN_MARK))
}

/// Returns the beginning of [`RESTORED`]; `None` if there is none.
fn read_mark(disk: &dyn Disk) -> disk::Result<Option<Vec<u8>>> {
    let read = disk.open(RESTORED).and_then(|file| {
        let mut mark = vec![0; file.len()?.min(64) as usize];
        file.read_exact_at(0, &mut mark)?;
        Ok(mark)
    });
    match read {
        Ok(mark) => Ok(Some(mark)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The reason that one of the two files does not count.
#[derive(Debug, thiserror::Error)]
enum ManifestFault {
    #[error("it is missing")]
    Missing,
    #[error("it is not a whole manifest")]
    Damaged,
    #[error("{0}")]
    Unreadable(disk::Error),
}

/// Reads one of the two files. Fails only in cases that the other file cannot make up for.
fn read_side(disk: &dyn Disk, name: &str) -> disk::Result<Result<Manifest, ManifestFault>> {
    let read = disk.open(name).and_then(|file| {
        let length = usize::try_from(file.len()?.min(4096)).unwrap_or(4096);
        let mut bytes = vec![0; length];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    });
    match read {
        Ok(bytes) => Ok(Manifest::decode(&bytes).ok_or(ManifestFault::Damaged)),
        Err(error) if error.is_not_found() => Ok(Err(ManifestFault::Missing)),
        Err(error @ (disk::Error::Io { .. } | disk::Error::NotPlain { .. })) => {
            Ok(Err(ManifestFault::Unreadable(error)))
        }
        Err(error) => Err(error),
    }
}

/// A manifest, and the fault of one of its two files.
#[derive(Debug)]
pub(crate) struct StoredManifest {
    pub(crate) manifest: Manifest,
    /// The file that does not count, and the reason.
    pub(crate) fault: Option<(&'static str, String)>,
}

fn damaged(what: &str) -> OpenError {
    numbered::damaged(NAME, 0, what)
}

impl Manifest {
    /// Reads and checks the manifest; `None` if the directory has neither a manifest nor other parts of
    /// a store.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Self>> {
        Ok(Self::read_both(disk)?.map(|kept| kept.manifest))
    }

    /// Reads and checks the manifest, with the fault of one of its files.
    pub(crate) fn read_both(disk: &dyn Disk) -> Result<Option<StoredManifest>> {
        let kept = |manifest, fault| StoredManifest { manifest, fault };
        let kept = match (read_side(disk, NAME)?, read_side(disk, COPY)?) {
            (Ok(file), Ok(copy)) if file.store != copy.store => {
                let what = format!(
                    "it is of another store than {COPY}: remove the one that does not belong here"
                );
                return Err(damaged(&what));
            }
            // A file from before the first key may have been put back.
            (Ok(file), Ok(copy)) if file.epoch == copy.epoch => {
                kept(Self { features: file.features | copy.features, ..file }, None)
            }
            (Ok(file), Ok(copy)) => kept(if file.epoch > copy.epoch { file } else { copy }, None),
            // Older builds keep no copy.
            (Ok(file), Err(ManifestFault::Missing)) => kept(file, None),
            (Ok(file), Err(fault)) => kept(file, Some((COPY, fault.to_string()))),
            (Err(fault), Ok(copy)) => kept(copy, Some((NAME, fault.to_string()))),
            (Err(ManifestFault::Unreadable(error)), Err(_))
            | (Err(_), Err(ManifestFault::Unreadable(error))) => {
                return Err(error.into());
            }
            (Err(fault @ ManifestFault::Damaged), Err(_)) => {
                return Err(damaged(&fault.to_string()));
            }
            (Err(ManifestFault::Missing), Err(_)) => {
                let Some(dir) = first_in_use(disk)? else {
                    return Ok(None);
                };
                return Err(damaged(&format!(
                    "the manifest is missing although there are files in {dir}/, as after a backup \
                     or a restore that was interrupted (remove that and make another)"
                )));
            }
        };
        kept.manifest.check_readable()?;
        Ok(Some(kept))
    }

    /// Refuses what this build cannot read.
    fn check_readable(&self) -> Result<()> {
        if self.reader_min > format::VERSION || self.features & !format::KNOWN_FEATURES != 0 {
            return Err(OpenError::Newer {
                found: self.version,
                known: format::VERSION,
                features: self.features & !format::KNOWN_FEATURES,
            });
        }
        if self.version < format::VERSION_READ_MIN {
            return Err(OpenError::Older { found: self.version, oldest: format::VERSION_READ_MIN });
        }
        Ok(())
    }

    /// Refuses a file of another store, or of a format that this build does not read. `what` is the kind of file,
    /// for the message.
    pub(crate) fn check_origin(
        &self,
        name: &str,
        what: &str,
        version: u32,
        store: u128,
    ) -> Result<()> {
        if store != self.store {
            let what = format!("the {what} belongs to another store");
            return Err(numbered::damaged(name, 16, &what));
        }
        // A newer build may have written it in a format that its manifest declares readable by this one.
        if version > format::VERSION.max(self.version) {
            return Err(OpenError::Newer { found: version, known: format::VERSION, features: 0 });
        }
        if version < format::VERSION_READ_MIN {
            return Err(OpenError::Older { found: version, oldest: format::VERSION_READ_MIN });
        }
        Ok(())
    }

    /// Returns the start value of the checksums of this store's frames.
    pub(crate) fn frame_seed(&self) -> frame::Seed {
        frame::Seed::of(self.hash_key)
    }

    /// Begins the next epoch, and raises the versions to those that this build writes: an older build
    /// that could not read them is refused from now on.
    pub(crate) fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.version = self.version.max(format::VERSION);
        self.reader_min = self.reader_min.max(format::READER_MIN);
        self.features |= format::FEATURES;
    }

    /// Replaces the manifest durably. The file with the earlier epoch goes first: until it is durable,
    /// the other one is the only complete file.
    pub(crate) fn write(&self, disk: &dyn Disk) -> disk::Result<()> {
        let epoch = |name| -> disk::Result<Option<u64>> {
            Ok(read_side(disk, name)?.ok().map(|manifest| manifest.epoch))
        };
        let is_behind = epoch(NAME)? < epoch(COPY)?;
        let order = if is_behind { [NAME, COPY] } else { [COPY, NAME] };
        order.into_iter().try_for_each(|name| self.write_to(disk, name))
    }

    fn write_to(&self, disk: &dyn Disk, name: &str) -> disk::Result<()> {
        match disk.open(name) {
            Ok(file) if file.len()? >= BYTES as u64 => {
                file.write_at(0, &self.encode())?;
                return file.sync_all();
            }
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        disk::replace(disk, [TEMPORARY, name], &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut w = FieldWriter(&mut bytes);
        w.u32(self.version);
        w.u32(self.reader_min);
        w.u64(self.features);
        w.u128(self.store);
        w.u128(self.hash_key);
        w.u64(self.epoch);
        w.u64(self.created_at_ms);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..BYTES)?;
        let crc = u32::from_le_bytes(bytes[BYTES - 4..].try_into().ok()?);
        if &bytes[..8] != MAGIC || crc32c::crc32c(&bytes[..BYTES - 4]) != crc {
            return None;
        }
        let mut r = FieldReader::new(&bytes[8..]);
        Some(Self {
            version: r.u32().ok()?,
            reader_min: r.u32().ok()?,
            features: r.u64().ok()?,
            store: r.u128().ok()?,
            hash_key: r.u128().ok()?,
            epoch: r.u64().ok()?,
            created_at_ms: r.u64().ok()?,
        })
    }
}

#[cfg(test)]
mod tests;
