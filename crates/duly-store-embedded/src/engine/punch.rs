//! Holes in runs: the room of what has fired comes back before the whole file has.
//!
//! ```text
//!   checkpoint taken ─► look through the runs, some a step ─► background: punch ─► take note ─┐
//!                        ▲                                                                    │
//!                        └────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Invariants: a piece goes when nothing has pointed into it since before the older kept checkpoint
//! began ([`crate::files`]), so neither checkpoint leads into a hole; not while locations move into
//! new runs, for those are still empty; not while a backup copies, and never in a file that a backup
//! shares. Nothing is synced: a hole that a power cut undoes is only room that is given back later.

use std::{ops::Range, sync::Arc};

use crate::{
    disk::{self, Disk, File, Punched, room},
    files::FileId,
};

use super::{Engine, work::Pace};

/// Slots that one step looks at.
const SLOTS_PER_STEP: usize = 64;
/// Bytes that one piece of background work gives back, but for the last file of it.
const BYTES_AT_ONCE: u64 = 64 << 20;

/// Where the search for what can go is.
#[derive(Debug, Default)]
pub(super) struct Puncher {
    /// The next slot to be looked at; `None`: all were.
    next: Option<usize>,
    is_away: bool,
}

impl Puncher {
    /// Another checkpoint was taken, or nothing keeps the files any more: all runs are looked at.
    pub(super) const fn begin(&mut self) {
        self.next = Some(0);
    }
}

/// Ranges of a run that can go.
struct Dead {
    slot: u16,
    id: FileId,
    file: Arc<dyn File>,
    ranges: Vec<Range<u64>>,
}

/// What became of them.
struct Gone {
    slot: u16,
    id: FileId,
    ranges: Vec<Range<u64>>,
    punched: Punched,
}

impl Engine {
    /// One step: looks through some runs, and has what can go of them punched out.
    pub(super) fn punch_step(&mut self) {
        let (Some(first), Some(oldest)) = (self.puncher.next, self.checkpoints.oldest()) else {
            return;
        };
        if self.puncher.is_away || self.backups.is_held() || self.rewriter.is_moving() {
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
                dead.push(Dead { slot, id: file.id, file: Arc::clone(&file.file), ranges });
            }
            next += 1;
        }
        self.puncher.next = (next < self.files.slot_count()).then_some(next);
        self.busy |= self.puncher.next.is_some();
        if dead.is_empty() {
            return;
        }
        self.puncher.is_away = true;
        let (disk, pace) = (Arc::clone(&self.disk), self.pace);
        self.in_background(
            move || punch(disk.as_ref(), dead, pace),
            |engine, gone| engine.punched(gone),
        );
    }

    fn punched(&mut self, (gone, failed): (Vec<Gone>, Option<disk::Error>)) {
        self.puncher.is_away = false;
        for Gone { slot, id, ranges, punched } in gone {
            match punched {
                Punched::Done => self.files.punched(slot, id, &ranges),
                Punched::Unsupported if self.files.can_punch() => {
                    tracing::info!("the file system has no holes: files are freed whole only");
                    self.files.cannot_punch();
                }
                Punched::Unsupported => {}
            }
        }
        if let Some(error) = failed {
            // They are tried again after the next checkpoint.
            tracing::warn!(%error, "room that nothing needs could not be given back");
            self.puncher.next = None;
        }
        self.busy = true;
    }
}

/// Answers what was done up to the first error.
fn punch(disk: &dyn Disk, dead: Vec<Dead>, pace: Pace) -> (Vec<Gone>, Option<disk::Error>) {
    let mut throttle = pace.throttle();
    let mut gone = Vec::new();
    for Dead { slot, id, file, ranges } in dead {
        let mut one = Gone { slot, id, ranges: Vec::new(), punched: Punched::Done };
        match disk.is_shared(&id.name()) {
            Ok(false) => {}
            Ok(true) => continue,
            // It went as a whole meanwhile.
            Err(error) if error.is_not_found() => continue,
            Err(error) => return (gone, Some(error)),
        }
        for range in ranges.into_iter().flat_map(room::parts) {
            let bytes = range.end - range.start;
            match file.punch_hole(range.start, bytes) {
                Ok(Punched::Done) => one.ranges.push(range),
                Ok(Punched::Unsupported) => {
                    one.punched = Punched::Unsupported;
                    gone.push(one);
                    return (gone, None);
                }
                Err(error) => {
                    gone.push(one);
                    return (gone, Some(error));
                }
            }
            throttle(bytes);
        }
        gone.push(one);
    }
    (gone, None)
}
