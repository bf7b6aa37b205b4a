//! The outside world of the embedded engine: one data directory, as files with synced and unsynced
//! bytes.
//!
//! Everything the engine does to files goes through [`Disk`] and [`File`], so the same engine code
//! runs on a real directory ([`RealDisk`]) and on a disk in memory that loses, tears and reorders
//! unsynced sectors at a crash and answers with EIO or ENOSPC when told to ([`SimDisk`]).
//!
//! What a caller may rely on, on both:
//! - bytes are durable after a successful [`File::sync_data`] or [`File::sync_all`], not before;
//! - a created, renamed or removed *name* is durable after [`Disk::sync_dir`] of its directory, and
//!   not through a sync of the file; a new directory's own name needs a sync of its parent;
//! - after a failed sync nobody knows what is durable, and a later successful one proves nothing;
//!   a failed [`File::write_back`] is a failed sync in this respect, a successful one is none;
//! - a hole ([`File::punch_hole`]) is a write of zeros: durable after a sync, not before.
//!
//! Names are relative, plain and at most one level deep: `MANIFEST`, `journal/00000001.log`.

mod error;
pub(crate) mod fresh;
mod real;
pub(crate) mod room;
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

/// What begins and ends at multiples of this, on the disk and in memory, can be written past the
/// operating system's memory on any disk.
pub const BLOCK_BYTES: usize = 4_096;

/// Name of the file that carries the exclusive lock of a data directory.
pub const LOCK_NAME: &str = "LOCK";

/// One data directory. All calls block; a handle may be shared between threads.
pub trait Disk: Send + Sync + Debug {
    /// Creates an empty file that must not exist yet, open for reading and writing.
    fn create(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> Result<Arc<dyn File>>;

    /// Names of the files and directories within `dir` (`""` is the root), sorted, without `dir`
    /// in front. A missing directory is an empty one. Names that are not UTF-8 are left out: no
    /// part of the engine makes any.
    fn list(&self, dir: &str) -> Result<Vec<String>>;

    /// Gives a file another name, replacing whatever had it, in one atomic step. Open handles
    /// stay valid.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes a file. Open handles stay valid.
    fn remove(&self, name: &str) -> Result<()>;

    /// Makes a directory below the root; one that exists already is fine.
    fn make_dir(&self, dir: &str) -> Result<()>;

    /// Makes every create, rename and remove within `dir` (`""` is the root) durable.
    fn sync_dir(&self, dir: &str) -> Result<()>;

    /// Room on the file system that holds this directory.
    fn space(&self) -> Result<Space>;

    /// Takes the exclusive lock of this directory, held until the answer is dropped or the process
    /// ends, however it ends. Does not wait: [`Error::Locked`] when another process holds it. The lock
    /// outlives the file [`LOCK_NAME`]: a directory whose lock file was removed stays locked.
    fn lock(&self) -> Result<Lock>;

    /// Whether a file has a name outside this directory too, such as in a backup: then it must not
    /// be written over, and gets no holes.
    fn is_shared(&self, _name: &str) -> Result<bool> {
        Ok(false)
    }

    /// Where the operating system has a file (`""` is the root); `None` where it has none.
    fn real_path(&self, _name: &str) -> Option<PathBuf> {
        None
    }

    /// Where this is, for messages to people.
    fn describe(&self) -> String;
}

/// An open file. Offsets and lengths are bytes from its start.
pub trait File: Send + Sync + Debug {
    /// Reads into `buf` from `offset` and answers how many bytes came: fewer than asked only at
    /// the end of the file, 0 behind it.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// As [`Self::read_at`], but of what is in memory only: answers how many bytes came without
    /// waiting for the disk.
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

    /// Writes all of `bytes` at `offset`; a gap behind the old end reads as zeros. After an error
    /// any part of it may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Writes as [`Self::write_at`], but past the memory of the operating system, for what is not read
    /// again soon: it drives out nothing that is. Only whole blocks, from memory that begins at one
    /// ([`BLOCK_BYTES`]), go past it, and not on every file system; a wrapper may leave this out.
    /// Answers what came of it: either way the bytes are written.
    fn write_past_cache(&self, offset: u64, bytes: &[u8]) -> Result<Passed> {
        self.write_at(offset, bytes).map(|()| Passed::No)
    }

    /// Makes the bytes, and the length needed to read them, durable (`fdatasync`).
    fn sync_data(&self) -> Result<()>;

    /// Makes bytes and all metadata durable (`fsync`).
    fn sync_all(&self) -> Result<()>;

    /// Length in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the file holds no byte.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it with zeros without reserving room for them.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Gives an empty file this length, with room for all of it: later writes find no disk full. It
    /// reads as zeros. Where the file system cannot reserve room the zeros are written.
    fn reserve(&self, len: u64) -> Result<()> {
        let zeros = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < len {
            let count = (len - offset).min(zeros.len() as u64);
            let part = usize::try_from(count).expect("at most 1 MiB");
            self.write_at(offset, &zeros[..part])?;
            offset += count;
        }
        Ok(())
    }

    /// Gives the room of a range back: the file keeps its length and reads as zeros there. Only
    /// blocks that lie wholly within the range free any room, so ask for whole ones. Where the
    /// file system cannot do it nothing happens, bytes included; so does a wrapper that leaves
    /// this out.
    fn punch_hole(&self, _offset: u64, _len: u64) -> Result<Punched> {
        Ok(Punched::Unsupported)
    }

    /// Ranges that take no room, ascending; none where the file system does not say.
    fn holes(&self) -> Result<Vec<Range<u64>>> {
        Ok(Vec::new())
    }

    /// Starts to write the range out, after what was begun before has arrived: who writes much and
    /// calls this now and then has little left to do at the sync, and lets others' syncs pass in
    /// between. Promises nothing about durability. After an error nobody knows what is durable, as
    /// after a failed sync.
    fn write_back(&self, _offset: u64, _len: u64) -> Result<()> {
        self.sync_data()
    }

    /// Says that the range will be read soon. Only a hint: nothing can fail.
    fn will_need(&self, _offset: u64, _len: u64) {}

    /// Has the next read of the range ask the disk, where memory holds what was read before. Only a
    /// hint: nothing can fail.
    fn drop_cached(&self, _offset: u64, _len: u64) {}

    /// Bytes that the file really takes on the disk: less than its length where it has holes, more
    /// where room is given out in large blocks.
    fn allocated_bytes(&self) -> Result<u64> {
        self.len()
    }

    /// The name under which this handle was created or opened; a later rename does not change it.
    fn name(&self) -> &str;
}

/// Whether a write went past the operating system's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// There is nothing left to write back.
    Yes,
    /// It was a write like any other.
    No,
}

/// What became of a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Punched {
    /// It is there.
    Done,
    /// This file system has none: nothing happened.
    Unsupported,
}

/// Room on a file system, as an unprivileged user would have it: blocks reserved for root count
/// neither as free nor in the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Bytes that could be written if the file system were empty.
    pub total_bytes: u64,
    /// Its inodes, one of which every file takes; `None` where it does not count any.
    pub inodes: Option<Inodes>,
}

/// Inodes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inodes {
    /// Files that can still be made.
    pub free: u64,
    /// All of them.
    pub total: u64,
}

/// The exclusive lock of a data directory; dropping it releases it.
#[must_use = "the lock is released as soon as this is dropped"]
pub struct Lock {
    _guard: Box<dyn Send + Sync>,
}

impl Lock {
    /// Wraps whatever releases the lock when it is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self { _guard: Box::new(guard) }
    }
}

impl Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lock")
    }
}

/// Splits a file name into its directory (`""` is the root) and what is behind it, and refuses
/// whatever could leave the data directory.
fn split_name(name: &str) -> Result<(&str, &str)> {
    let (dir, base) = name.split_once('/').unwrap_or(("", name));
    if is_plain(base) && (is_plain(dir) || !name.contains('/')) {
        Ok((dir, base))
    } else {
        Err(Error::InvalidName { name: name.to_owned() })
    }
}

/// Refuses whatever is not the root or a directory right below it.
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
