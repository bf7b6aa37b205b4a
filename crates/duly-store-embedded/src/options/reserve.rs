//! Room that is kept free on a file system, for segments, checkpoints and sorted runs.

use duly_store::query::{DiskRoom, InodeRoom};

use crate::disk::{Inodes, Space};

/// Inodes that are kept free: those of a journal of 64 GiB.
const INODES: u64 = 1_024;
/// Of a file system with few inodes, this part of them is kept at most.
const INODES_PART: u64 = 8;

/// Free room below which nothing is written that can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reserve {
    pub(super) bytes: u64,
    pub(super) percent: u8,
}

impl Reserve {
    /// Returns what is free on a file system, and what is kept of it.
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
