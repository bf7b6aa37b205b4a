//! A journal that finds no room where it was set aside.
//!
//! Room of a segment is reserved before it gets its name. A file system that writes elsewhere than it
//! reads (copy on write, a network file system, a thin volume) can be full all the same. That ends
//! nothing: the frame stays in memory, and is written again at the same place until there is room.
//! Until then nothing is appended, every call is unavailable, and what waits for the frame waits on.
//!
//! A sync that finds no room has given up any part of what it was to make durable. So all of that is
//! written again, from what a read of it shows, if that is still what was written; then a sync counts
//! again ([`Journal::rewrite_unsynced`]).
//!
//! [`Journal::rewrite_unsynced`]: crate::journal::Journal::rewrite_unsynced

use duly_core::Millis;
use duly_store::Error;

use crate::{disk, journal::Mark};

use super::{Engine, backoff::Backoff};

/// The pause between two tries at first, and the longest.
const PAUSES_MS: (u64, u64) = (100, 1_000);

/// Whether the journal waits for room.
#[derive(Debug)]
pub(super) struct Stall {
    backoff: Backoff,
    /// What found no room.
    reason: Option<String>,
    /// Whether a sync did, so that what it was to make durable is to be written again.
    is_unsynced: bool,
}

impl Stall {
    pub(super) const fn new() -> Self {
        let backoff = Backoff::new(PAUSES_MS.0, PAUSES_MS.1);
        Self { backoff, reason: None, is_unsynced: false }
    }

    /// Why nothing can be written at present.
    pub(super) fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    fn error(&self) -> Option<Error> {
        let reason = self.reason.clone()?;
        Some(Error::Unavailable { reason, retry_after: Millis::from_ms(PAUSES_MS.1) })
    }
}

impl Engine {
    /// Whether the journal waits for room: what was appended is neither written nor lost.
    pub(crate) const fn is_stalled(&self) -> bool {
        self.stall.reason.is_some()
    }

    /// Refuses while the journal waits for room.
    pub(super) fn check_stall(&self) -> Result<(), Error> {
        self.stall.error().map_or(Ok(()), Err)
    }

    /// Writes the frame under construction; where a write or sync found no room before, again.
    pub(super) fn write_frame(&mut self) -> Result<Option<Mark>, Error> {
        if !self.stall.backoff.is_over(self.now.boot_ms)
            && let Some(error) = self.stall.error()
        {
            return Err(error);
        }
        if self.stall.is_unsynced {
            match self.journal.rewrite_unsynced() {
                Ok(()) => {
                    self.stall.is_unsynced = false;
                    self.publish_durable();
                }
                Err(error @ disk::Error::NoSpace { .. }) => return Err(self.begin_stall(&error)),
                Err(error) => return Err(self.end(&error)),
            }
        }
        match self.journal.commit(self.now.steady_ms) {
            Ok(mark) => {
                if self.is_stalled() {
                    tracing::info!("there is room for the journal again; the store goes on");
                    self.stall = Stall::new();
                }
                Ok(mark)
            }
            Err(error) => Err(self.write_failed(&error)),
        }
    }

    /// Takes note of a write of the journal that failed: for want of room it is made again.
    pub(super) fn write_failed(&mut self, error: &disk::Error) -> Error {
        if error.is_no_space() { self.begin_stall(error) } else { self.end(error) }
    }

    /// Takes note of a sync of the journal that failed: for want of room it is made up for, and
    /// otherwise the store ends.
    pub(crate) fn sync_failed(&mut self, error: &disk::Error) -> Error {
        match error {
            disk::Error::NoSpace { .. } => {
                self.stall.is_unsynced = true;
                self.begin_stall(error)
            }
            error => self.end(error),
        }
    }

    fn begin_stall(&mut self, error: &disk::Error) -> Error {
        self.stall.backoff.failed(self.now.boot_ms);
        let reason = format!("the journal waits for room on the disk ({error})");
        if !self.is_stalled() {
            tracing::error!("{reason}; nothing is lost, and the store goes on when there is some");
        }
        self.stall.reason = Some(reason.clone());
        Error::InDoubt { reason }
    }
}
