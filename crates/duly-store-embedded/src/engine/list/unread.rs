//! A record that a list could not read: its place in the list, as far as the index knows, and the error
//! of the call if no page can be made without it.
//!
//! The index knows the due time of a first attempt and of a dead letter. For a retry it has the time of
//! the next attempt, for an ended timer the time at which its tombstone goes. Either may come before
//! everything.

use duly_core::{Millis, NamespaceName, Timestamp};
use duly_store::Error;

use crate::{
    disk,
    index::{AttemptKind, Entry},
};

use super::{super::Engine, ListSource};

/// A record that the disk does not read now.
#[derive(Debug)]
pub(super) struct UnreadRecord {
    place: UnreadPlace,
    /// Cause, and location of the record.
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UnreadPlace {
    /// A retry, at an unknown place.
    AnyRetry,
    /// An ended timer, at an unknown place.
    AnyEnded,
    /// A timer or a dead letter that is due at this time.
    Due(u64),
}

impl UnreadRecord {
    pub(super) fn of(
        engine: &Engine,
        source: ListSource,
        entry: &Entry,
        error: &disk::Error,
    ) -> Self {
        let claimable = entry.claimable();
        let place = match source {
            ListSource::Tombstones => UnreadPlace::AnyEnded,
            ListSource::Live if claimable.kind == AttemptKind::Retry => UnreadPlace::AnyRetry,
            ListSource::Live | ListSource::DeadLetters => UnreadPlace::Due(claimable.at_ms),
        };
        Self { place, reason: format!("{error}, {}", engine.place_of(entry.location())) }
    }

    /// Returns the due time of its timer, if the index knows it.
    pub(super) const fn due_ms(&self) -> Option<u64> {
        match self.place {
            UnreadPlace::Due(due_ms) => Some(due_ms),
            UnreadPlace::AnyRetry | UnreadPlace::AnyEnded => None,
        }
    }

    pub(super) fn comes_before(&self, other: &Self) -> bool {
        self.place < other.place
    }

    /// Returns the error of a call whose page would have to begin with it.
    pub(super) fn into_error(self, name: &NamespaceName) -> Error {
        let whose = match self.place {
            UnreadPlace::Due(due_ms) => {
                let [due_at, behind] = [due_ms, due_ms + 1].map(Timestamp::saturating_from_unix_ms);
                format!(
                    "it is of a timer of namespace {name} that is due at {due_at}; repeat the call \
                     later, or list what is due from {behind} on (due_from)"
                )
            }
            UnreadPlace::AnyRetry => format!(
                "it is of a timer of namespace {name} that is retrying; repeat the call later, or \
                 list the states scheduled, due and in_flight one by one"
            ),
            UnreadPlace::AnyEnded => {
                format!("it is of an ended timer of namespace {name}; repeat the call later")
            }
        };
        let reason = self.reason;
        Error::Unavailable {
            reason: format!(
                "a record cannot be read now: {reason}; a list leaves nothing out, and {whose}"
            ),
            retry_after: Millis::from_secs(1),
        }
    }
}
