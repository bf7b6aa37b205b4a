//! The reserve: space that is kept free on a file system, for segments, checkpoints and sorted runs.

use duly_store::query::{DiskRoom, InodeRoom};

use crate::disk::{Inodes, Space};

/// Inodes that are kept free: enough for a journal of 64 GiB.
const INODES: u64 = 1_024;
/// If the file system has few inodes, at most one of this many is kept free.
const INODES_PART: u64 = 8;

/// Free space below which only necessary writes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reserve {
    pub(super) bytes: u64,
    pub(super) percent: u8,
}

impl Reserve {
    /// Returns the free space of a file system, and the reserve of it.
    pub(crate) fn of(self, space: Space) -> DiskRoom {
        let by_share = space.total_bytes / 100 * u64::from(self.percent);
        let inodes = space.inodes.map(|Inodes { free, total }| {
            let reserve = INODES.min(total / INODES_PART);
            InodeRoom { free, reserve }
        });
        let reserve_bytes = self.bytes.max(by_share);
        DiskRoom { free_bytes: space.free_bytes, reserve_bytes, inodes }
    }
}
