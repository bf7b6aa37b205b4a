//! A disk on top of a simulated one that fails chosen operations on chosen files.
//!
//! [`SimDisk`] fails operations by count, and only those that change something. Here a test names the
//! operation, reads and lists included, and how often it fails.

use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use duly_store_embedded::disk::{
    Disk, Error, Fault, File, LOCK_NAME, Lock, Operation, Punched, SimDisk, Space,
};
use parking_lot::{Condvar, Mutex};

/// The fault of an operation, instead of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// EIO.
    Broken,
    /// ENOSPC.
    Full,
    /// EMFILE.
    TooManyFiles,
    /// EINTR.
    Interrupted,
    /// No error: the thread panics.
    Panics,
    /// Wrong bytes; for reads only.
    Garbled,
    /// No error: the operation lasts until [`FaultyDisk::release`].
    Hangs,
}

/// Longest wait for an operation that is to hang, and longest hang, so that a failed test ends.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// An operation on a kind of file, and the thread that makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) operation: Operation,
    pub(crate) kind: String,
    /// The name of a thread of the store; [`CALLER`] for every other one.
    pub(crate) thread: String,
}

/// A thread that calls the store.
pub(crate) const CALLER: &str = "caller";

impl Place {
    fn of(operation: Operation, name: &str) -> Self {
        let thread = thread::current();
        let thread = thread.name().filter(|name| name.starts_with("duly-")).unwrap_or(CALLER);
        Self { operation, kind: kind_of(name), thread: thread.to_owned() }
    }
}

/// Operations that hang.
#[derive(Debug, Default)]
struct Hangs {
    /// The operation that hangs when it comes.
    plan: Option<Place>,
    has_begun: bool,
    is_released: bool,
}

impl FaultKind {
    fn error(self, operation: Operation, name: &str) -> Error {
        let name = name.to_owned();
        match self {
            Self::Full => Error::NoSpace { operation, name },
            Self::TooManyFiles => Error::TooManyFiles { operation, name },
            Self::Broken | Self::Garbled => {
                Error::Io { operation, name, source: io::Error::from_raw_os_error(5) }
            }
            Self::Interrupted => {
                Error::Io { operation, name, source: io::Error::from_raw_os_error(4) }
            }
            Self::Hangs => unreachable!("it is no error"),
            Self::Panics => panic!("the test wants a panic at {operation} {name}"),
        }
    }
}

/// A rule for failing operations.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) operation: Operation,
    /// Part of the name of the file or directory.
    pub(crate) name: &'static str,
    pub(crate) fault_kind: FaultKind,
    /// Number of operations that pass first.
    pub(crate) after: u64,
    /// Number of operations that fail then.
    pub(crate) times: u64,
}

/// A single failing operation of any kind.
#[derive(Debug, Default)]
struct Nth {
    /// Operations of every kind so far.
    count: u64,
    /// Number of operations that pass first, and the fault of the next.
    plan: Option<(u64, FaultKind)>,
    /// The operation that failed.
    failed: Option<(Operation, String)>,
}

/// The faulty disk. Clones are the same disk.
#[derive(Debug, Clone)]
pub(crate) struct FaultyDisk {
    pub(crate) sim: SimDisk,
    rules: Arc<Mutex<Vec<Rule>>>,
    nth: Arc<Mutex<Nth>>,
    read_bytes: Arc<AtomicU64>,
    has_holes: bool,
    seen: Arc<Mutex<Vec<Place>>>,
    hangs: Arc<(Mutex<Hangs>, Condvar)>,
}

/// Returns the kind of a file: its name with `N` for each number.
pub(crate) fn kind_of(name: &str) -> String {
    let mut kind = String::new();
    for letter in name.chars() {
        match letter {
            '0'..='9' if kind.ends_with('N') => {}
            '0'..='9' => kind.push('N'),
            other => kind.push(other),
        }
    }
    kind
}

impl FaultyDisk {
    pub(crate) fn new(sim: SimDisk) -> Self {
        Self {
            sim,
            rules: Arc::default(),
            nth: Arc::default(),
            read_bytes: Arc::default(),
            has_holes: true,
            seen: Arc::default(),
            hangs: Arc::default(),
        }
    }

    /// Returns every operation since the last call.
    pub(crate) fn take_seen(&self) -> Vec<Place> {
        std::mem::take(&mut *self.seen.lock())
    }

    /// Returns `true` if this operation came since the last [`Self::take_seen`].
    pub(crate) fn has_seen(&self, operation: Operation) -> bool {
        self.seen.lock().iter().any(|place| place.operation == operation)
    }

    /// Makes the next operation at this place hang.
    pub(crate) fn hang(&self, place: &Place) {
        self.hangs.0.lock().plan = Some(place.clone());
    }

    /// Returns `true` if an operation has begun to hang.
    pub(crate) fn hangs(&self) -> bool {
        self.hangs.0.lock().has_begun
    }

    /// Ends the hang.
    pub(crate) fn release(&self) {
        self.hangs.0.lock().is_released = true;
        self.hangs.1.notify_all();
    }

    fn stay(&self) {
        let (hangs, released) = &*self.hangs;
        let mut hangs = hangs.lock();
        hangs.has_begun = true;
        released.wait_while_for(&mut hangs, |hangs| !hangs.is_released, PATIENCE);
    }

    /// Makes a disk that reports that it does not support holes.
    pub(crate) fn without_holes(sim: SimDisk) -> Self {
        Self { has_holes: false, ..Self::new(sim) }
    }

    /// Returns the bytes that were read so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of operations that the rules would still fail.
    pub(crate) fn times_left(&self) -> u64 {
        self.rules.lock().iter().map(|rule| rule.times).sum()
    }

    /// Returns the number of operations that the rules would still let pass before they fail any.
    pub(crate) fn passes_left(&self) -> u64 {
        self.rules.lock().iter().map(|rule| rule.after).sum()
    }

    /// Adds a rule.
    pub(crate) fn fail(&self, rule: Rule) {
        self.rules.lock().push(rule);
    }

    /// Removes all rules.
    pub(crate) fn heal(&self) {
        self.rules.lock().clear();
    }

    /// Returns the number of operations of every kind so far.
    pub(crate) fn count(&self) -> u64 {
        self.nth.lock().count
    }

    /// Makes the operation behind the next `after` ones fail, of any kind.
    pub(crate) fn fail_nth(&self, after: u64, fault_kind: FaultKind) {
        self.nth.lock().plan = Some((after, fault_kind));
    }

    /// Returns the operation that failed by [`Self::fail_nth`], and its file.
    pub(crate) fn nth_failed(&self) -> Option<(Operation, String)> {
        self.nth.lock().failed.clone()
    }

    fn nth_fault(&self, operation: Operation, name: &str) -> Option<FaultKind> {
        let mut nth = self.nth.lock();
        nth.count += 1;
        match &mut nth.plan {
            None => None,
            Some((0, fault_kind)) => {
                let fault_kind = *fault_kind;
                nth.plan = None;
                nth.failed = Some((operation, name.to_owned()));
                Some(fault_kind)
            }
            Some((left, _)) => {
                *left -= 1;
                None
            }
        }
    }

    fn check(&self, operation: Operation, name: &str) -> Result<(), Error> {
        match self.fault(operation, name) {
            None => Ok(()),
            Some(FaultKind::Hangs) => {
                self.stay();
                Ok(())
            }
            Some(fault_kind) => Err(fault_kind.error(operation, name)),
        }
    }

    /// Returns the fault of this operation, if a rule applies.
    fn fault(&self, operation: Operation, name: &str) -> Option<FaultKind> {
        let place = Place::of(operation, name);
        if self.hangs.0.lock().plan.take_if(|plan| *plan == place).is_some() {
            return Some(FaultKind::Hangs);
        }
        let mut seen = self.seen.lock();
        if !seen.contains(&place) {
            seen.push(place);
        }
        drop(seen);
        if let Some(fault_kind) = self.nth_fault(operation, name) {
            return Some(fault_kind);
        }
        for rule in self.rules.lock().iter_mut() {
            if rule.operation != operation || !name.contains(rule.name) || rule.times == 0 {
                continue;
            }
            if rule.after > 0 {
                rule.after -= 1;
                continue;
            }
            rule.times -= 1;
            return Some(rule.fault_kind);
        }
        None
    }

    /// Syncs. A failed sync gives up the unsynced bytes, as in Linux. A sync that got no file descriptor
    /// was not begun.
    fn sync(
        &self,
        checked: Result<(), Error>,
        sync: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let Err(error) = checked {
            if !matches!(error, Error::TooManyFiles { .. }) {
                self.sim.plan(Fault::ErrorAtSync(1));
                sync().expect_err("it was planned");
            }
            return Err(error);
        }
        sync()
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
        self.check(Operation::List, dir)?;
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
        self.check(Operation::MakeDir, dir)?;
        self.sim.make_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> Result<(), Error> {
        let checked = self.check(Operation::SyncDir, dir);
        self.sync(checked, || self.sim.sync_dir(dir))
    }

    fn space(&self) -> Result<Space, Error> {
        self.check(Operation::Space, "")?;
        self.sim.space()
    }

    fn lock(&self) -> Result<Lock, Error> {
        self.check(Operation::Lock, LOCK_NAME)?;
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
        let mut fault = self.disk.fault(Operation::Read, self.name());
        if fault == Some(FaultKind::Hangs) {
            self.disk.stay();
            fault = None;
        }
        if let Some(fault_kind) = fault.filter(|fault_kind| *fault_kind != FaultKind::Garbled) {
            return Err(fault_kind.error(Operation::Read, self.name()));
        }
        let got = self.file.read_at(offset, buf)?;
        if fault == Some(FaultKind::Garbled) {
            buf[..got].iter_mut().for_each(|byte| *byte ^= 0x20);
        }
        self.disk.read_bytes.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
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
        let checked = self.disk.check(Operation::Sync, self.name());
        self.disk.sync(checked, || self.file.sync_data())
    }

    fn sync_all(&self) -> Result<(), Error> {
        let checked = self.disk.check(Operation::Sync, self.name());
        self.disk.sync(checked, || self.file.sync_all())
    }

    fn len(&self) -> Result<u64, Error> {
        self.disk.check(Operation::Length, self.name())?;
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        self.disk.check(Operation::SetLength, self.name())?;
        self.file.set_len(len)
    }

    fn reserve(&self, len: u64) -> Result<(), Error> {
        self.disk.check(Operation::SetLength, self.name())?;
        self.file.reserve(len)
    }

    fn write_back(&self, offset: u64, len: u64) -> Result<(), Error> {
        if let Err(error) = self.disk.check(Operation::WriteBack, self.name()) {
            self.disk.sim.plan(Fault::ErrorAtWriteBack(1));
            self.file.write_back(offset, len).expect_err("it was planned");
            return Err(error);
        }
        self.file.write_back(offset, len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<Punched, Error> {
        if !self.disk.has_holes {
            return Ok(Punched::Unsupported);
        }
        self.disk.check(Operation::PunchHole, self.name())?;
        self.file.punch_hole(offset, len)
    }

    fn holes(&self) -> Result<Vec<Range<u64>>, Error> {
        self.file.holes()
    }

    fn allocated_bytes(&self) -> Result<u64, Error> {
        self.file.allocated_bytes()
    }

    fn name(&self) -> &str {
        self.file.name()
    }
}
