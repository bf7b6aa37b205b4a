//! Limits of the machine: free disk space, and memory of the index (P10).
//!
//! Past a limit, new timers are refused with a remedy. Cancels, settles and reads continue.

use duly_core::Millis;
use duly_store::{
    Limit, Refusal,
    query::{DiskRoom, InodeRoom},
};

use crate::disk;

use super::{Engine, background_work::Pace};

/// Time between two checks of the disk.
const CHECK_EVERY_MS: u64 = 1_000;
/// Multiple of the young generation (at least a segment) that may wait for the rewriter before it is no
/// longer throttled.
const BEHIND: u64 = 4;
/// Multiple of the young generation that may wait for the rewriter before new timers are refused.
const FAR_BEHIND: u64 = 32;

/// State of the machine's limits.
#[derive(Debug, Default)]
pub(super) struct Space {
    pub(super) checked_ms: Option<u64>,
    /// Limit at which new timers are refused, and the remedy.
    low: Option<(Limit, String)>,
    /// Disk space at the last check.
    pub(super) room: Option<DiskRoom>,
    /// Time until which no segment is tried, by the boot-time clock: each try costs a sync and uses up
    /// free space.
    full_until_ms: u64,
    /// `true`: the spare segment for the next roll has been asked for.
    spare_asked: bool,
    /// `true`: there was no space for the spare. Then the rest of the active segment is reserved for
    /// cancels and settles.
    spare_failed: bool,
    /// `true`: the rewriter is behind.
    is_behind: bool,
}

impl Space {
    /// Returns `true` if a segment could not be made a moment ago.
    pub(super) const fn is_full(&self, now_ms: u64) -> bool {
        now_ms < self.full_until_ms
    }

    /// Records that a segment was made, or can be.
    pub(super) const fn note_segment(&mut self) {
        (self.spare_asked, self.spare_failed) = (false, false);
    }

    /// Records that there was no space for a segment.
    pub(super) fn note_full(&mut self, now_ms: u64) {
        self.full_until_ms = now_ms + CHECK_EVERY_MS;
        self.low = Some((Limit::Disk, DISK_FULL.into()));
    }
}

const DISK_FULL: &str = "the disk is full: no journal segment can be made; free space (bytes and inodes), or \
                         move the data directory to a larger disk";

pub(super) fn disk_full() -> Refusal {
    let retry_after = Some(Millis::from_secs(10));
    Refusal::Exhausted { limit: Limit::Disk, reason: DISK_FULL.into(), retry_after }
}

impl Engine {
    pub(super) fn check_space(&mut self) {
        let now_ms = self.now.boot_ms;
        let fresh = self
            .space
            .checked_ms
            .is_some_and(|checked| now_ms.saturating_sub(checked) < CHECK_EVERY_MS);
        if fresh {
            return;
        }
        self.space.checked_ms = Some(now_ms);
        let index_bytes = self.namespaces.sums.index_bytes;
        let index_max = self.options.index_memory_max_bytes;
        self.space.room = self.room();
        if self.space.spare_failed && self.space.room.is_some_and(|room| self.fits_spare(room)) {
            self.space.note_segment();
        }
        self.space.low = if self.space.spare_failed {
            Some((Limit::Disk, DISK_FULL.into()))
        } else if index_bytes > index_max {
            let reason = format!(
                "the index takes {index_bytes} bytes of memory and store.index_memory_max allows \
                 {index_max}; raise it, or free memory: shorten the retention or \
                 limits.max_retained of namespaces, purge dead letters, cancel timers, delete \
                 namespaces"
            );
            Some((Limit::Memory, reason))
        } else {
            let low = self.low_disk().or_else(|| self.too_much_to_rewrite());
            low.map(|reason| (Limit::Disk, reason))
        };
    }

    /// Checks the backlog of the rewriter. A large one ends its throttling; a larger one refuses new
    /// timers, and the reason is returned. Both change so slowly that one check per second is enough.
    fn too_much_to_rewrite(&mut self) -> Option<String> {
        let backlog_bytes = self.rewrite_backlog_bytes();
        let young_bytes = self.options.young_bytes.max(self.options.segment_bytes);
        self.space.is_behind = backlog_bytes > young_bytes.saturating_mul(BEHIND);
        (backlog_bytes > young_bytes.saturating_mul(FAR_BEHIND)).then(|| {
            format!(
                "{backlog_bytes} bytes of the journal wait to be rewritten, more than {FAR_BEHIND} \
                 times store.young_bytes: the disk does not keep up with the rate of new timers; \
                 schedule more slowly, or move the data directory to a faster disk"
            )
        })
    }

    /// Returns the speed at which background work may write at present.
    pub(super) const fn background_pace(&self) -> Pace {
        if self.space.is_behind { Pace::Unlimited } else { self.pace }
    }

    fn room(&self) -> Option<DiskRoom> {
        Some(self.options.reserve().of(self.disk.space().ok()?))
    }

    /// Returns `true` if it is worth another try to make the spare segment.
    fn fits_spare(&self, room: DiskRoom) -> bool {
        room.free_bytes >= self.options.segment_bytes
            && room.inodes.is_none_or(|inodes| inodes.free > 0)
    }

    fn low_disk(&self) -> Option<String> {
        let DiskRoom { free_bytes, reserve_bytes, inodes } = self.space.room?;
        if free_bytes < reserve_bytes {
            return Some(format!(
                "the disk has {free_bytes} bytes free and Duly keeps {reserve_bytes} in reserve \
                 (store.min_free_bytes, store.min_free_percent), so new timers are refused; free \
                 space, or move the data directory"
            ));
        }
        let InodeRoom { free, reserve } = inodes?;
        (free < reserve).then(|| {
            format!(
                "the file system has {free} inodes free and Duly keeps {reserve} in reserve (every \
                 file takes one: df -i), so new timers are refused; remove files, or move the data \
                 directory"
            )
        })
    }

    /// Refuses a new timer if a limit of the machine is reached.
    pub(super) fn admit_new(&self) -> Result<(), Refusal> {
        match &self.space.low {
            None => Ok(()),
            Some((limit, reason)) => Err(Refusal::Exhausted {
                limit: *limit,
                reason: reason.clone(),
                retry_after: Some(Millis::from_secs(10)),
            }),
        }
    }

    /// Returns the reason for which new timers are refused, if they are.
    pub(crate) fn low_space(&self) -> Option<&str> {
        self.space.low.as_ref().map(|(_, reason)| reason.as_str())
    }

    /// Records that the spare segment was made, or could not be.
    pub(crate) fn spare_made(&mut self, made: disk::Result<()>) {
        self.space.spare_failed = match made {
            Ok(()) => false,
            Err(error) => {
                tracing::warn!(
                    %error,
                    "spare journal segment could not be written; the next roll creates a new file"
                );
                error.is_no_space()
            }
        };
        self.space.checked_ms = None;
        self.check_space();
    }

    /// Returns `true`, once for each segment, if a spare should be written. That is so when the active
    /// segment is in real use, so that a store of a few timers does not take twice the disk space.
    pub(crate) fn take_wants_spare(&mut self) -> bool {
        let wants = !self.space.spare_asked && self.journal.active_is_begun();
        self.space.spare_asked |= wants;
        wants
    }

    /// Returns the bytes used of the active segment, which pace the writing of its spare.
    pub(crate) const fn active_segment_bytes(&self) -> u64 {
        self.journal.end
    }
}
