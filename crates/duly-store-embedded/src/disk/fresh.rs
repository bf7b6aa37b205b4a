//! A file that is written once, front to back, under a temporary name.
//!
//! Sorted runs and checkpoints are made with it. Bytes are gathered into large writes. The kernel is
//! asked to write back as the file grows, so that the sync at the end is short. The throttle is called
//! after each write. A file that does not get to its end (after an error, or a dropped writer) removes
//! its temporary file if the disk lets it.

use std::sync::Arc;

use super::{BLOCK_BYTES, CacheBypass, Disk, Error, File};

/// Bytes of a write. Tests write small files, but still cross every boundary.
const CHUNK_BYTES: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };
/// Bytes between two requests to write back.
const WRITE_BACK_BYTES: u64 = 4 * CHUNK_BYTES as u64;

/// Gets the number of bytes of each write, and may wait, to pace the writer.
pub(crate) type Throttle = Box<dyn FnMut(u64) + Send>;

/// Caching of the written bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caching {
    /// The file is read soon.
    Kept,
    /// The file is read at the next start at the earliest, and must not evict other pages.
    CacheBypass,
}

/// A file that is written once, front to back, under a temporary name.
pub(crate) struct FreshFile {
    disk: Arc<dyn Disk>,
    file: Arc<dyn File>,
    name: String,
    throttle: Throttle,
    caching: Caching,
    /// The bytes of the next write, behind `skip` bytes that align them to a block in memory.
    chunk: Vec<u8>,
    skip: usize,
    /// Bytes handed to the disk.
    written: u64,
    /// Bytes whose write-back was asked for.
    written_back: u64,
    is_finished: bool,
}

impl FreshFile {
    /// Creates the file; a file that an earlier attempt left under this name is removed.
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        name: String,
        throttle: Throttle,
        caching: Caching,
    ) -> Result<Self, Error> {
        let file = match disk.create(&name) {
            Err(Error::AlreadyExists { .. }) => {
                disk.remove(&name)?;
                disk.create(&name)?
            }
            created => created?,
        };
        let mut chunk: Vec<u8> = Vec::with_capacity(CHUNK_BYTES + BLOCK_BYTES);
        let skip = chunk.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        chunk.resize(skip, 0);
        Ok(Self {
            disk,
            file,
            name,
            throttle,
            caching,
            chunk,
            skip,
            written: 0,
            written_back: 0,
            is_finished: false,
        })
    }

    /// Bytes appended so far.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.gathered() as u64
    }

    fn gathered(&self) -> usize {
        self.chunk.len() - self.skip
    }

    /// Appends bytes. After an error the file can only be dropped.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let room = CHUNK_BYTES - self.gathered();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.gathered() == CHUNK_BYTES {
                self.write()?;
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Error> {
        let chunk = &self.chunk[self.skip..];
        let bytes = chunk.len() as u64;
        if bytes == 0 {
            return Ok(());
        }
        let passed = if self.caching == Caching::CacheBypass && chunk.len() == CHUNK_BYTES {
            self.file.write_past_cache(self.written, chunk)?
        } else {
            self.file.write_at(self.written, chunk)?;
            CacheBypass::No
        };
        self.written += bytes;
        self.chunk.truncate(self.skip);
        (self.throttle)(bytes);
        if passed == CacheBypass::Yes {
            self.written_back = self.written;
        }
        let behind_bytes = self.written - self.written_back;
        if behind_bytes >= WRITE_BACK_BYTES {
            self.file.write_back(self.written_back, behind_bytes)?;
            self.written_back = self.written;
        }
        Ok(())
    }

    /// Makes the bytes durable and leaves the file under its temporary name. Returns its length.
    pub(crate) fn finish(mut self) -> Result<u64, Error> {
        self.write()?;
        self.file.sync_all()?;
        self.is_finished = true;
        Ok(self.written)
    }
}

impl Drop for FreshFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // The error was returned already. A left-over is removed at the next attempt.
            self.disk.remove(&self.name).ok();
        }
    }
}

/// Gives a finished file its final name, durably. If the rename fails, the temporary file is removed.
/// After a failed sync of the directory the file may have either name.
pub(crate) fn publish(disk: &dyn Disk, temporary: &str, name: &str) -> Result<(), Error> {
    if let Err(error) = disk.rename(temporary, name) {
        disk.remove(temporary).ok();
        return Err(error);
    }
    let (dir, _) = super::split_name(name)?;
    disk.sync_dir(dir)
}

#[cfg(test)]
mod tests;
