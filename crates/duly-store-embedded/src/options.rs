//! Options of the embedded store.

use duly_core::Invalid;
use duly_store::namespaces::NAMESPACES_MAX;

use crate::{format::run, index::NAMESPACE_MAX};

mod memory;
mod reserve;

pub(crate) use reserve::Reserve;

pub use memory::limit as memory_limit;

/// Smallest segment.
pub const SEGMENT_BYTES_MIN: u64 = 64 * 1024;
/// Largest segment: offsets of an index entry end there.
pub const SEGMENT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// How an embedded store is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Bytes of a journal segment, [`SEGMENT_BYTES_MIN`] to [`SEGMENT_BYTES_MAX`].
    pub segment_bytes: u64,
    /// New timers are refused below this many free bytes.
    pub min_free_bytes: u64,
    /// New timers are refused below this share of free space, in percent.
    pub min_free_percent: u8,
    /// New timers and namespaces are refused when the indexes of all namespaces (pending timers, tombstones,
    /// dead letters) and their settings take more memory than this.
    pub index_memory_max_bytes: u64,
    /// Namespaces that there are at most; one more is refused.
    pub namespaces_max: u64,
    /// Numbers of namespaces, 2^24 - 1 but for tests.
    #[doc(hidden)]
    pub namespace_numbers: u32,
    /// Requests that may wait for the engine.
    pub queue_max: usize,
    /// A checkpoint is taken when the journal has grown by so many bytes, or by as many as the last
    /// checkpoint had if that is more; of one of more than 1 GiB, by half as many, at least 1 GiB.
    pub checkpoint_bytes: u64,
    /// Bytes of the newest sealed segments that are left as they are: what is cancelled or fires
    /// before it is older is never written a second time.
    pub young_bytes: u64,
    /// Timers that the calendar of what is near may hold, where one of 16 pending is less.
    pub near_max: usize,
    /// Due timers of one lane that are held in memory, or one of 32 where that is more (at most
    /// 524,288); the rest is found again when they are gone.
    pub overdue_max: usize,
    /// Room in runs is given back in pieces of so many bytes, a power of two from 4096 to 1 MiB.
    #[doc(hidden)]
    pub chunk_bytes: u64,
    /// Time between two passes of the auditor.
    pub audit_rest_ms: u64,
    /// What comes when the wall clock jumps ahead.
    pub on_clock_jump: OnClockJump,
    /// Fixes the random bits, for tests; `None` takes them from the machine.
    pub random_seed: Option<u64>,
}

/// What comes when the wall clock has stepped more than a minute ahead since the opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnClockJump {
    /// What is due fires, as always.
    #[default]
    Fire,
    /// The store goes on by the time that it had, and is not ready, until the clock is back or the
    /// store is opened again.
    Hold,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 64 * 1024 * 1024,
            min_free_bytes: 2 << 30,
            min_free_percent: 5,
            index_memory_max_bytes: memory_limit() / 10 * 6,
            namespaces_max: NAMESPACES_MAX,
            namespace_numbers: NAMESPACE_MAX,
            queue_max: 100_000,
            checkpoint_bytes: 128 << 20,
            young_bytes: 512 << 20,
            near_max: 1_000_000,
            overdue_max: 262_144,
            chunk_bytes: run::CHUNK_BYTES,
            audit_rest_ms: 60_000,
            on_clock_jump: OnClockJump::Fire,
            random_seed: None,
        }
    }
}

impl Options {
    /// Returns the room that is kept free on a disk.
    pub(crate) const fn reserve(&self) -> Reserve {
        Reserve { bytes: self.min_free_bytes, percent: self.min_free_percent }
    }

    /// Checks every bound.
    pub fn check(&self) -> Result<(), Invalid> {
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes)
            || !self.segment_bytes.is_multiple_of(4096)
        {
            let allowed =
                format!("a multiple of 4096 from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX} bytes");
            return Err(Invalid::new("store.segment_bytes", self.segment_bytes, allowed));
        }
        let chunk_bytes = 4096..=run::CHUNK_BYTES;
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
