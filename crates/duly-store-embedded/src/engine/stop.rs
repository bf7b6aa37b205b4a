//! The end of the journal when nothing more is written, for a while or for good.
//!
//! ```text
//!   nothing written for a second ─► closing frame
//!   clean stop ─► closing frame ─► checkpoint ─► done
//! ```
//!
//! What must stay true:
//!
//! 1. A closing frame is written when everything before it is durable, and only once. Nothing is written
//!    after it before the next record, so an idle store leaves the disk alone.
//! 2. A clean stop never fails because a checkpoint does: the journal has everything.

use duly_store::Error;

use crate::journal::{CLOSING_BYTES, SyncMark};

use super::{Engine, background_work::Pace};

/// Time without a write after which the journal gets a closing frame.
const CLOSING_AFTER_MS: u64 = 1_000;

/// Progress of a clean stop.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopping {
    /// The store is in use.
    #[default]
    No,
    /// The journal gets its closing frame.
    Closing,
    /// The last checkpoint is wanted.
    Wanted,
    /// The last checkpoint is being taken.
    CheckpointUnderWay,
    /// The last checkpoint was taken, or could not be.
    Done,
}

impl Stopping {
    /// Returns `true` if a stop has begun.
    pub(super) const fn is_begun(self) -> bool {
        !matches!(self, Self::No)
    }
}

impl Engine {
    /// Writes a closing frame if nothing has been written for a while, or nothing will be. Returns the
    /// mark to sync.
    pub(super) fn close_journal(&mut self) -> Result<Option<SyncMark>, Error> {
        let idle_ms = self.now.boot_ms.saturating_sub(self.journal_grew_ms);
        if idle_ms < CLOSING_AFTER_MS && !self.stopping.is_begun() {
            return Ok(None);
        }
        let written = self.journal.write_closing_frame(self.now.steady_ms);
        written.map_err(|error| self.write_failed(&error))
    }

    /// Continues a clean stop, after the step in which the last request was done. Returns `true` if it is
    /// complete.
    pub(crate) fn stop(&mut self) -> bool {
        if self.terminal_error.is_some() || self.is_stalled() {
            return true;
        }
        if !self.stopping.is_begun() {
            self.stopping = Stopping::Closing;
            self.pace = Pace::Unlimited;
            self.busy = true;
        }
        // The next commit writes it, when all before it is durable.
        if self.journal.wants_closing_frame() {
            return false;
        }
        // A checkpoint that is under way began too early to be the last one.
        if self.stopping == Stopping::Closing {
            let is_wanted = self.replay_bytes() > CLOSING_BYTES;
            self.stopping = if is_wanted { Stopping::Wanted } else { Stopping::Done };
            self.busy = true;
        }
        self.stopping == Stopping::Done
    }

    /// Returns `true` if the checkpoint of a clean stop should be begun.
    pub(super) const fn wants_last_checkpoint(&self) -> bool {
        matches!(self.stopping, Stopping::Wanted)
    }

    /// Records that a checkpoint was begun.
    pub(super) const fn note_checkpoint_begun(&mut self) {
        if self.wants_last_checkpoint() {
            self.stopping = Stopping::CheckpointUnderWay;
        }
    }

    /// Records that the checkpoint under way was taken or abandoned.
    pub(super) const fn note_checkpoint_ended(&mut self) {
        if matches!(self.stopping, Stopping::CheckpointUnderWay) {
            self.stopping = Stopping::Done;
        }
    }
}
