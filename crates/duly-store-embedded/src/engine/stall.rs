//! The stall: a journal that finds no disk space although it reserved some.
//!
//! The space of a segment is reserved before it gets its name. A file system that does not overwrite in
//! place (copy on write, a network file system, a thin volume) can be full all the same. That does not
//! end the store:
//!
//! 1. The frame stays in memory, and is written again at the same place until there is space.
//! 2. Until then nothing is appended, and every call is refused as unavailable. Callers that wait for the
//!    frame keep waiting.
//! 3. A sync that finds no space may have lost any part of its data. So all of that is written again,
//!    from what a read returns, if that is still what was written. Then a sync counts again
//!    ([`Journal::rewrite_unsynced`]).
//!
//! [`Journal::rewrite_unsynced`]: crate::journal::Journal::rewrite_unsynced

use duly_core::Millis;
use duly_store::Error;

use crate::{disk, journal::SyncMark};

use super::{Engine, backoff::Backoff};

/// Pause between two tries: the first and the longest.
const PAUSES_MS: (u64, u64) = (100, 1_000);

/// State of the stall.
#[derive(Debug, Default)]
pub(super) struct Stall {
    backoff: Backoff<{ PAUSES_MS.0 }, { PAUSES_MS.1 }>,
    /// Error of the write or sync that found no space; `None`: the journal does not stall.
    pub(super) reason: Option<String>,
    /// `true`: a sync found no space, so its data must be written again.
    is_unsynced: bool,
}

impl Stall {
    fn error(&self) -> Option<Error> {
        let reason = self.reason.clone()?;
        Some(Error::Unavailable { reason, retry_after: Millis::from_ms(PAUSES_MS.1) })
    }
}

impl Engine {
    /// Returns `true` if the journal stalls: appended records are neither written nor lost.
    pub(crate) const fn is_stalled(&self) -> bool {
        self.stall.reason.is_some()
    }

    /// Refuses while the journal stalls.
    pub(super) fn check_stall(&self) -> Result<(), Error> {
        self.stall.error().map_or(Ok(()), Err)
    }

    /// Writes the frame under construction. While the journal stalls, writes again what found no space.
    pub(super) fn write_frame(&mut self) -> Result<Option<SyncMark>, Error> {
        if !self.stall.backoff.is_over(self.now.boot_ms)
            && let Some(error) = self.stall.error()
        {
            return Err(error);
        }
        if self.stall.is_unsynced {
            match self.journal.rewrite_unsynced() {
                Ok(()) => {
                    self.stall.is_unsynced = false;
                    self.make_durable_claimable();
                }
                Err(error @ disk::Error::NoSpace { .. }) => return Err(self.begin_stall(&error)),
                Err(error) => return Err(self.fail_terminally(&error)),
            }
        }
        match self.journal.commit(self.now.steady_ms) {
            Ok(mark) => {
                if self.is_stalled() {
                    tracing::info!("the journal has disk space again; the store resumes");
                    self.stall = Stall::default();
                }
                Ok(mark)
            }
            Err(error) => Err(self.write_failed(&error)),
        }
    }

    /// Records a failed write of the journal. If there is no space it is tried again; otherwise the store
    /// ends.
    pub(super) fn write_failed(&mut self, error: &disk::Error) -> Error {
        if error.is_no_space() { self.begin_stall(error) } else { self.fail_terminally(error) }
    }

    /// Records a failed sync of the journal. If there is no space its data is written again; otherwise
    /// the store ends.
    pub(crate) fn sync_failed(&mut self, error: &disk::Error) -> Error {
        match error {
            disk::Error::NoSpace { .. } => {
                self.stall.is_unsynced = true;
                self.begin_stall(error)
            }
            error => self.fail_terminally(error),
        }
    }

    fn begin_stall(&mut self, error: &disk::Error) -> Error {
        self.stall.backoff.failed(self.now.boot_ms);
        let reason = format!("the journal waits for disk space ({error})");
        if !self.is_stalled() {
            tracing::error!("{reason}; nothing is lost, and the store resumes when there is space");
        }
        self.stall.reason = Some(reason.clone());
        Error::InDoubt { reason }
    }
}
