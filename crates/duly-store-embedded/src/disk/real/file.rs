//! An open handle on a real file: positioned reads and writes that always complete.

use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
#[cfg(target_os = "linux")]
use std::{num::NonZeroU64, ops::Range};

#[cfg(target_os = "linux")]
use rustix::{
    fs::{
        Advice, FallocateFlags, OFlags, SeekFrom, fadvise, fallocate, fcntl_getfl, fcntl_setfl,
        seek,
    },
    io::{Errno, ReadWriteFlags, preadv2, retry_on_intr},
};

use super::Access;
use crate::disk::error::At;
#[cfg(target_os = "linux")]
use crate::disk::{BLOCK_BYTES, CacheBypass, Punched, write_zeros};
use crate::disk::{Error, File, Operation};

#[derive(Debug)]
pub(super) struct RealFile {
    pub(super) file: std::fs::File,
    pub(super) name: String,
    /// The data directory as messages show it.
    pub(super) directory: Arc<str>,
    pub(super) access: Access,
}

impl RealFile {
    fn error(&self, operation: Operation, source: io::Error) -> Error {
        Error::from_io(At { operation, directory: &self.directory, name: &self.name }, source)
    }

    fn change<T>(
        &self,
        operation: Operation,
        change: impl FnOnce(&std::fs::File) -> io::Result<T>,
    ) -> Result<T, Error> {
        match self.access {
            Access::ReadWrite => change(&self.file),
            Access::ReadOnly => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
        }
        .map_err(|e| self.error(operation, e))
    }
}

impl File for RealFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.file.read_at(&mut buf[filled..], offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(read_bytes) => filled += read_bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(Operation::Read, error)),
            }
        }
        Ok(filled)
    }

    #[cfg(target_os = "linux")]
    fn read_now(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let bufs = &mut [io::IoSliceMut::new(buf)];
        // Any other error shows at the read that waits.
        Ok(preadv2(&self.file, bufs, offset, ReadWriteFlags::NOWAIT).unwrap_or(0))
    }

    #[cfg(not(target_os = "linux"))]
    fn read_now(&self, _offset: u64, _buf: &mut [u8]) -> Result<usize, Error> {
        Ok(0)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.change(Operation::Write, |file| file.write_all_at(bytes, offset))
    }

    /// Sets `O_DIRECT` during the write.
    #[cfg(target_os = "linux")]
    fn write_past_cache(&self, offset: u64, bytes: &[u8]) -> Result<CacheBypass, Error> {
        self.change(Operation::Write, |file| {
            let flags = fcntl_getfl(file)?;
            // Not every file system supports such writes, and those that do need whole blocks.
            if fcntl_setfl(file, flags | OFlags::DIRECT).is_ok() {
                let written = file.write_all_at(bytes, offset);
                fcntl_setfl(file, flags)?;
                match written {
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                    written => return written.map(|()| CacheBypass::Yes),
                }
            }
            file.write_all_at(bytes, offset).map(|()| CacheBypass::No)
        })
    }

    // The standard library asks for F_FULLFSYNC on macOS, where a plain fsync stops at the drive's
    // cache, and repeats interrupted calls.
    fn sync_data(&self) -> Result<(), Error> {
        self.change(Operation::Sync, std::fs::File::sync_data)
    }

    fn sync_all(&self) -> Result<(), Error> {
        self.change(Operation::Sync, std::fs::File::sync_all)
    }

    fn len(&self) -> Result<u64, Error> {
        let metadata = self.file.metadata().map_err(|e| self.error(Operation::Length, e))?;
        Ok(metadata.len())
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        self.change(Operation::SetLength, |file| file.set_len(len))
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, len: u64) -> Result<(), Error> {
        let is_reserved = self.change(Operation::SetLength, |file| {
            match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
                reserved => Ok(reserved.map(|()| true)?),
            }
        })?;
        if is_reserved { Ok(()) } else { write_zeros(self, len) }
    }

    #[cfg(target_os = "linux")]
    fn punch_hole(&self, offset: u64, len: u64) -> Result<Punched, Error> {
        self.change(Operation::PunchHole, |file| {
            if len == 0 {
                return Ok(Punched::Done);
            }
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match retry_on_intr(|| fallocate(file, flags, offset, len)) {
                // The file system or the kernel does not support holes.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Punched::Unsupported),
                punched => Ok(punched.map(|()| Punched::Done)?),
            }
        })
    }

    /// Moves the position of the handle, which nothing else uses.
    #[cfg(target_os = "linux")]
    fn holes(&self) -> Result<Vec<Range<u64>>, Error> {
        let len = self.len()?;
        let failed = |error: Errno| self.error(Operation::Length, error.into());
        let mut holes = Vec::new();
        let mut at = 0;
        while at < len {
            let start = match seek(&self.file, SeekFrom::Hole(at)) {
                // The file system does not say.
                Err(Errno::INVAL | Errno::NXIO | Errno::OPNOTSUPP | Errno::NOSYS) => break,
                found => found.map_err(failed)?,
            };
            if start >= len {
                break;
            }
            at = match seek(&self.file, SeekFrom::Data(start)) {
                // There is no data behind it.
                Err(Errno::NXIO) => len,
                found => found.map_err(failed)?.min(len),
            };
            holes.push(start..at);
        }
        Ok(holes)
    }

    // Only Linux has a call for a range (`sync_file_range`), and the system-call library used here does
    // not offer it. Syncing the file does what is promised, and more.
    fn write_back(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        self.change(Operation::WriteBack, std::fs::File::sync_data)
    }

    #[cfg(target_os = "linux")]
    fn will_need(&self, offset: u64, len: u64) {
        // A length of 0 would mean "up to the end".
        if let Some(len) = NonZeroU64::new(len) {
            // A hint that is not taken changes only the speed.
            fadvise(&self.file, offset, Some(len), Advice::WillNeed).ok();
        }
    }

    #[cfg(target_os = "linux")]
    fn drop_cached(&self, offset: u64, len: u64) {
        // The kernel drops only whole pages, so the range is extended to page boundaries.
        let page = BLOCK_BYTES as u64;
        let start = offset / page * page;
        let end = offset.saturating_add(len).next_multiple_of(page);
        if let Some(len) = NonZeroU64::new(end - start) {
            // A hint that is not taken changes nothing.
            fadvise(&self.file, start, Some(len), Advice::DontNeed).ok();
        }
    }

    fn allocated_bytes(&self) -> Result<u64, Error> {
        let metadata = self.file.metadata().map_err(|e| self.error(Operation::Length, e))?;
        // The unit of `st_blocks`, independent of the file system's block size.
        Ok(metadata.blocks().saturating_mul(512))
    }

    fn name(&self) -> &str {
        &self.name
    }
}
