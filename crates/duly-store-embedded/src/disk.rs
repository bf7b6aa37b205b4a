//! The file access of the embedded engine: one data directory, as files with synced and unsynced bytes.
//!
//! The engine does all file operations through [`Disk`] and [`File`]. So the same engine code runs on a
//! real directory ([`RealDisk`]) and on a disk in memory ([`SimDisk`]). The simulated disk loses, tears
//! and reorders unsynced sectors at a crash, and returns EIO or ENOSPC when a test plans it.
//!
//! Both guarantee:
//!
//! 1. Bytes are durable after a successful [`File::sync_data`] or [`File::sync_all`], not before.
//! 2. A created, renamed or removed *name* is durable after [`Disk::sync_dir`] of its directory, and not
//!    through a sync of the file. A new directory's own name needs a sync of its parent.
//! 3. After a failed sync it is unknown what is durable, and a later successful sync proves nothing. In
//!    this respect a failed [`File::write_back`] is a failed sync, but a successful one is not a sync.
//! 4. A hole ([`File::punch_hole`]) is a write of zeros: durable after a sync, not before.
//!
//! Names are relative, plain and at most one level deep: `MANIFEST`, `journal/00000001.log`.

pub(crate) mod deallocate;
mod error;
pub(crate) mod fresh;
mod real;
mod sim;

#[cfg(test)]
mod contract;

use std::fmt::{self, Debug};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

pub use error::{Error, Operation, Result};
pub use real::RealDisk;
pub use sim::{Fault, SECTOR_BYTES, SimDisk};

/// Alignment of direct writes, in the file and in memory: aligned writes can bypass the page cache on
/// any disk.
pub const BLOCK_BYTES: usize = 4_096;

/// Name of the file that carries the exclusive lock of a data directory.
pub const LOCK_NAME: &str = "LOCK";

/// One data directory. All calls block. Threads may share a handle.
pub trait Disk: Send + Sync + Debug {
    /// Creates an empty file that must not exist yet, open for reading and writing.
    fn create(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Returns the sorted names of the files and directories within `dir` (`""` is the root), without
    /// the name of `dir` itself. A missing directory is an empty one. Names that are not UTF-8 are left
    /// out: no part of the engine makes any.
    fn list(&self, dir: &str) -> Result<Vec<String>>;

    /// Renames a file atomically, and replaces a file that has the new name. Open handles stay valid.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file. Open handles stay valid.
    fn remove(&self, name: &str) -> Result<()>;

    /// Makes a directory below the root. An existing directory is not an error.
    fn make_dir(&self, dir: &str) -> Result<()>;

    /// Makes every create, rename and remove within `dir` (`""` is the root) durable.
    fn sync_dir(&self, dir: &str) -> Result<()>;

    /// Returns the space of the file system that holds this directory.
    fn space(&self) -> Result<Space>;

    /// Takes the exclusive lock of this directory. It is held until the returned value is dropped or the
    /// process ends, even by a crash. Does not wait: [`Error::Locked`] when another process holds it.
    /// The lock outlives the file [`LOCK_NAME`]: a directory whose lock file was removed stays locked.
    fn lock(&self) -> Result<Lock>;

    /// Returns `true` if a file also has a name outside this directory, such as in a backup. Then it
    /// must not be overwritten, and gets no holes.
    fn is_shared(&self, _name: &str) -> Result<bool> {
        Ok(false)
    }

    /// Returns the path of a file in the operating system (`""` is the root); `None` if it has none.
    fn real_path(&self, _name: &str) -> Option<PathBuf> {
        None
    }

    /// Returns the path of the directory, for messages to people.
    fn describe(&self) -> String;
}

/// An open file. Offsets and lengths are bytes from its start.
pub trait File: Send + Sync + Debug {
    /// Reads into `buf` from `offset` and returns the number of bytes read: fewer than asked only at the
    /// end of the file, 0 behind it.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Reads as [`Self::read_at`], but only from memory. Returns the number of bytes that could be read
    /// without waiting for the disk.
    fn read_now(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read_at(offset, buf)
    }

    /// Fills `buf` from `offset`, or fails with [`Error::UnexpectedEnd`].
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let read_bytes = self.read_at(offset, buf)?;
        if read_bytes == buf.len() {
            return Ok(());
        }
        Err(Error::UnexpectedEnd {
            name: self.name().to_owned(),
            offset,
            wanted_bytes: buf.len(),
            read_bytes,
        })
    }

    /// Writes all of `bytes` at `offset`. A gap behind the old end reads as zeros. After an error any
    /// part of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Writes as [`Self::write_at`], but bypasses the page cache, for bytes that are not read again
    /// soon. So the write evicts nothing that is in use. Only whole blocks in memory that is aligned to
    /// [`BLOCK_BYTES`] bypass it, and not on every file system; a wrapper may leave this out. Returns
    /// whether the bytes bypassed the cache; they are written either way.
    fn write_past_cache(&self, offset: u64, bytes: &[u8]) -> Result<CacheBypass> {
        self.write_at(offset, bytes).map(|()| CacheBypass::No)
    }

    /// Makes the bytes, and the length needed to read them, durable (`fdatasync`).
    fn sync_data(&self) -> Result<()>;

    /// Makes bytes and all metadata durable (`fsync`).
    fn sync_all(&self) -> Result<()>;

    /// Returns the length in bytes.
    fn len(&self) -> Result<u64>;

    /// Returns `true` if the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it with zeros without allocating space for them.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Gives an empty file this length and allocates all of its space, so that later writes cannot fail
    /// on a full disk. The file reads as zeros. If the file system cannot reserve space, the zeros are
    /// written.
    fn reserve(&self, len: u64) -> Result<()> {
        write_zeros(self, len)
    }

    /// Deallocates the space of a range: the file keeps its length and reads as zeros there. Only blocks
    /// that lie completely within the range free space, so callers pass whole blocks. If the file system
    /// or a wrapper does not support holes, nothing happens and the bytes stay.
    fn punch_hole(&self, _offset: u64, _len: u64) -> Result<Punched> {
        Ok(Punched::Unsupported)
    }

    /// Returns the ranges that take no space, ascending; none if the file system does not say.
    fn holes(&self) -> Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    /// Starts to write the range to the disk, after the previous write-back has completed. A large
    /// writer that calls this regularly leaves little for the final sync, and lets other syncs pass in
    /// between. Promises nothing about durability. After an error it is unknown what is durable, as
    /// after a failed sync.
    fn write_back(&self, _offset: u64, _len: u64) -> Result<()> {
        self.sync_data()
    }

    /// Hints that the range will be read soon. Cannot fail.
    fn will_need(&self, _offset: u64, _len: u64) {}

    /// Drops the range from the page cache, so that its next read asks the disk. Only a hint; cannot
    /// fail.
    fn drop_cached(&self, _offset: u64, _len: u64) {}

    /// Returns the bytes that the file takes on the disk: less than its length if it has holes, more if
    /// the file system allocates large blocks.
    fn allocated_bytes(&self) -> Result<u64> {
        self.len()
    }

    /// Returns the name under which this handle was created or opened; a later rename does not change
    /// it.
    fn name(&self) -> &str;
}

/// Result of a write that may bypass the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheBypass {
    /// The cache was bypassed: nothing is left to write back.
    Yes,
    /// It was a normal write.
    No,
}

/// Result of punching a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Punched {
    /// The hole is made.
    Done,
    /// The file system does not support holes: nothing happened.
    Unsupported,
}

/// Space on a file system for an unprivileged user: blocks reserved for root count neither as free nor
/// in the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Bytes that could be written if the file system were empty.
    pub total_bytes: u64,
    /// Inodes of the file system, one for each file; `None` if it does not count them.
    pub inodes: Option<Inodes>,
}

/// Inodes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inodes {
    /// Files that can still be made.
    pub free: u64,
    /// Total inodes.
    pub total: u64,
}

/// The exclusive lock of a data directory; dropping it releases it.
#[must_use = "the lock is released as soon as this is dropped"]
pub struct Lock {
    _guard: Box<dyn Send + Sync>,
}

impl Lock {
    /// Wraps a guard that releases the lock when it is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}

/// Writes zeros up to this length.
fn write_zeros<F: File + ?Sized>(file: &F, len: u64) -> Result<()> {
    let zeros = vec![0; 1 << 20];
    for offset in (0..len).step_by(zeros.len()) {
        let count = usize::try_from(len - offset).map_or(zeros.len(), |left| left.min(zeros.len()));
        file.write_at(offset, &zeros[..count])?;
    }
    Ok(())
}

/// Creates a file; a file that an earlier attempt left under this name is removed.
pub(crate) fn create_anew(disk: &dyn Disk, name: &str) -> Result<Arc<dyn File>> {
    match disk.remove(name) {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    disk.create(name)
}

/// Replaces a file: the bytes are durable under the first name before they get the second.
pub(crate) fn replace(disk: &dyn Disk, [temporary, name]: [&str; 2], bytes: &[u8]) -> Result<()> {
    let file = create_anew(disk, temporary)?;
    let written = file.write_at(0, bytes).and_then(|()| file.sync_all());
    written.and_then(|()| disk.rename(temporary, name)).inspect_err(|_| {
        drop(disk.remove(temporary));
    })?;
    disk.sync_dir("")
}

/// Splits a file name into its directory (`""` is the root) and its base name. Refuses names that could
/// leave the data directory.
fn split_name(name: &str) -> Result<(&str, &str)> {
    let (dir, base) = name.split_once('/').unwrap_or(("", name));
    if is_plain(base) && (is_plain(dir) || !name.contains('/')) {
        Ok((dir, base))
    } else {
        Err(Error::InvalidName { name: name.to_owned() })
    }
}

/// Refuses a name that is not the root or a directory right below it.
fn check_dir(dir: &str) -> Result<()> {
    if dir.is_empty() || is_plain(dir) {
        Ok(())
    } else {
        Err(Error::InvalidName { name: dir.to_owned() })
    }
}

fn is_plain(part: &str) -> bool {
    !part.is_empty() && part != "." && part != ".." && !part.contains(['/', '\0'])
}
