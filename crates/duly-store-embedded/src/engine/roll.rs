//! The roll: begins the next segment of the journal, and tries again if that fails before anything of it
//! is written.
//!
//! A roll is tried [`TRIES`] times at once, then after growing pauses. Meanwhile a record that needs a
//! new segment is refused as unavailable; smaller records still go into the rest of the old one. The
//! engine tries by itself, so the store recovers without a call.

use duly_core::Millis;
use duly_store::Error;

use crate::{
    disk,
    journal::{DirSyncLock, RollError},
};

use super::{Engine, NotWritten, backoff::Backoff, space};

/// Tries without a pause.
const TRIES: usize = 3;
/// Pause after those tries: the first and the longest.
const PAUSES_MS: (u64, u64) = (100, 5_000);

/// State of failed rolls.
#[derive(Debug, Default)]
pub(super) struct FailedRolls {
    backoff: Backoff<{ PAUSES_MS.0 }, { PAUSES_MS.1 }>,
    /// Cause of the latest failure.
    pub(super) reason: Option<String>,
}

impl FailedRolls {
    fn refusal(&self, now_ms: u64) -> Option<Error> {
        let reason = self.reason.clone()?;
        let retry_after = Millis::from_ms(self.backoff.left_ms(now_ms).max(PAUSES_MS.0));
        Some(Error::Unavailable { reason, retry_after })
    }
}

impl Engine {
    /// Begins a new segment. The old one is synced.
    pub(super) fn roll(&mut self) -> Result<(), NotWritten> {
        if self.space.is_full(self.now.boot_ms) {
            return Err(NotWritten::Refused(space::disk_full()));
        }
        if !self.failed_rolls.backoff.is_over(self.now.boot_ms)
            && let Some(error) = self.failed_rolls.refusal(self.now.boot_ms)
        {
            return Err(NotWritten::NotNow(error));
        }
        if self.write_frame().is_err() {
            return Err(self
                .check_stall()
                .map_or_else(NotWritten::NotNow, |()| NotWritten::Terminal));
        }
        let rolled = self.roll_with_retries();
        if matches!(rolled, Ok(()) | Err(RollError::Again(_))) {
            // The old segment was synced: its timers can be claimed.
            self.make_durable_claimable();
        }
        match rolled {
            Ok(()) => {
                self.failed_rolls = FailedRolls::default();
                self.namespace_numbers.note_roll();
                self.space.note_segment();
                self.rewriter.is_wanted = true;
                Ok(())
            }
            Err(RollError::Again(error)) if error.is_no_space() => {
                self.space.note_full(self.now.boot_ms);
                Err(NotWritten::Refused(space::disk_full()))
            }
            Err(RollError::Again(error)) => Err(NotWritten::NotNow(self.note_failed_roll(&error))),
            Err(RollError::Unsynced(error)) => {
                self.sync_failed(&error);
                Err(self.check_stall().map_or_else(NotWritten::NotNow, |()| NotWritten::Terminal))
            }
            Err(RollError::Terminal(error)) => {
                self.fail_terminally(&error);
                Err(NotWritten::Terminal)
            }
        }
    }

    /// Returns the lock of the segment names, for the thread that writes spare segments.
    pub(crate) fn naming(&self) -> DirSyncLock {
        self.journal.naming()
    }

    fn roll_with_retries(&mut self) -> Result<(), RollError> {
        let mut left = TRIES;
        loop {
            let rolled = self.journal.roll(&mut self.files);
            left -= 1;
            match rolled {
                Err(RollError::Again(error)) if left > 0 && !error.is_no_space() => {
                    tracing::warn!(%error, "journal segment could not be created, will retry");
                }
                rolled => return rolled,
            }
        }
    }

    fn note_failed_roll(&mut self, error: &disk::Error) -> Error {
        self.failed_rolls.backoff.failed(self.now.boot_ms);
        let reason = format!("no journal segment can be created ({error}), will retry");
        tracing::warn!(pause_ms = self.failed_rolls.backoff.left_ms(self.now.boot_ms), "{reason}");
        self.failed_rolls.reason = Some(reason.clone());
        let retry_after = Millis::from_ms(self.failed_rolls.backoff.left_ms(self.now.boot_ms));
        Error::Unavailable { reason, retry_after }
    }

    /// Tries again to begin a segment, if the latest try failed and its pause is over.
    pub(super) fn retry_roll(&mut self) {
        if self.failed_rolls.reason.is_some() && self.failed_rolls.backoff.is_over(self.now.boot_ms)
        {
            // `roll` records the result.
            drop(self.roll());
        }
    }
}
