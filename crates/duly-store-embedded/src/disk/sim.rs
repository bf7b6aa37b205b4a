//! A data directory in memory with simulated disk failures, decided by a seed.
//!
//! ```text
//!   write_at ──► cache (what reads see) ── sync_data ──► platter
//!   create, rename, remove ──► live names ── sync_dir ──► durable names
//!
//!   crash(): power loss. Synced bytes and names stay; of the rest each sector stays, goes or is
//!            torn, and of each directory's waiting changes a prefix stays.
//!   kill():  kill -9. Everything stays, what was unsynced is still unsynced.
//! ```
//!
//! The same seed and the same calls give the same disk, byte for byte. To try every crash point of a
//! scenario, run it once and read [`SimDisk::ops`]. Then run it again on a fresh disk with
//! [`Fault::CrashAtOp`] at 1, 2, … and open the result of [`SimDisk::crash`].

mod content;
mod fault;
mod file;
mod names;
mod state;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;

pub use content::SECTOR_BYTES;
pub use fault::Fault;

use self::file::SimFile;
use self::state::{Locked, SimState};
use super::{Disk, Error, File, LOCK_NAME, Lock, Operation, Space, check_dir, split_name};

/// A simulated disk. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<SimState>>,
}

impl SimDisk {
    /// Makes an empty disk whose failures follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self::holding(SimState::new(seed))
    }

    fn holding(state: SimState) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Simulates power loss: returns the disk as the machine finds it when it is switched on again. This
    /// disk and its handles fail from now on. Another call returns another possible outcome of the same
    /// loss.
    #[must_use = "the disk that survives is the answer"]
    pub fn crash(&self) -> Self {
        Self::holding(self.state.lock().after_power_loss())
    }

    /// Simulates `kill -9`: returns the disk as the next process finds it. Every write is there,
    /// unsynced ones still unsynced; the lock is free. This disk and its handles fail from now on.
    #[must_use = "the disk that survives is the answer"]
    pub fn kill(&self) -> Self {
        Self::holding(self.state.lock().after_kill())
    }

    /// Plans a fault.
    ///
    /// # Panics
    /// When the fault counts from 0: 1 is the next operation.
    pub fn plan(&self, fault: Fault) {
        self.state.lock().plan.add(fault);
    }

    /// Sets the free space: without it new sectors and new files fail, overwriting does not.
    pub fn set_free_bytes(&self, free_bytes: u64) {
        self.state.lock().set_free_bytes(free_bytes);
    }

    /// Sets the number of files that can still be made.
    pub fn set_free_inodes(&self, free: u64) {
        self.state.lock().set_free_inodes(free);
    }

    /// Returns the number of operations so far that changed something or tried to: create, rename,
    /// remove, make_dir, write, set_len, punch_hole, write_back and every sync.
    pub fn ops(&self) -> u64 {
        self.state.lock().ops
    }

    /// Returns `true` if this disk has crashed or was killed, by a plan or by a call.
    pub fn is_down(&self) -> bool {
        self.state.lock().is_down()
    }

    /// Flips bits of one stored byte.
    ///
    /// # Panics
    /// When there is no such file or byte.
    pub fn corrupt(&self, name: &str, offset: u64, xor_mask: u8) {
        self.damage(name, offset..offset + 1, |byte| *byte ^= xor_mask);
    }

    /// Zeroes stored bytes, as a lost sector would.
    ///
    /// # Panics
    /// When there is no such file, or it is shorter.
    pub fn zero(&self, name: &str, range: Range<u64>) {
        self.damage(name, range, |byte| *byte = 0);
    }

    fn damage(&self, name: &str, range: Range<u64>, damage: impl Fn(&mut u8)) {
        let mut state = self.state.lock();
        let inode = state.names.inode(name).unwrap_or_else(|| panic!("no file {name}"));
        let (content, _) = state.content_mut(inode);
        let len = content.len() as u64;
        assert!(range.end <= len, "{name} has {len} bytes, {range:?} is not within");
        content.damage(range.start as usize..range.end as usize, damage);
    }

    /// Returns the bytes that a reader of `name` sees. Works on a disk that is down too.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn read_file(&self, name: &str) -> Vec<u8> {
        let state = self.state.lock();
        let inode = state.names.inode(name).unwrap_or_else(|| panic!("no file {name}"));
        state.content(inode).bytes().to_vec()
    }

    /// Returns all files with their directories in front, sorted. Works on a disk that is down too.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().names.files().map(|(name, _)| name.to_owned()).collect()
    }
}

impl Disk for SimDisk {
    fn create(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        let (dir, _) = split_name(name)?;
        let mut state = self.state.lock();
        let inode = state.change(Operation::Create, name, |state| {
            let refused = if !state.names.has_dir(dir) {
                Some(Errno::NOENT)
            } else if state.names.inode(name).is_some() || state.names.is_dir(name) {
                Some(Errno::EXIST)
            } else if state.free_bytes() == 0 || state.inodes().free == 0 {
                Some(Errno::NOSPC)
            } else {
                None
            };
            if let Some(errno) = refused {
                return Err(state.failed(Operation::Create, name, errno));
            }
            let inode = state.add_file();
            state.names.link(name, inode);
            Ok(inode)
        })?;
        Ok(SimFile::open(&self.state, &mut state, inode, name))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn File>, Error> {
        split_name(name)?;
        let mut state = self.state.lock();
        state.check_up(Operation::Open, name)?;
        let Some(inode) = state.names.inode(name) else {
            let errno = if state.names.is_dir(name) { Errno::ISDIR } else { Errno::NOENT };
            return Err(state.failed(Operation::Open, name, errno));
        };
        Ok(SimFile::open(&self.state, &mut state, inode, name))
    }

    fn list(&self, dir: &str) -> Result<Vec<String>, Error> {
        check_dir(dir)?;
        let state = self.state.lock();
        state.check_up(Operation::List, dir)?;
        Ok(state.names.within(dir))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        split_name(from)?;
        let (to_dir, _) = split_name(to)?;
        self.state.lock().change(Operation::Rename, from, |state| {
            let Some(inode) = state.names.inode(from).filter(|_| state.names.has_dir(to_dir))
            else {
                return Err(state.failed(Operation::Rename, from, Errno::NOENT));
            };
            if state.names.is_dir(to) {
                return Err(state.failed(Operation::Rename, from, Errno::ISDIR));
            }
            if from == to {
                return Ok(());
            }
            if let Some(replaced) = state.names.inode(to) {
                state.release(replaced);
            }
            state.names.rename(from, to, inode);
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        split_name(name)?;
        self.state.lock().change(Operation::Remove, name, |state| {
            let Some(inode) = state.names.inode(name) else {
                let errno = if state.names.is_dir(name) { Errno::ISDIR } else { Errno::NOENT };
                return Err(state.failed(Operation::Remove, name, errno));
            };
            state.release(inode);
            state.names.unlink(name);
            Ok(())
        })
    }

    fn make_dir(&self, dir: &str) -> Result<(), Error> {
        check_dir(dir)?;
        self.state.lock().change(Operation::MakeDir, dir, |state| {
            if state.names.inode(dir).is_some() {
                return Err(state.failed(Operation::MakeDir, dir, Errno::EXIST));
            }
            if !state.names.has_dir(dir) {
                state.names.make_dir(dir);
            }
            Ok(())
        })
    }

    fn sync_dir(&self, dir: &str) -> Result<(), Error> {
        check_dir(dir)?;
        self.state.lock().sync_dir(dir)
    }

    fn space(&self) -> Result<Space, Error> {
        let state = self.state.lock();
        state.check_up(Operation::Space, "")?;
        let (free_bytes, total_bytes) = (state.free_bytes(), state.total_bytes());
        Ok(Space { free_bytes, total_bytes, inodes: Some(state.inodes()) })
    }

    fn lock(&self) -> Result<Lock, Error> {
        let mut state = self.state.lock();
        state.check_up(Operation::Lock, LOCK_NAME)?;
        if state.locked == Locked::Yes {
            let holder_pid = Some(std::process::id());
            return Err(Error::Locked { path: state.shown.clone(), holder_pid });
        }
        state.locked = Locked::Yes;
        if state.names.inode(LOCK_NAME).is_none() {
            // The lock file is durable at once and its creation is not counted: its loss in a power
            // failure has no consequence that is worth a crash point.
            let inode = state.add_file();
            state.names.link_durably(LOCK_NAME, inode);
        }
        Ok(Lock::new(Unlock { state: Arc::clone(&self.state) }))
    }

    fn describe(&self) -> String {
        self.state.lock().shown.clone()
    }
}

struct Unlock {
    state: Arc<Mutex<SimState>>,
}

impl Drop for Unlock {
    fn drop(&mut self) {
        self.state.lock().locked = Locked::No;
    }
}
