//! A data directory on a real file system.
//!
//! A thin layer: each call is the system call of the same name. Files get mode 0600 and directories
//! 0700, because they hold payloads and secrets of every tenant. A directory that is opened only to read
//! it ([`RealDisk::open_existing`]) cannot be changed through its handle.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::{
    fs::{FlockOperation, OFlags, flock, statvfs},
    io::Errno,
};

use self::{descriptor_pool::DescriptorPool, file::RealFile};
use super::error::At;
use super::{Disk, Error, File, Inodes, LOCK_NAME, Lock, Operation, Space, check_dir, split_name};

mod descriptor_pool;
mod file;

#[cfg(test)]
mod tests;

/// Digits of a process id in the lock file; a shorter id is padded with spaces.
const LOCK_DIGITS: usize = 10;

/// A directory of this machine.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    /// `root` as messages show it; shared with every file handle.
    shown: Arc<str>,
    access: Access,
    kept: DescriptorPool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    ReadWrite,
    ReadOnly,
}

impl RealDisk {
    /// Opens the directory at `path`. If it is missing, makes it with its parents (mode 0700, all
    /// durable). Reserves file descriptors for it.
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self, Error> {
        let disk = Self::new(path.as_ref(), Access::ReadWrite);
        match disk.root.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create_root()?,
            _ => disk.check_root()?,
        }
        disk.kept.fill(&disk.root);
        Ok(disk)
    }

    /// Opens the directory at `path` only to read it: nothing is made or written, then or later. Files
    /// open for reading. Every call that would change something fails with [`Error::ReadOnly`].
    pub fn open_existing(path: impl AsRef<Path>) -> Result<Self, Error> {
        let disk = Self::new(path.as_ref(), Access::ReadOnly);
        disk.check_root()?;
        Ok(disk)
    }

    fn new(path: &Path, access: Access) -> Self {
        // `Path::parent` returns "" for a plain name; the system calls need a dot.
        let root = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let shown = root.display().to_string().into();
        Self { root: root.to_owned(), shown, access, kept: DescriptorPool::default() }
    }

    fn check_root(&self) -> Result<(), Error> {
        let metadata = self.root.metadata().map_err(|e| self.error(Operation::Open, "", e))?;
        if metadata.is_dir() { Ok(()) } else { Err(Error::NotADirectory { path: self.describe() }) }
    }

    fn create_root(&self) -> Result<(), Error> {
        let missing: Vec<&Path> = self
            .root
            .ancestors()
            .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists())
            .collect();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.root)
            .map_err(|e| self.error(Operation::MakeDir, "", e))?;
        for parent in missing.iter().rev().filter_map(|dir| dir.parent()) {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            match sync_path(parent) {
                // A parent that this process may enter but not read cannot be synced.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced.map_err(|e| self.error(Operation::SyncDir, "", e))?,
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> Result<PathBuf, Error> {
        split_name(name)?;
        Ok(self.root.join(name))
    }

    fn dir_path(&self, dir: &str) -> Result<PathBuf, Error> {
        check_dir(dir)?;
        Ok(if dir.is_empty() { self.root.clone() } else { self.root.join(dir) })
    }

    fn check_writable(&self, operation: Operation, name: &str) -> Result<(), Error> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => {
                Err(self.error(operation, name, io::ErrorKind::ReadOnlyFilesystem.into()))
            }
        }
    }

    fn check_regular(&self, name: &str, file: &std::fs::File) -> Result<(), Error> {
        let metadata = file.metadata().map_err(|e| self.error(Operation::Open, name, e))?;
        if metadata.is_file() {
            return Ok(());
        }
        let name = format!("{}/{name}", self.shown);
        Err(Error::NotPlain { operation: Operation::Open, name })
    }

    fn file(&self, name: &str, file: std::fs::File) -> Arc<dyn File> {
        Arc::new(RealFile {
            file,
            name: name.to_owned(),
            directory: Arc::clone(&self.shown),
            access: self.access,
        })
    }

    /// Makes the error that another process holds the lock; its id is in the lock file, if that can be
    /// read.
    fn locked(&self) -> Error {
        let text = std::fs::read_to_string(self.root.join(LOCK_NAME)).ok();
        let holder_pid = text.and_then(|text| text.trim().parse().ok());
        Error::Locked { path: self.describe(), holder_pid }
    }

    fn error(&self, operation: Operation, name: &str, source: io::Error) -> Error {
        Error::from_io(At { operation, directory: &self.shown, name }, source)
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        let path = self.path(name)?;
        self.check_writable(Operation::Create, name)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        self.kept
            .open(&self.root, || options.open(&path))
            .map(|file| self.file(name, file))
            .map_err(|e| self.error(Operation::Create, name, e))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        let path = self.path(name)?;
        let mut options = regular();
        options.write(self.access == Access::ReadWrite);
        let opened = self.kept.open(&self.root, || options.open(&path));
        let file = opened.map_err(|e| self.error(Operation::Open, name, e))?;
        self.check_regular(name, &file)?;
        Ok(self.file(name, file))
    }

    fn list(&self, dir: &str) -> Result<Vec<String>, Error> {
        let path = self.dir_path(dir)?;
        let failed = |e| self.error(Operation::List, dir, e);
        let entries = match self.kept.open(&self.root, || std::fs::read_dir(&path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry.map_err(failed)?.file_name().into_string().ok());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from_path, to_path) = (self.path(from)?, self.path(to)?);
        self.check_writable(Operation::Rename, from)?;
        uninterrupted(|| std::fs::rename(&from_path, &to_path))
            .map_err(|e| self.error(Operation::Rename, from, e))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path(name)?;
        self.check_writable(Operation::Remove, name)?;
        uninterrupted(|| std::fs::remove_file(&path))
            .map_err(|e| self.error(Operation::Remove, name, e))
    }

    fn make_dir(&self, dir: &str) -> Result<(), Error> {
        let path = self.dir_path(dir)?;
        self.check_writable(Operation::MakeDir, dir)?;
        match uninterrupted(|| DirBuilder::new().mode(0o700).create(&path)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            made => made.map_err(|e| self.error(Operation::MakeDir, dir, e)),
        }
    }

    fn sync_dir(&self, dir: &str) -> Result<(), Error> {
        let path = self.dir_path(dir)?;
        self.check_writable(Operation::SyncDir, dir)?;
        let opened = self.kept.open(&self.root, || std::fs::File::open(&path));
        opened.and_then(|dir| dir.sync_all()).map_err(|e| self.error(Operation::SyncDir, dir, e))
    }

    fn space(&self) -> Result<Space, Error> {
        let answer = uninterrupted(|| Ok(statvfs(&self.root)?))
            .map_err(|e| self.error(Operation::Space, "", e))?;
        // As `df` counts: used blocks, plus the blocks that are available to unprivileged users.
        let used_blocks = answer.f_blocks.saturating_sub(answer.f_bfree);
        let total_blocks = used_blocks.saturating_add(answer.f_bavail);
        Ok(Space {
            free_bytes: answer.f_bavail.saturating_mul(answer.f_frsize),
            total_bytes: total_blocks.saturating_mul(answer.f_frsize),
            // File systems that make inodes on demand return 0.
            inodes: (answer.f_files > 0)
                .then_some(Inodes { free: answer.f_favail, total: answer.f_files }),
        })
    }

    /// Locks the directory itself, and then the lock file, because older builds check only the file. A
    /// directory that was opened only to read it may have no lock file.
    fn lock(&self) -> Result<Lock, Error> {
        let failed = |e: io::Error| self.error(Operation::Lock, LOCK_NAME, e);
        let directory = std::fs::File::open(&self.root).map_err(failed)?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(self.locked()),
            // Network file systems lock only what is open for writing, which no directory can be.
            Err(Errno::BADF | Errno::OPNOTSUPP | Errno::NOLCK) => {}
            locked => locked.map_err(|e| failed(e.into()))?,
        }
        let writable = self.access == Access::ReadWrite;
        let opened = regular()
            .write(writable)
            .create(writable)
            .truncate(false)
            .mode(0o600)
            .open(self.root.join(LOCK_NAME));
        let file = match opened {
            Err(e) if e.kind() == io::ErrorKind::NotFound && !writable => {
                return Ok(Lock::new(LockedFiles(vec![directory])));
            }
            opened => opened.map_err(failed)?,
        };
        self.check_regular(LOCK_NAME, &file)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(self.locked()),
            locked => locked.map_err(|e| failed(e.into()))?,
        }
        if writable {
            // The process id is only for messages, so a full disk does not prevent a start. Its length
            // is always the same, so writing it in place needs no space.
            let text = format!("{:<LOCK_DIGITS$}\n", std::process::id());
            file.write_all_at(text.as_bytes(), 0)
                .and_then(|()| file.set_len(text.len() as u64))
                .ok();
        }
        Ok(Lock::new(LockedFiles(vec![directory, file])))
    }

    fn is_shared(&self, name: &str) -> Result<bool, Error> {
        let metadata = self.path(name)?.metadata();
        let metadata = metadata.map_err(|e| self.error(Operation::Open, name, e))?;
        Ok(metadata.nlink() > 1)
    }

    fn real_path(&self, name: &str) -> Option<PathBuf> {
        if name.is_empty() { Some(self.root.clone()) } else { self.path(name).ok() }
    }

    fn describe(&self) -> String {
        self.shown.to_string()
    }
}

/// Files with a `flock`; dropping them releases it.
///
/// Closing a file is not enough: a child process that another thread starts holds a copy of the
/// descriptor until it executes its program, and the lock lasts as long as any copy.
struct LockedFiles(Vec<std::fs::File>);

impl Drop for LockedFiles {
    fn drop(&mut self) {
        for file in &self.0 {
            flock(file, FlockOperation::Unlock).ok();
        }
    }
}

/// Repeats a system call for as long as a signal interrupts it. The standard library itself repeats the
/// calls that open, read, write and sync.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Returns the options to open a file for reading, before [`RealDisk::check_regular`] checks it. A
/// symbolic link is refused, because it may lead out of the directory. Opening a FIFO does not wait for
/// its other end.
fn regular() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.read(true).custom_flags(flags.bits().cast_signed());
    options
}

fn sync_path(dir: &Path) -> io::Result<()> {
    std::fs::File::open(dir)?.sync_all()
}
