//! Backups: decides which files to copy, and keeps them until the copy is complete.
//!
//! ```text
//!   pin ─► next checkpoint taken ─► Plan ─► (the caller links and copies) ─► unpin
//! ```
//!
//! A backup is a checkpoint, every file that it points into, and the journal from its replay point up to
//! the durable end at that moment. While a plan is held:
//!
//! 1. No file is removed, and no checkpoint is dropped.
//! 2. A file of the plan is not written any more, except the active segment after its durable end.

use std::{collections::BTreeSet, sync::mpsc::Sender};

use duly_store::{Error, Result};

use crate::{files::FileId, options::Reserve};

use super::{Engine, background_work::Pace, checkpoint::KeptCheckpoint};

/// Contents of a backup.
#[derive(Debug)]
pub(crate) struct BackupPlan {
    /// Number of the checkpoint.
    pub(crate) checkpoint: u64,
    /// Sorted runs and sealed segments.
    pub(crate) whole: Vec<FileId>,
    /// Active segment, and the end of its durable part.
    pub(crate) active: FileId,
    pub(crate) active_end: u64,
    /// Closing frame to write after that end, unless it is there already.
    pub(crate) closing: Vec<u8>,
    /// Newest frame of the backup.
    pub(crate) lsn: u64,
    /// Speed at which the copy may be written.
    pub(crate) pace: Pace,
    /// Space that the copy must leave free at its target.
    pub(crate) reserve: Reserve,
}

/// Backups that wait for a checkpoint or are being copied.
#[derive(Debug, Default)]
pub(super) struct Backups {
    waiting: Vec<Sender<Result<BackupPlan>>>,
    /// Number of plans that are held.
    held: usize,
}

impl Backups {
    /// Returns `true` if a backup waits for a checkpoint.
    pub(super) const fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns `true` if no file may be removed.
    pub(super) const fn is_held(&self) -> bool {
        self.held > 0
    }

    /// Fails the backups that wait: no checkpoint can be taken.
    pub(super) fn fail(&mut self, reason: &str) {
        for reply in self.waiting.drain(..) {
            let reason = format!("no checkpoint could be taken for the backup: {reason}");
            let retry_after = duly_core::Millis::from_secs(10);
            drop(reply.send(Err(Error::Unavailable { reason, retry_after })));
        }
    }
}

impl Engine {
    /// Sends a plan to `reply` after the next checkpoint. Its receiver calls [`Engine::unpin`].
    pub(crate) fn pin(&mut self, reply: Sender<Result<BackupPlan>>) {
        self.backups.waiting.push(reply);
        self.busy = true;
    }

    /// Releases a plan.
    pub(crate) fn unpin(&mut self) {
        self.backups.held -= 1;
        if !self.backups.is_held() {
            self.drop_old_checkpoints();
            self.reclaim();
        }
    }

    /// Sends plans to the backups that waited for this checkpoint.
    pub(super) fn reply_to_backups(&mut self, taken: KeptCheckpoint) {
        for reply in std::mem::take(&mut self.backups.waiting) {
            let plan = self.plan(taken);
            // A receiver that has gone holds no plan.
            self.backups.held += usize::from(reply.send(Ok(plan)).is_ok());
        }
    }

    fn plan(&self, taken: KeptCheckpoint) -> BackupPlan {
        let (end, lsn) = (self.journal.durable, self.journal.durable_lsn());
        let active = FileId::Segment(end.sequence);
        // Nothing has pointed at these files since before the checkpoint began: some may be under
        // removal.
        let idle: BTreeSet<u16> = self.files.reclaimable(taken.number).into_iter().collect();
        let is_tail = |id| matches!(id, FileId::Segment(sequence) if sequence >= taken.sequence);
        let files = self.files.iter().map(|(slot, file, _)| (slot, file.id));
        let whole = files
            .filter(|(slot, id)| *id != active && (is_tail(*id) || !idle.contains(slot)))
            .map(|(_, id)| id);
        BackupPlan {
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
}
