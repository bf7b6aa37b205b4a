//! What a backup copies, and holding it meanwhile.
//!
//! ```text
//!   pin ─► next checkpoint taken ─► Plan ─► (somebody links and copies) ─► unpin
//! ```
//!
//! A backup is a checkpoint, every file that it points into, and the journal from its replay point up
//! to what is durable at that moment. Invariant: while a plan is held no file goes and no checkpoint
//! is dropped; what has its name then is never written again, except the active segment behind its
//! durable end.

use std::{collections::BTreeSet, sync::mpsc::Sender};

use duly_store::{Error, Result};

use crate::{disk, files::FileId, options::Reserve};

use super::{Engine, checkpoint::Kept, work::Pace};

/// What makes up a backup.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Number of the checkpoint.
    pub(crate) checkpoint: u64,
    /// Runs and sealed segments.
    pub(crate) whole: Vec<FileId>,
    /// The active segment, and where what is durable of it ends.
    pub(crate) active: FileId,
    pub(crate) active_end: u64,
    /// The closing frame behind it, unless there is one already.
    pub(crate) closing: Vec<u8>,
    /// Newest frame that is in it.
    pub(crate) lsn: u64,
    /// How fast it may be copied.
    pub(crate) pace: Pace,
    /// Room that it must leave free where it goes.
    pub(crate) reserve: Reserve,
}

/// Backups that wait or are being copied.
#[derive(Debug, Default)]
pub(super) struct Backups {
    waiting: Vec<Sender<Result<Plan>>>,
    /// Plans that are held.
    held: usize,
}

impl Backups {
    /// Whether a checkpoint is wanted for one.
    pub(super) const fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether nothing may be removed.
    pub(super) const fn is_held(&self) -> bool {
        self.held > 0
    }

    /// No checkpoint can be had.
    pub(super) fn fail(&mut self, reason: &str) {
        for reply in self.waiting.drain(..) {
            let reason = format!("no checkpoint could be taken for the backup: {reason}");
            let retry_after = duly_core::Millis::from_secs(10);
            drop(reply.send(Err(Error::Unavailable { reason, retry_after })));
        }
    }
}

impl Engine {
    /// Has a plan answered as soon as a checkpoint was taken; who got it calls [`Engine::unpin`].
    pub(crate) fn pin(&mut self, reply: Sender<Result<Plan>>) {
        self.backups.waiting.push(reply);
        self.busy = true;
    }

    /// A plan is no longer held.
    pub(crate) fn unpin(&mut self) {
        self.backups.held -= 1;
        if !self.backups.is_held() {
            self.drop_old_checkpoints();
            self.reclaim();
        }
    }

    /// The checkpoint for which backups wait has its name.
    pub(super) fn answer_backups(&mut self, taken: Kept) {
        for reply in std::mem::take(&mut self.backups.waiting) {
            let plan = self.plan(taken);
            // Whoever does not listen any more holds nothing.
            self.backups.held += usize::from(reply.send(Ok(plan)).is_ok());
        }
    }

    fn plan(&self, taken: Kept) -> Plan {
        let (end, lsn) = self.journal.durable();
        let active = FileId::Segment(end.sequence);
        // Nothing has pointed at these since before the checkpoint began: some may be going.
        let idle: BTreeSet<u16> = self.files.reclaimable(taken.number).into_iter().collect();
        let is_tail = |id| matches!(id, FileId::Segment(sequence) if sequence >= taken.sequence);
        let files = self.files.iter().map(|(slot, file, _)| (slot, file.id));
        let whole = files
            .filter(|(slot, id)| *id != active && (is_tail(*id) || !idle.contains(slot)))
            .map(|(_, id)| id);
        Plan {
            checkpoint: taken.number,
            whole: whole.collect(),
            active,
            active_end: end.offset,
            closing: self.journal.closing_frame_of_copy(self.now.steady_ms).unwrap_or_default(),
            lsn,
            pace: self.pace,
            reserve: self.options.reserve(),
        }
    }

    /// A checkpoint failed: backups do not wait for the next.
    pub(super) fn fail_backups(&mut self, error: &disk::Error) {
        self.backups.fail(&error.to_string());
    }
}
