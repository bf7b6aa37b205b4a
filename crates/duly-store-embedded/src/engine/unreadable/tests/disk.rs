//! A disk that returns EIO in chosen places, on top of a simulated one.

use std::{ops::Range, sync::Arc};

use parking_lot::Mutex;

use crate::disk::{Disk, Error, File, Lock, Operation, SimDisk, Space};

/// The disk. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Spoiled {
    pub(super) sim: SimDisk,
    bad: Arc<Mutex<Vec<Range<u64>>>>,
    refused: Arc<Mutex<u64>>,
}

impl Spoiled {
    pub(super) fn new() -> Self {
        Self { sim: SimDisk::new(1), bad: Arc::default(), refused: Arc::default() }
    }

    /// From now on, fails reads of these bytes of a journal segment, and no others.
    pub(super) fn spoil(&self, bad: impl IntoIterator<Item = Range<u64>>) {
        *self.bad.lock() = bad.into_iter().collect();
    }

    /// Returns the number of reads refused since the last call.
    pub(super) fn take_refused(&self) -> u64 {
        std::mem::take(&mut self.refused.lock())
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(SpoiledFile { file, disk: self.clone() })
    }
}

impl Disk for Spoiled {
    fn create(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        Ok(self.wrap(self.sim.create(name)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        Ok(self.wrap(self.sim.open(name)?))
    }

    fn list(&self, dir: &str) -> Result<Vec<String>, Error> {
        self.sim.list(dir)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.sim.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.sim.remove(name)
    }

    fn make_dir(&self, dir: &str) -> Result<(), Error> {
        self.sim.make_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> Result<(), Error> {
        self.sim.sync_dir(dir)
    }

    fn space(&self) -> Result<Space, Error> {
        self.sim.space()
    }

    fn lock(&self) -> Result<Lock, Error> {
        self.sim.lock()
    }

    fn describe(&self) -> String {
        self.sim.describe()
    }
}

#[derive(Debug)]
struct SpoiledFile {
    file: Arc<dyn File>,
    disk: Spoiled,
}

impl File for SpoiledFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let end = offset + buf.len() as u64;
        let is_bad = |bad: &Range<u64>| offset < bad.end && bad.start < end;
        if self.name().ends_with(".log") && self.disk.bad.lock().iter().any(is_bad) {
            *self.disk.refused.lock() += 1;
            let (operation, name) = (Operation::Read, self.name().to_owned());
            let source = std::io::Error::from_raw_os_error(5);
            return Err(Error::Io { operation, name, source });
        }
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_at(offset, bytes)
    }

    fn sync_data(&self) -> Result<(), Error> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> Result<(), Error> {
        self.file.sync_all()
    }

    fn len(&self) -> Result<u64, Error> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        self.file.set_len(len)
    }

    fn name(&self) -> &str {
        self.file.name()
    }
}
