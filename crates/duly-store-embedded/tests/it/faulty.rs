//! A disk that answers chosen operations on chosen files with an error, on top of a simulated one.
//!
//! [`SimDisk`] fails by count; here a test names what fails, and for how long.

use std::{io, sync::Arc};

use duly_store_embedded::disk::{Disk, Error, File, Lock, Operation, SimDisk, Space};
use parking_lot::Mutex;

/// What an operation answers instead of being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answers {
    /// EIO.
    Broken,
    /// ENOSPC.
    Full,
}

/// Which operations fail.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) operation: Operation,
    /// Part of the name of the file or directory.
    pub(crate) name: &'static str,
    pub(crate) answers: Answers,
    /// How many more are let through first.
    pub(crate) after: u64,
    /// How many fail then.
    pub(crate) times: u64,
}

/// The disk. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct FaultyDisk {
    pub(crate) sim: SimDisk,
    rules: Arc<Mutex<Vec<Rule>>>,
}

impl FaultyDisk {
    pub(crate) fn new(sim: SimDisk) -> Self {
        Self { sim, rules: Arc::default() }
    }

    /// From now on this fails, too.
    pub(crate) fn fail(&self, rule: Rule) {
        self.rules.lock().push(rule);
    }

    /// Nothing fails any more.
    pub(crate) fn heal(&self) {
        self.rules.lock().clear();
    }

    fn check(&self, operation: Operation, name: &str) -> Result<(), Error> {
        for rule in self.rules.lock().iter_mut() {
            if rule.operation != operation || !name.contains(rule.name) || rule.times == 0 {
                continue;
            }
            if rule.after > 0 {
                rule.after -= 1;
                continue;
            }
            rule.times -= 1;
            let name = name.to_owned();
            return Err(match rule.answers {
                Answers::Broken => {
                    Error::Io { operation, name, source: io::Error::from_raw_os_error(5) }
                }
                Answers::Full => Error::NoSpace { operation, name },
            });
        }
        Ok(())
    }

    fn wrap(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FaultyFile { file, disk: self.clone() })
    }
}

impl Disk for FaultyDisk {
    fn create(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        self.check(Operation::Create, name)?;
        Ok(self.wrap(self.sim.create(name)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        self.check(Operation::Open, name)?;
        Ok(self.wrap(self.sim.open(name)?))
    }

    fn list(&self, dir: &str) -> Result<Vec<String>, Error> {
        self.sim.list(dir)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        self.check(Operation::Rename, to)?;
        self.sim.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        self.check(Operation::Remove, name)?;
        self.sim.remove(name)
    }

    fn make_dir(&self, dir: &str) -> Result<(), Error> {
        self.sim.make_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> Result<(), Error> {
        self.check(Operation::SyncDir, dir)?;
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
struct FaultyFile {
    file: Arc<dyn File>,
    disk: FaultyDisk,
}

impl File for FaultyFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        if let Err(error) = self.disk.check(Operation::Write, self.name()) {
            // A write that fails may have been done in part.
            self.file.write_at(offset, &bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        self.file.write_at(offset, bytes)
    }

    fn sync_data(&self) -> Result<(), Error> {
        self.disk.check(Operation::Sync, self.name())?;
        self.file.sync_data()
    }

    fn sync_all(&self) -> Result<(), Error> {
        self.disk.check(Operation::Sync, self.name())?;
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
