//! What a record does to the state: the few fields that `absorb` needs, hashed and without the
//! strings that only the record's reader wants.
//!
//! ```text
//!   live     Record ──────── of ──┐
//!                                 ├─► Effect ──► absorb
//!   replay   bytes ─── skim ──────┘
//! ```
//!
//! * Both ways answer the same: `skim(encode(record)) == of(record)`, which a property test holds.
//! * An effect is small and, for what is common (a timer without a destination of its
//!   own, the end of one), nothing on the heap: replay moves millions of them between threads.
//! * What is rare or large is boxed.
//!
//! Made by the engine for what it writes and by [`crate::journal::recovery`] for what it reads.

use duly_core::{
    DeliveryId, Destination, Incarnation, Timer, TimerId, Timestamp, destination::LaneKey,
    timer::DeadLetterReason, tombstone::Ended,
};

use crate::{
    format::record::{self, Cause, NamespaceRecord, Record},
    index::{Claimable, Key, Kind},
};

mod skim;

pub(crate) use skim::Skimmed;

/// What one record does.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// A timer is pending from here on.
    Pending(Pending),
    /// A dead letter was sent again: a timer is pending, the letter is gone.
    Redriven(Box<Redriven>),
    /// A firing is a dead letter from here on.
    Dead { key: Key, cause: Cause, died_of: DiedOf, due_ms: u64, died_ms: u64, firing: Box<Firing> },
    /// A timer has ended; `ends_ms` is when its tombstone goes (`None`: no tombstone is kept), `number` how
    /// many had ended before.
    Ended { key: Key, ended: Ended, ends_ms: Option<u64>, number: u32 },
    /// A lease was granted or extended.
    Lease { key: Key, lease: Box<Lease> },
    /// A dead letter of this timer was dropped; `letter` is the key of its delivery id.
    Purged { letter: Key, timer: Key },
    /// The record of a pending timer, or of a tombstone, is lost, and the timer or the tombstone with it.
    Lost { key: Key },
    /// No tombstone is left of the ends of the namespace before this one.
    Evicted { below: u64 },
    /// A namespace as it is from here on.
    Namespace(Box<NamespaceRecord>),
    /// A namespace is gone, with all it held.
    NamespaceGone,
}

/// A timer that is pending, as the index has it.
#[derive(Debug, PartialEq)]
pub(crate) struct Pending {
    pub(crate) key: Key,
    pub(crate) cause: Cause,
    pub(crate) claimable: Claimable,
    pub(crate) due_ms: u64,
    pub(crate) lane: LaneOf,
    /// From when on it has expired.
    pub(crate) expires_ms: Option<u64>,
}

/// A timer whose dead letter was sent again; the cause is [`Cause::Redriven`], and only here.
#[derive(Debug, PartialEq)]
pub(crate) struct Redriven {
    pub(crate) pending: Pending,
    /// The firing whose letter is gone.
    pub(crate) firing: Firing,
}

/// The lane that a timer asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum LaneOf {
    /// It follows its namespace.
    Default,
    /// It names pull.
    Pull,
    /// It names a receiver.
    Origin(Box<LaneKey>),
}

/// What made a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiedOf {
    /// What became of its firing; it is no longer pending.
    Firing,
    /// Its record could not be read: the letter has an id of its own, under which nothing was
    /// pending.
    Corruption,
}

/// What a delivery id is made of, besides the name of the namespace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Firing {
    pub(crate) id: TimerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) occurrence: u32,
}

/// A lease without the timer's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) nonce: u64,
    pub(crate) attempt: u32,
    /// `None` for a consumer.
    pub(crate) node: Option<u64>,
    pub(crate) claimed_at: Timestamp,
    pub(crate) lease_ms: u64,
    pub(crate) until: Timestamp,
    /// Whether this extends a lease that was granted before.
    pub(crate) extends: bool,
}

impl Effect {
    /// What `record` of the namespace with this number does.
    pub(crate) fn of(hash_key: u128, namespace: u32, record: &Record) -> Self {
        Self::keyed(record, |id| Key::of(hash_key, namespace, id.as_str()))
    }

    /// The same, for who knows the key of the timer's id, or how to make it.
    pub(crate) fn keyed(record: &Record, key: impl Fn(&TimerId) -> Key) -> Self {
        match record {
            Record::Pending(cause, timer) => {
                let firing = (*cause == Cause::Redriven).then(|| Firing::of(timer));
                Self::pending(Pending::of(key(&timer.id), *cause, timer), firing)
            }
            Record::Dead(cause, timer) => {
                let (died_of, died_ms) = timer
                    .dead_letter
                    .map_or((DiedOf::Firing, timer.due_at.unix_ms()), |dead_letter| {
                        (DiedOf::of(dead_letter.reason), dead_letter.at.unix_ms())
                    });
                Self::Dead {
                    key: key(&timer.id),
                    cause: *cause,
                    died_of,
                    due_ms: timer.due_at.unix_ms(),
                    died_ms,
                    firing: Box::new(Firing::of(timer)),
                }
            }
            Record::Ended { tombstone, expires_at, number } => Self::Ended {
                key: key(&tombstone.id),
                ended: tombstone.ended,
                ends_ms: expires_at.map(Timestamp::unix_ms),
                number: *number,
            },
            Record::Lease(lease) => {
                Self::Lease { key: key(&lease.id), lease: Box::new(Lease::of(lease)) }
            }
            Record::Purged { letter, timer } => {
                Self::Purged { letter: Key::unpack(*letter), timer: Key::unpack(*timer) }
            }
            Record::Lost { key } => Self::Lost { key: Key::unpack(*key) },
            Record::Evicted { below } => Self::Evicted { below: *below },
            Record::Namespace(namespace) => Self::Namespace(namespace.clone()),
            Record::NamespaceGone => Self::NamespaceGone,
        }
    }

    /// The timer that it is about, if it is about one.
    pub(crate) fn key(&self) -> Option<Key> {
        match self {
            Self::Pending(pending) => Some(pending.key),
            Self::Redriven(redriven) => Some(redriven.pending.key),
            Self::Dead { key, .. }
            | Self::Ended { key, .. }
            | Self::Lease { key, .. }
            | Self::Lost { key } => Some(*key),
            _ => None,
        }
    }

    fn pending(pending: Pending, redriven: Option<Firing>) -> Self {
        match redriven {
            None => Self::Pending(pending),
            Some(firing) => Self::Redriven(Box::new(Redriven { pending, firing })),
        }
    }
}

impl Pending {
    fn of(key: Key, cause: Cause, timer: &Timer) -> Self {
        let due_ms = timer.due_at.unix_ms();
        Self {
            key,
            cause,
            claimable: claimable(due_ms, timer.next_attempt_at),
            due_ms,
            lane: LaneOf::of(timer.spec.destination.as_ref()),
            expires_ms: timer.expires_at().map(expired_from),
        }
    }
}

/// When, and as what, a timer can be claimed: a first attempt by the wall clock, a retry by the
/// steady one. A retry whose due time the wall clock has stepped back behind is held back besides.
fn claimable(due_ms: u64, next_attempt_at: Option<Timestamp>) -> Claimable {
    match next_attempt_at {
        None => Claimable { at_ms: due_ms, kind: Kind::First },
        Some(at) => Claimable { at_ms: at.unix_ms(), kind: Kind::Retry },
    }
}

/// From when on a firing has expired that may be claimed until `expires_at`.
const fn expired_from(expires_at: Timestamp) -> u64 {
    expires_at.unix_ms() + 1
}

impl LaneOf {
    fn of(destination: Option<&Destination>) -> Self {
        match destination {
            None => Self::Default,
            Some(Destination::Pull) => Self::Pull,
            Some(other) => Self::Origin(Box::new(other.lane_key())),
        }
    }
}

impl DiedOf {
    fn of(reason: DeadLetterReason) -> Self {
        if reason == DeadLetterReason::Corrupt { Self::Corruption } else { Self::Firing }
    }
}

impl Firing {
    fn of(timer: &Timer) -> Self {
        let (incarnation, occurrence) = (timer.incarnation, timer.occurrence);
        Self { id: timer.id.clone(), incarnation, occurrence }
    }

    /// The delivery id, given the name of the namespace.
    pub(crate) fn delivery_id(&self, namespace: &str) -> DeliveryId {
        DeliveryId::of(namespace, self.id.as_str(), self.incarnation, self.occurrence)
    }
}

impl Lease {
    fn of(lease: &record::Lease) -> Self {
        let record::Lease { id: _, nonce, attempt, node, claimed_at, lease_ms, until, extends } =
            *lease;
        Self { nonce, attempt, node, claimed_at, lease_ms, until, extends }
    }
}

#[cfg(test)]
mod tests;
