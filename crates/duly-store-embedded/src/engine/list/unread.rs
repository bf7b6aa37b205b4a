//! A record that a list met and that the disk does not read now: where it belongs in the order of the
//! list, as far as the index knows, and what is answered where no page can be made without it.
//!
//! The index knows the due time of a first attempt and of a dead letter. A retry has the time of its next
//! attempt there, an ended timer that at which its tombstone goes: either may belong before everything.

use duly_core::{Millis, NamespaceName, Timestamp};
use duly_store::Error;

use crate::{
    disk,
    index::{Entry, Kind},
};

use super::{super::Engine, Source};

/// See the module.
#[derive(Debug)]
pub(super) struct Unread {
    belongs: Belongs,
    /// Why it was not read, and where it stands.
    reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Belongs {
    /// A retry, somewhere.
    AnyRetry,
    /// An ended timer, somewhere.
    AnyEnded,
    /// A timer or a dead letter that is due then.
    Due(u64),
}

impl Unread {
    pub(super) fn of(engine: &Engine, source: Source, entry: &Entry, error: &disk::Error) -> Self {
        let claimable = entry.claimable();
        let belongs = match source {
            Source::Tombstones => Belongs::AnyEnded,
            Source::Live if claimable.kind == Kind::Retry => Belongs::AnyRetry,
            Source::Live | Source::Letters => Belongs::Due(claimable.at_ms),
        };
        Self { belongs, reason: format!("{error}, {}", engine.place_of(entry.location())) }
    }

    /// When its timer is due, if the index knows.
    pub(super) const fn due_ms(&self) -> Option<u64> {
        match self.belongs {
            Belongs::Due(due_ms) => Some(due_ms),
            Belongs::AnyRetry | Belongs::AnyEnded => None,
        }
    }

    pub(super) fn comes_before(&self, other: &Self) -> bool {
        self.belongs < other.belongs
    }

    /// The answer where a page would have to begin with it.
    pub(super) fn into_error(self, name: &NamespaceName) -> Error {
        let whose = match self.belongs {
            Belongs::Due(due_ms) => {
                let [due_at, behind] = [due_ms, due_ms + 1].map(Timestamp::saturating_from_unix_ms);
                format!(
                    "it is of a timer of namespace {name} that is due at {due_at}; repeat the call \
                     later, or list what is due from {behind} on (due_from)"
                )
            }
            Belongs::AnyRetry => format!(
                "it is of a timer of namespace {name} that is retrying; repeat the call later, or \
                 list the states scheduled, due and in_flight one by one"
            ),
            Belongs::AnyEnded => {
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
