//! An open handle on a real file: positioned reads and writes that always complete.

use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use super::Access;
use crate::disk::error::At;
use crate::disk::{CacheBypass, Error, File, Operation, Punched};

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

    fn read_now(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        // Any other error shows at the read that waits.
        Ok(read_now(&self.file, offset, buf).unwrap_or(0))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.change(Operation::Write, |file| file.write_all_at(bytes, offset))
    }

    fn write_past_cache(&self, offset: u64, bytes: &[u8]) -> Result<CacheBypass, Error> {
        self.change(Operation::Write, |file| write_past_cache(file, offset, bytes))
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

    fn reserve(&self, len: u64) -> Result<(), Error> {
        if self.change(Operation::SetLength, |file| reserve(file, len))? {
            return Ok(());
        }
        let zeros = vec![0; 1 << 20];
        for offset in (0..len).step_by(zeros.len()) {
            let count =
                usize::try_from(len - offset).map_or(zeros.len(), |left| left.min(zeros.len()));
            self.write_at(offset, &zeros[..count])?;
        }
        Ok(())
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<Punched, Error> {
        self.change(Operation::PunchHole, |file| punch_hole(file, offset, len))
    }

    fn holes(&self) -> Result<Vec<Range<u64>>, Error> {
        holes(&self.file, self.len()?).map_err(|e| self.error(Operation::Length, e))
    }

    // Only Linux has a call for a range (`sync_file_range`), and the system-call library used here does
    // not offer it. Syncing the file does what is promised, and more.
    fn write_back(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        self.change(Operation::WriteBack, std::fs::File::sync_data)
    }

    fn will_need(&self, offset: u64, len: u64) {
        will_need(&self.file, offset, len);
    }

    fn drop_cached(&self, offset: u64, len: u64) {
        drop_cached(&self.file, offset, len);
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

/// Sets `O_DIRECT` during the write.
#[cfg(target_os = "linux")]
fn write_past_cache(file: &std::fs::File, offset: u64, bytes: &[u8]) -> io::Result<CacheBypass> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

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
}

#[cfg(not(target_os = "linux"))]
fn write_past_cache(file: &std::fs::File, offset: u64, bytes: &[u8]) -> io::Result<CacheBypass> {
    file.write_all_at(bytes, offset).map(|()| CacheBypass::No)
}

/// Returns `true` if the file system could reserve the space.
#[cfg(target_os = "linux")]
fn reserve(file: &std::fs::File, len: u64) -> io::Result<bool> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::{Errno, retry_on_intr};

    match retry_on_intr(|| fallocate(file, FallocateFlags::empty(), 0, len)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        reserved => Ok(reserved.map(|()| true)?),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &std::fs::File, _len: u64) -> io::Result<bool> {
    Ok(false)
}

#[cfg(target_os = "linux")]
fn punch_hole(file: &std::fs::File, offset: u64, len: u64) -> io::Result<Punched> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::{Errno, retry_on_intr};

    if len == 0 {
        return Ok(Punched::Done);
    }
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match retry_on_intr(|| fallocate(file, flags, offset, len)) {
        // The file system or the kernel does not support holes.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(Punched::Unsupported),
        punched => Ok(punched.map(|()| Punched::Done)?),
    }
}

#[cfg(not(target_os = "linux"))]
fn punch_hole(_file: &std::fs::File, _offset: u64, _len: u64) -> io::Result<Punched> {
    Ok(Punched::Unsupported)
}

/// Moves the position of the handle, which nothing else uses.
#[cfg(target_os = "linux")]
fn holes(file: &std::fs::File, len: u64) -> io::Result<Vec<Range<u64>>> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;

    let mut holes = Vec::new();
    let mut at = 0;
    while at < len {
        let start = match seek(file, SeekFrom::Hole(at)) {
            // The file system does not say.
            Err(Errno::INVAL | Errno::NXIO | Errno::OPNOTSUPP | Errno::NOSYS) => break,
            found => found?,
        };
        if start >= len {
            break;
        }
        at = match seek(file, SeekFrom::Data(start)) {
            // There is no data behind it.
            Err(Errno::NXIO) => len,
            found => found?.min(len),
        };
        holes.push(start..at);
    }
    Ok(holes)
}

#[cfg(not(target_os = "linux"))]
fn holes(_file: &std::fs::File, _len: u64) -> io::Result<Vec<Range<u64>>> {
    Ok(Vec::new())
}

#[cfg(target_os = "linux")]
fn read_now(file: &std::fs::File, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    use rustix::io::{ReadWriteFlags, preadv2};

    let bufs = &mut [io::IoSliceMut::new(buf)];
    Ok(preadv2(file, bufs, offset, ReadWriteFlags::NOWAIT)?)
}

#[cfg(not(target_os = "linux"))]
fn read_now(_file: &std::fs::File, _offset: u64, _buf: &mut [u8]) -> io::Result<usize> {
    Ok(0)
}

#[cfg(target_os = "linux")]
fn will_need(file: &std::fs::File, offset: u64, len: u64) {
    use rustix::fs::{Advice, fadvise};

    // A length of 0 would mean "up to the end".
    if let Some(len) = std::num::NonZeroU64::new(len) {
        // A hint that is not taken changes only the speed.
        fadvise(file, offset, Some(len), Advice::WillNeed).ok();
    }
}

#[cfg(not(target_os = "linux"))]
fn will_need(_file: &std::fs::File, _offset: u64, _len: u64) {}

#[cfg(target_os = "linux")]
fn drop_cached(file: &std::fs::File, offset: u64, len: u64) {
    use rustix::fs::{Advice, fadvise};

    // The kernel drops only whole pages, so the range is extended to page boundaries.
    let page = super::super::BLOCK_BYTES as u64;
    let start = offset / page * page;
    let end = offset.saturating_add(len).next_multiple_of(page);
    if let Some(len) = std::num::NonZeroU64::new(end - start) {
        // A hint that is not taken changes nothing.
        fadvise(file, start, Some(len), Advice::DontNeed).ok();
    }
}

#[cfg(not(target_os = "linux"))]
fn drop_cached(_file: &std::fs::File, _offset: u64, _len: u64) {}
