//! Options of the embedded store.

use duly_core::Invalid;
use duly_store::{
    namespaces::NAMESPACES_MAX,
    query::{DiskRoom, InodeRoom},
};

use crate::{
    disk::{Inodes, Space},
    format::sorted_run,
    index::NAMESPACE_MAX,
};

mod memory;

pub use memory::limit as memory_limit;

/// Smallest segment.
pub const SEGMENT_BYTES_MIN: u64 = 64 * 1024;
/// Largest segment, limited by the offsets of index entries.
pub const SEGMENT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Free bytes that are kept by default on a disk of 10 GiB or more.
const MIN_FREE_BYTES: u64 = 2 << 30;
/// Divisor of the size of a smaller disk: this part of it is kept free by default.
const MIN_FREE_PART: u64 = 5;

/// Settings of an embedded store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of a journal segment, [`SEGMENT_BYTES_MIN`] to [`SEGMENT_BYTES_MAX`].
    pub segment_bytes: u64,
    /// Free bytes of the disk below which new timers are refused; `None` is 2 GiB, or a fifth of the
    /// disk if that is less.
    pub min_free_bytes: Option<u64>,
    /// Free space of the disk, in percent, below which new timers are refused.
    pub min_free_percent: u8,
    /// Most bytes of memory for the settings and the indexes of all namespaces (pending timers,
    /// tombstones, dead letters). Above it new timers and namespaces are refused.
    pub index_memory_max_bytes: u64,
    /// Most namespaces.
    pub namespaces_max: u64,
    /// Most numbers of namespaces: 2^24 - 1, except in tests.
    #[doc(hidden)]
    pub namespace_numbers: u32,
    /// Most requests that wait for the engine.
    pub queue_max: usize,
    /// Growth of the journal, in bytes, after which a checkpoint is taken. If the last checkpoint was
    /// larger than this, its size counts instead. If it was larger than 1 GiB, half its size counts, but
    /// at least 1 GiB.
    pub checkpoint_bytes: u64,
    /// Bytes of the newest sealed segments that are not rewritten. A timer that ends before its record
    /// is older than that is never written a second time.
    pub young_bytes: u64,
    /// Most timers of the near horizon in memory, or 1/16 of the pending timers if that is more.
    pub near_max: usize,
    /// Most due timers of one lane in memory, or 1/32 of them if that is more (at most 524,288). The
    /// rest is found again when these are gone.
    pub overdue_max: usize,
    /// Bytes of the chunks in which the space of sorted runs is deallocated: a power of two from 4096 to
    /// 1 MiB.
    #[doc(hidden)]
    pub chunk_bytes: u64,
    /// Time between two passes of the auditor, in milliseconds.
    pub audit_rest_ms: u64,
    /// Reaction to a jump of the wall clock ahead.
    pub on_clock_jump: OnClockJump,
    /// Seed of the random bits, for tests; `None` takes them from the machine.
    pub random_seed: Option<u64>,
}

/// Reaction when the wall clock has stepped more than a minute ahead since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnClockJump {
    /// Due timers fire, as always.
    #[default]
    Fire,
    /// The store continues with its own time, and is not ready, until the clock is back or the store is
    /// opened again.
    Hold,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * 1024 * 1024,
            min_free_bytes: None,
            min_free_percent: 5,
            index_memory_max_bytes: memory_limit() / 10 * 6,
            namespaces_max: NAMESPACES_MAX,
            namespace_numbers: NAMESPACE_MAX,
            queue_max: 100_000,
            checkpoint_bytes: 128 << 20,
            young_bytes: 512 << 20,
            near_max: 1_000_000,
            overdue_max: 262_144,
            chunk_bytes: sorted_run::CHUNK_BYTES,
            audit_rest_ms: 60_000,
            on_clock_jump: OnClockJump::Fire,
            random_seed: None,
        }
    }
}

impl Options {
    /// Returns the space that is kept free on a disk.
    pub(crate) const fn reserve(&self) -> Reserve {
        Reserve { bytes: self.min_free_bytes, percent: self.min_free_percent }
    }

    /// Checks the bounds of all options.
    pub fn check(&self) -> Result<(), Invalid> {
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes)
            || !self.segment_bytes.is_multiple_of(4096)
        {
            let allowed =
                format!("a multiple of 4096 from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX} bytes");
            return Err(Invalid::new("store.segment_bytes", self.segment_bytes, allowed));
        }
        let chunk_bytes = 4096..=sorted_run::CHUNK_BYTES;
        if !self.chunk_bytes.is_power_of_two() || !chunk_bytes.contains(&self.chunk_bytes) {
            let allowed = "a power of two from 4096 to 1048576 bytes";
            return Err(Invalid::new("store.chunk_bytes", self.chunk_bytes, allowed));
        }
        if self.min_free_percent > 90 {
            let allowed = "an integer from 0 to 90";
            return Err(Invalid::new("store.min_free_percent", self.min_free_percent, allowed));
        }
        Ok(())
    }
}

/// Inodes that are kept free: enough for a journal of 64 GiB.
const INODES: u64 = 1_024;
/// If the file system has few inodes, at most one of this many is kept free.
const INODES_PART: u64 = 8;

/// The reserve: space that is kept free on a file system, for segments, checkpoints and sorted runs.
/// Below it only necessary writes are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reserve {
    bytes: Option<u64>,
    percent: u8,
}

impl Reserve {
    /// Returns the free space of a file system, and the reserve of it.
    pub(crate) fn of(self, space: Space) -> DiskRoom {
        let by_share = space.total_bytes / 100 * u64::from(self.percent);
        let inodes = space.inodes.map(|Inodes { free, total }| {
            let reserve = INODES.min(total / INODES_PART);
            InodeRoom { free, reserve }
        });
        let by_size = || MIN_FREE_BYTES.min(space.total_bytes / MIN_FREE_PART);
        let reserve_bytes = self.bytes.unwrap_or_else(by_size).max(by_share);
        DiskRoom { free_bytes: space.free_bytes, reserve_bytes, inodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_of_a_small_disk_is_a_part_of_it() {
        const GIB: u64 = 1 << 30;
        let of = |options: Options, total_bytes| {
            let space = Space { free_bytes: 0, total_bytes, inodes: None };
            options.reserve().of(space).reserve_bytes
        };
        for (total, expected) in [
            (GIB / 2, GIB / 10),
            (GIB, GIB / 5),
            (5 * GIB, GIB),
            (10 * GIB, 2 * GIB),
            (20 * GIB, 2 * GIB),
            (100 * GIB, 5 * GIB),
        ] {
            // The share of 5 percent is rounded.
            assert!(of(Options::default(), total).abs_diff(expected) < 100, "{total}");
        }
        let typed = Options { min_free_bytes: Some(2 * GIB), ..Options::default() };
        assert_eq!(of(typed, GIB), 2 * GIB, "a number that was set is kept as it is");
    }
}
