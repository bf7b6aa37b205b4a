//! A file whose failed sync stays failed.
//!
//! Two threads sync the active segment: the syncer after every commit, and the engine when it rolls. The
//! kernel reports a write-back error once and drops what it could not write. So the other thread's sync
//! would succeed and acknowledge lost bytes. Therefore:
//!
//! 1. A failed sync makes every later one fail.
//! 2. Syncs wait for each other.
//! 3. If a sync failed for lack of space, the bytes that may be lost can be written again
//!    ([`FailedSyncGuard::rewrite`]). Then syncs count again.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Error, File, Operation};

/// Wraps a file.
pub(super) fn guard(file: Arc<dyn File>) -> Arc<FailedSyncGuard> {
    Arc::new(FailedSyncGuard { file, state: Mutex::new(SyncState::Good) })
}

/// A file whose failed sync stays failed.
#[derive(Debug)]
pub(crate) struct FailedSyncGuard {
    /// For everything but a sync.
    pub(super) file: Arc<dyn File>,
    state: Mutex<SyncState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SyncState {
    Good,
    /// A sync found no space.
    NoSpace,
    Failed,
}

impl SyncState {
    /// Returns the state after a sync, or the write before one, that failed with this error.
    const fn after(error: &Error) -> Self {
        match error {
            Error::NoSpace { .. } => Self::NoSpace,
            _ => Self::Failed,
        }
    }
}

impl FailedSyncGuard {
    pub(crate) fn sync_data(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        if *state == SyncState::NoSpace {
            let name = self.file.name().to_owned();
            return Err(Error::NoSpace { operation: Operation::Sync, name });
        }
        self.check(*state)?;
        self.file.sync_data().inspect_err(|error| *state = SyncState::after(error))
    }

    fn check(&self, state: SyncState) -> Result<(), Error> {
        if state == SyncState::Failed {
            let what = "an earlier sync failed";
            return Err(Error::other(Operation::Sync, self.file.name(), what));
        }
        Ok(())
    }

    /// Writes everything again that no sync has made durable, and syncs it. After a sync without space
    /// this makes the bytes durable.
    pub(super) fn rewrite(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let mut state = self.state.lock();
        self.check(*state)?;
        let written = self.file.write_at(offset, bytes).and_then(|()| self.file.sync_data());
        *state = written.as_ref().map_or_else(SyncState::after, |()| SyncState::Good);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, Fault, SimDisk};

    #[test]
    fn p1_a_sync_after_a_failed_sync_fails() {
        let disk = SimDisk::new(1);
        let file = guard(disk.create("a").unwrap());
        file.file.write_at(0, b"first").unwrap();
        file.sync_data().unwrap();
        disk.plan(Fault::ErrorAtSync(1));
        file.file.write_at(0, b"second").unwrap();
        assert!(file.sync_data().is_err());
        let ops = disk.ops();
        assert!(file.sync_data().is_err());
        assert_eq!(disk.ops(), ops, "the disk is not asked again");
        let other = disk.open("a").unwrap();
        assert!(other.sync_data().is_ok(), "and it would have said yes");
    }
}
