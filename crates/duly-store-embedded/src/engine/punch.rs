//! Holes in sorted runs: free the space of records that nothing needs, before the whole file can be
//! removed.
//!
//! ```text
//!   checkpoint taken ─► walk over the runs, some a step ─► background: punch ─► record the holes ─┐
//!                        ▲                                                                        │
//!                        └────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! What must stay true:
//!
//! 1. A piece is freed when no entry has pointed into it since before the older kept checkpoint began
//!    ([`crate::files`]). So neither checkpoint leads into a hole.
//! 2. Nothing is freed while locations move into new runs, because those are still empty.
//! 3. Nothing is freed while a backup copies, and never in a file that a backup shares.
//!
//! Nothing is synced: a hole that a power cut undoes only delays the release of its space.

use std::{ops::Range, sync::Arc};

use crate::{
    disk::{self, Disk, File, Punched, deallocate},
    files::FileId,
};

use super::{Engine, background_work::Pace};

/// Slots that one step visits.
const SLOTS_PER_STEP: usize = 64;
/// Bytes that one background job frees, plus those of its last file.
const BYTES_AT_ONCE: u64 = 64 << 20;

/// State of the walk over the runs.
#[derive(Debug, Default)]
pub(super) struct Puncher {
    /// Next slot to visit; `None`: all were visited.
    pub(super) next: Option<usize>,
    is_under_way: bool,
}

/// Ranges of a run that can be freed.
struct DeadRanges {
    slot: u16,
    id: FileId,
    file: Arc<dyn File>,
    ranges: Vec<Range<u64>>,
}

/// Ranges of a run that were freed.
type FreedRanges = (u16, FileId, Vec<Range<u64>>);

impl Engine {
    /// Runs one step: visits some runs, and punches out the ranges that can be freed.
    pub(super) fn punch_step(&mut self) {
        let (Some(first), Some(oldest)) = (self.puncher.next, self.checkpoints.oldest()) else {
            return;
        };
        if self.puncher.is_under_way || self.backups.is_held() || self.rewriter.is_moving() {
            return;
        }
        if !self.files.can_punch() {
            self.puncher.next = None;
            return;
        }
        let end = (first + SLOTS_PER_STEP).min(self.files.slot_count());
        let mut bytes = 0;
        let mut dead = Vec::new();
        let mut next = first;
        while next < end && bytes < BYTES_AT_ONCE {
            let slot = u16::try_from(next).expect("slots have 16 bits");
            let ranges = self.files.removable(slot, oldest.number);
            bytes += ranges.iter().map(|range| range.end - range.start).sum::<u64>();
            if let Some(file) = self.files.get(slot).filter(|_| !ranges.is_empty()) {
                dead.push(DeadRanges { slot, id: file.id, file: Arc::clone(&file.file), ranges });
            }
            next += 1;
        }
        self.puncher.next = (next < self.files.slot_count()).then_some(next);
        self.busy |= self.puncher.next.is_some();
        if dead.is_empty() {
            return;
        }
        self.puncher.is_under_way = true;
        let (disk, pace) = (Arc::clone(&self.disk), self.pace);
        self.in_background(
            move || punch(disk.as_ref(), dead, pace),
            |engine, gone| engine.punched(gone),
        );
    }

    fn punched(&mut self, (gone, result): (Vec<FreedRanges>, disk::Result<Punched>)) {
        self.puncher.is_under_way = false;
        for (slot, id, ranges) in gone {
            self.files.punched(slot, id, &ranges);
        }
        match result {
            Ok(Punched::Done) => {}
            Ok(Punched::Unsupported) => {
                tracing::info!(
                    "file system does not support holes; space is freed by whole files only"
                );
                self.files.cannot_punch();
            }
            // The ranges are tried again after the next checkpoint.
            Err(error) => {
                tracing::warn!(
                    %error,
                    "unneeded disk space could not be deallocated, will retry after the next \
                     checkpoint"
                );
                self.puncher.next = None;
            }
        }
        self.busy = true;
    }
}

/// Returns what was freed, and the result of the last attempt.
fn punch(
    disk: &dyn Disk,
    dead: Vec<DeadRanges>,
    pace: Pace,
) -> (Vec<FreedRanges>, disk::Result<Punched>) {
    let mut throttle = pace.throttle();
    let mut gone = Vec::new();
    for DeadRanges { slot, id, file, ranges } in dead {
        match disk.is_shared(&id.name()) {
            Ok(false) => {}
            Ok(true) => continue,
            // The whole file was removed meanwhile.
            Err(error) if error.is_not_found() => continue,
            Err(error) => return (gone, Err(error)),
        }
        let (mut freed, mut result) = (Vec::new(), Ok(Punched::Done));
        for range in ranges.into_iter().flat_map(deallocate::deallocation_ranges) {
            let bytes = range.end - range.start;
            result = file.punch_hole(range.start, bytes);
            if !matches!(result, Ok(Punched::Done)) {
                break;
            }
            freed.push(range);
            throttle(bytes);
        }
        gone.push((slot, id, freed));
        if !matches!(result, Ok(Punched::Done)) {
            return (gone, result);
        }
    }
    (gone, Ok(Punched::Done))
}
