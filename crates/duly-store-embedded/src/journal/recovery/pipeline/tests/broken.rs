//! A disk on which reading fails after a while.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::disk::{Disk, Error, File, Lock, SimDisk, Space};

/// The failure of the reads beyond the allowed ones.
#[derive(Debug, Clone, Copy)]
pub(super) enum Breaks {
    Error,
    Panic,
}

/// A disk that allows some reads.
#[derive(Debug)]
pub(super) struct BrokenDisk {
    disk: SimDisk,
    breaks: Breaks,
    allowed: Arc<AtomicUsize>,
}

impl BrokenDisk {
    pub(super) fn new(disk: SimDisk, breaks: Breaks, allowed: usize) -> Self {
        Self { disk, breaks, allowed: Arc::new(AtomicUsize::new(allowed)) }
    }

    /// Returns the number of allowed reads that were not made.
    pub(super) fn left(&self) -> usize {
        self.allowed.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct BrokenFile {
    file: Arc<dyn File>,
    breaks: Breaks,
    allowed: Arc<AtomicUsize>,
}

impl File for BrokenFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let left = self.allowed.load(Ordering::SeqCst);
        self.allowed.store(left.saturating_sub(1), Ordering::SeqCst);
        match self.breaks {
            _ if left > 0 => self.file.read_at(offset, buf),
            Breaks::Error => Ok(0),
            Breaks::Panic => panic!("the disk is on fire"),
        }
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<(), Error> {
        unreachable!("reading writes nothing")
    }

    fn sync_data(&self) -> Result<(), Error> {
        unreachable!("reading syncs nothing")
    }

    fn sync_all(&self) -> Result<(), Error> {
        unreachable!("reading syncs nothing")
    }

    fn len(&self) -> Result<u64, Error> {
        self.file.len()
    }

    fn set_len(&self, _: u64) -> Result<(), Error> {
        unreachable!("reading cuts nothing")
    }

    fn name(&self) -> &str {
        self.file.name()
    }
}

impl Disk for BrokenDisk {
    fn create(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        let file = self.disk.open(name)?;
        Ok(Arc::new(BrokenFile { file, breaks: self.breaks, allowed: Arc::clone(&self.allowed) }))
    }

    fn list(&self, dir: &str) -> Result<Vec<String>, Error> {
        self.disk.list(dir)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.disk.remove(name)
    }

    fn make_dir(&self, dir: &str) -> Result<(), Error> {
        self.disk.make_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> Result<(), Error> {
        self.disk.sync_dir(dir)
    }

    fn space(&self) -> Result<Space, Error> {
        self.disk.space()
    }

    fn lock(&self) -> Result<Lock, Error> {
        self.disk.lock()
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}
