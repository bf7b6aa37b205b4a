//! The state of a simulated machine's disk, behind one lock.
//!
//! Each operation that changes something calls [`SimState::begin`], which counts it and triggers a planned
//! crash inside it.

use std::collections::BTreeMap;
use std::io;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustix::io::Errno;

use super::content::{Content, SECTOR_BYTES};
use super::fault::FaultPlan;
use super::names::{Inode, Names};
use crate::disk::error::At;
use crate::disk::{Error, Inodes, Operation};

/// Default size of a simulated disk.
const TOTAL_BYTES: u64 = 1 << 40;

/// Inodes of a simulated disk.
const TOTAL_FILES: u64 = 1 << 20;

/// Longest simulated file; files are held in memory.
const FILE_BYTES_MAX: u64 = 1 << 30;

#[derive(Debug)]
pub(super) struct SimState {
    pub(super) names: Names,
    contents: BTreeMap<Inode, Content>,
    /// Number of open handles of each file.
    handles: BTreeMap<Inode, usize>,
    next_inode: Inode,
    pub(super) rng: SmallRng,
    pub(super) plan: FaultPlan,
    pub(super) ops: u64,
    total_bytes: u64,
    used_bytes: u64,
    /// Most files with a name.
    files_max: u64,
    pub(super) locked: Locked,
    power: PowerState,
    pub(super) shown: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Locked {
    Yes,
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PowerState {
    On,
    Off,
}

/// Extent to which an operation is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncReach {
    Whole,
    /// The machine dies during the operation.
    Crash,
}

impl SimState {
    pub(super) fn new(seed: u64) -> Self {
        let shown = format!("simulated disk {seed}");
        Self::with(shown, SmallRng::seed_from_u64(seed), Names::default(), BTreeMap::new())
    }

    fn with(
        shown: String,
        rng: SmallRng,
        names: Names,
        contents: BTreeMap<Inode, Content>,
    ) -> Self {
        let next_inode = contents.keys().next_back().map_or(0, |last| last + 1);
        let used_bytes = names.files().map(|(_, inode)| contents[&inode].allocated_bytes()).sum();
        Self {
            names,
            contents,
            handles: BTreeMap::new(),
            next_inode,
            rng,
            plan: FaultPlan::default(),
            ops: 0,
            total_bytes: TOTAL_BYTES,
            used_bytes,
            files_max: TOTAL_FILES,
            locked: Locked::No,
            power: PowerState::On,
            shown,
        }
    }

    /// Returns the disk of the machine that is switched on again after a power loss.
    pub(super) fn after_power_loss(&mut self) -> Self {
        let mut rng = SmallRng::seed_from_u64(self.rng.random());
        let names = self.names.settle(&mut rng);
        let contents = names
            .files()
            .map(|(_, inode)| (inode, self.contents[&inode].settle(&mut rng)))
            .collect();
        self.power = PowerState::Off;
        self.successor(rng, names, contents)
    }

    /// Returns the disk as the next process finds it on the same running machine.
    pub(super) fn after_kill(&mut self) -> Self {
        let rng = SmallRng::seed_from_u64(self.rng.random());
        let names = self.names.clone();
        let mut contents = self.contents.clone();
        let named = names.reachable();
        contents.retain(|inode, _| named.contains(inode));
        self.power = PowerState::Off;
        self.successor(rng, names, contents)
    }

    fn successor(&self, rng: SmallRng, names: Names, contents: BTreeMap<Inode, Content>) -> Self {
        let next = Self::with(self.shown.clone(), rng, names, contents);
        let total_bytes = self.total_bytes.max(next.used_bytes);
        Self { total_bytes, files_max: self.files_max, ..next }
    }

    pub(super) fn is_down(&self) -> bool {
        self.power == PowerState::Off
    }

    /// Fails if the machine is down.
    pub(super) fn check_up(&self, operation: Operation, name: &str) -> Result<(), Error> {
        match self.power {
            PowerState::On => Ok(()),
            PowerState::Off => Err(self.crashed(operation, name)),
        }
    }

    /// Counts an operation that changes something. On [`SyncReach::Crash`] the caller does as much of it as
    /// the seed says, and returns [`SimState::crashed`].
    pub(super) fn begin(&mut self, operation: Operation, name: &str) -> Result<SyncReach, Error> {
        self.check_up(operation, name)?;
        self.ops += 1;
        if self.plan.crashes_now() {
            self.power = PowerState::Off;
            return Ok(SyncReach::Crash);
        }
        Ok(SyncReach::Whole)
    }

    /// Runs an operation that is done either completely or not at all.
    pub(super) fn change<T>(
        &mut self,
        operation: Operation,
        name: &str,
        change: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.begin(operation, name)? {
            SyncReach::Whole => change(self),
            SyncReach::Crash => {
                if self.rng.random() {
                    // The result does not matter: the caller sees only the crash.
                    change(self).ok();
                }
                Err(self.crashed(operation, name))
            }
        }
    }

    pub(super) fn crashed(&self, operation: Operation, name: &str) -> Error {
        self.error(operation, name, io::Error::other("crashed: the simulated machine is down"))
    }

    pub(super) fn failed(&self, operation: Operation, name: &str, errno: Errno) -> Error {
        self.error(operation, name, errno.into())
    }

    fn error(&self, operation: Operation, name: &str, source: io::Error) -> Error {
        Error::from_io(At { operation, directory: &self.shown, name }, source)
    }

    /// Adds an empty file, without a name yet.
    pub(super) fn add_file(&mut self) -> Inode {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.contents.insert(inode, Content::default());
        inode
    }

    pub(super) fn open_handle(&mut self, inode: Inode) {
        *self.handles.entry(inode).or_default() += 1;
    }

    pub(super) fn close_handle(&mut self, inode: Inode) {
        if let Some(open) = self.handles.get_mut(&inode) {
            *open -= 1;
            if *open == 0 {
                self.forget_unreachable();
            }
        }
    }

    /// Drops files that no handle, no name and no power loss can reach any more.
    pub(super) fn forget_unreachable(&mut self) {
        self.handles.retain(|_, open| *open > 0);
        let named = self.names.reachable();
        let handles = &self.handles;
        self.contents.retain(|inode, _| handles.contains_key(inode) || named.contains(inode));
    }

    pub(super) fn content(&self, inode: Inode) -> &Content {
        self.contents.get(&inode).expect("a file with a handle or a name is never forgotten")
    }

    pub(super) fn content_mut(&mut self, inode: Inode) -> (&mut Content, &mut SmallRng) {
        let content = self
            .contents
            .get_mut(&inode)
            .expect("a file with a handle or a name is never forgotten");
        (content, &mut self.rng)
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.used_bytes)
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub(super) fn set_free_bytes(&mut self, free_bytes: u64) {
        self.total_bytes = self.used_bytes.saturating_add(free_bytes);
    }

    /// Returns the inodes: every file with a name takes one.
    pub(super) fn inodes(&self) -> Inodes {
        let used = self.names.files().count() as u64;
        Inodes { free: self.files_max.saturating_sub(used), total: TOTAL_FILES }
    }

    pub(super) fn set_free_inodes(&mut self, free: u64) {
        self.files_max = self.names.files().count() as u64 + free;
    }

    /// Deallocates the space of a file that is about to lose its name.
    pub(super) fn release(&mut self, inode: Inode) {
        let freed_bytes = self.content(inode).allocated_bytes();
        self.used_bytes = self.used_bytes.saturating_sub(freed_bytes);
    }

    /// Writes as much as there is space for. If the machine dies or a fault is planned, writes a part
    /// that the seed decides.
    pub(super) fn write(
        &mut self,
        (inode, name): (Inode, &str),
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let reach = self.begin(Operation::Write, name)?;
        let offset = self.check_length(Operation::Write, name, (offset, bytes.len()))?;
        let planned_full = self.plan.is_full_now();
        let wanted = if reach == SyncReach::Whole && !planned_full {
            bytes.len()
        } else {
            self.rng.random_range(0..=bytes.len())
        };
        let free_bytes = self.free_bytes();
        let (content, rng) = self.content_mut(inode);
        let (fitting, new_bytes) = content.fitting(offset, wanted, free_bytes);
        content.write(offset, &bytes[..fitting], rng);
        self.used_bytes += new_bytes;
        match reach {
            SyncReach::Crash => Err(self.crashed(Operation::Write, name)),
            SyncReach::Whole if planned_full || fitting < wanted => {
                Err(self.failed(Operation::Write, name, Errno::NOSPC))
            }
            SyncReach::Whole => Ok(()),
        }
    }

    pub(super) fn set_len(&mut self, (inode, name): (Inode, &str), len: u64) -> Result<(), Error> {
        let len = self.check_length(Operation::SetLength, name, (len, 0))?;
        self.change(Operation::SetLength, name, |state| {
            let (content, rng) = state.content_mut(inode);
            let before_bytes = content.allocated_bytes();
            content.set_len(len, rng);
            let freed_bytes = before_bytes - content.allocated_bytes();
            state.used_bytes = state.used_bytes.saturating_sub(freed_bytes);
            Ok(())
        })
    }

    /// Zeroes a range and frees its whole sectors; if the machine dies, only a part of them.
    pub(super) fn punch_hole(
        &mut self,
        (inode, name): (Inode, &str),
        offset: u64,
        len: u64,
    ) -> Result<(), Error> {
        let reach = self.begin(Operation::PunchHole, name)?;
        let bytes = self.content(inode).len();
        let clamp = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes);
        let (start, end) = (clamp(offset), clamp(offset.saturating_add(len)));
        let end = match reach {
            SyncReach::Whole => end,
            SyncReach::Crash => {
                // Space is deallocated sector by sector.
                let sectors = (end - start).div_ceil(SECTOR_BYTES);
                let count = self.rng.random_range(0..=sectors);
                end.min((start + count * SECTOR_BYTES) / SECTOR_BYTES * SECTOR_BYTES).max(start)
            }
        };
        let (content, rng) = self.content_mut(inode);
        let before_bytes = content.allocated_bytes();
        content.punch_hole(start..end, rng);
        let freed_bytes = before_bytes - content.allocated_bytes();
        self.used_bytes = self.used_bytes.saturating_sub(freed_bytes);
        match reach {
            SyncReach::Whole => Ok(()),
            SyncReach::Crash => Err(self.crashed(Operation::PunchHole, name)),
        }
    }

    /// Makes nothing durable, since no caller may rely on it. It can fail, and then loses the same as a
    /// failed sync.
    pub(super) fn write_back(&mut self, (inode, name): (Inode, &str)) -> Result<(), Error> {
        if self.begin(Operation::WriteBack, name)? == SyncReach::Crash {
            return Err(self.crashed(Operation::WriteBack, name));
        }
        if self.plan.write_back_fails_now() {
            let (content, rng) = self.content_mut(inode);
            content.fail_sync(rng);
            return Err(self.failed(Operation::WriteBack, name, Errno::IO));
        }
        Ok(())
    }

    pub(super) fn sync_file(&mut self, (inode, name): (Inode, &str)) -> Result<(), Error> {
        if self.begin(Operation::Sync, name)? == SyncReach::Crash {
            return Err(self.crashed(Operation::Sync, name));
        }
        let fails = self.plan.sync_fails_now();
        let (content, rng) = self.content_mut(inode);
        if fails {
            content.fail_sync(rng);
            return Err(self.failed(Operation::Sync, name, Errno::IO));
        }
        content.sync();
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, dir: &str) -> Result<(), Error> {
        if self.begin(Operation::SyncDir, dir)? == SyncReach::Crash {
            return Err(self.crashed(Operation::SyncDir, dir));
        }
        if !self.names.has_dir(dir) {
            return Err(self.failed(Operation::SyncDir, dir, Errno::NOENT));
        }
        if self.plan.sync_fails_now() {
            self.names.fail_sync(dir, &mut self.rng);
            return Err(self.failed(Operation::SyncDir, dir, Errno::IO));
        }
        self.names.sync(dir);
        self.forget_unreachable();
        Ok(())
    }

    /// Converts a file offset to an offset in memory, if the bytes of this length behind it are allowed.
    fn check_length(
        &self,
        operation: Operation,
        name: &str,
        (offset, len): (u64, usize),
    ) -> Result<usize, Error> {
        let end = offset.saturating_add(len as u64);
        if end > FILE_BYTES_MAX {
            return Err(self.failed(operation, name, Errno::FBIG));
        }
        Ok(usize::try_from(offset).expect("below FILE_BYTES_MAX"))
    }
}
