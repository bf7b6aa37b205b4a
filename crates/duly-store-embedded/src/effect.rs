//! The effect of a record on the state: the few fields that `absorb` needs, with hashed keys instead of
//! strings.
//!
//! ```text
//!   live     Record ──────── of ──┐
//!                                 ├─► Effect ──► absorb
//!   replay   bytes ─── skim ──────┘
//! ```
//!
//! What must stay true:
//!
//! 1. Both ways give the same result: `skim(encode(record)) == of(record)`, which a property test
//!    checks.
//! 2. An effect is small. In the common cases (a timer without a destination of its own, the end of a
//!    timer) it allocates nothing: replay moves millions of effects between threads.
//! 3. Rare and large parts are boxed.
//!
//! The engine makes effects of the records that it writes, and [`crate::journal::recovery`] of those
//! that it reads.

use duly_core::{
    DeliveryId, Incarnation, Timer, TimerId, Timestamp, destination::LaneKey,
    timer::DeadLetterReason, tombstone::Ended,
};

use crate::{
    format::record::{Cause, Lease, NamespaceRecord, Record},
    index::{AttemptKind, Claimable, Key},
};

mod skim;

pub(crate) use skim::Skimmed;

/// The effect of one record.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    /// A timer becomes pending.
    Pending(Pending),
    /// A dead letter was redriven: its timer is pending, and the dead letter is gone.
    Redriven(Box<Redriven>),
    /// A firing becomes a dead letter.
    Dead {
        key: Key,
        cause: Cause,
        dead_letter_origin: DeadLetterOrigin,
        due_ms: u64,
        dead_lettered_ms: u64,
        firing: Box<Firing>,
    },
    /// A timer has ended. `ends_ms`: the time until which its tombstone is kept by the retention at that
    /// time (`None`: no tombstone is kept). `number`: how many timers had ended before.
    Ended { key: Key, ended: Ended, ended_ms: u64, ends_ms: Option<u64>, number: u32 },
    /// A lease was granted, extended or marked as stopped.
    Lease { key: Key, lease: Box<Lease> },
    /// A dead letter of this timer was purged; `letter` is the key of its delivery id.
    Purged { letter: Key, timer: Key },
    /// The record of a pending timer or of a tombstone is lost, and with it the timer or the tombstone.
    Lost { key: Key },
    /// The tombstones of all ends of the namespace before number `below` are gone.
    Evicted { below: u64 },
    /// A namespace has these settings from now on.
    Namespace(Box<NamespaceRecord>),
    /// A namespace is deleted, with all its contents.
    NamespaceGone,
}

/// A pending timer, with the fields of its index entry.
#[derive(Debug, PartialEq)]
pub(crate) struct Pending {
    pub(crate) key: Key,
    pub(crate) cause: Cause,
    pub(crate) claimable: Claimable,
    pub(crate) due_ms: u64,
    pub(crate) lane: LaneOf,
    /// The time from which the firing has expired.
    pub(crate) expires_ms: Option<u64>,
}

/// A timer whose dead letter was redriven. The cause is [`Cause::Redriven`], and only here.
#[derive(Debug, PartialEq)]
pub(crate) struct Redriven {
    pub(crate) pending: Pending,
    /// The firing whose dead letter is gone.
    pub(crate) firing: Firing,
}

/// The lane that a timer asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum LaneOf {
    /// The default lane of its namespace.
    Default,
    /// The pull lane.
    Pull,
    /// The lane of a receiver.
    Receiver(Box<LaneKey>),
}

/// The origin of a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeadLetterOrigin {
    /// A firing failed; the timer is no longer pending.
    Firing,
    /// The record of a timer could not be read. The dead letter has an id of its own, and no timer was
    /// pending under it.
    Corruption,
}

/// The parts of a delivery id, besides the name of the namespace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Firing {
    pub(crate) id: TimerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) occurrence: u32,
}

impl Effect {
    /// Returns the effect of `record` in the namespace with this number.
    pub(crate) fn of(hash_key: u128, namespace: u32, record: &Record) -> Self {
        Self::keyed(record, |id| Key::of(hash_key, namespace, id.as_str()))
    }

    /// Returns the effect of `record`, with `key` to make the key of the timer's id.
    pub(crate) fn keyed(record: &Record, key: impl Fn(&TimerId) -> Key) -> Self {
        match record {
            Record::Pending(cause, timer) => {
                let firing = (*cause == Cause::Redriven).then(|| Firing::of(timer));
                Self::pending(Pending::of(key(&timer.id), *cause, timer), firing)
            }
            Record::Dead(cause, timer) => {
                let (dead_letter_origin, dead_lettered_ms) = timer.dead_letter.map_or(
                    (DeadLetterOrigin::Firing, timer.due_at.unix_ms()),
                    |dead_letter| {
                        (DeadLetterOrigin::of(dead_letter.reason), dead_letter.at.unix_ms())
                    },
                );
                Self::Dead {
                    key: key(&timer.id),
                    cause: *cause,
                    dead_letter_origin,
                    due_ms: timer.due_at.unix_ms(),
                    dead_lettered_ms,
                    firing: Box::new(Firing::of(timer)),
                }
            }
            Record::Ended { tombstone, expires_at, number } => Self::Ended {
                key: key(&tombstone.id),
                ended: tombstone.ended,
                ended_ms: tombstone.ended_at.unix_ms(),
                ends_ms: expires_at.map(Timestamp::unix_ms),
                number: *number,
            },
            Record::Lease { id, lease } => Self::Lease { key: key(id), lease: Box::new(*lease) },
            Record::Purged { letter, timer } => {
                Self::Purged { letter: Key::unpack(*letter), timer: Key::unpack(*timer) }
            }
            Record::Lost { key } => Self::Lost { key: Key::unpack(*key) },
            Record::Evicted { below } => Self::Evicted { below: *below },
            Record::Namespace(namespace) => Self::Namespace(namespace.clone()),
            Record::NamespaceGone => Self::NamespaceGone,
        }
    }

    /// Returns the key of the timer that the effect is about, if there is one.
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
            lane: timer
                .spec
                .destination
                .as_ref()
                .map_or(LaneOf::Default, |to| to.lane_key().into()),
            expires_ms: timer.expires_at().map(expired_from),
        }
    }
}

/// Returns the time and the kind of a timer's next claim: a first attempt follows the wall clock, a
/// retry the steady clock. If the wall clock has stepped back behind the due time of a retry, the retry
/// is also deferred.
fn claimable(due_ms: u64, next_attempt_at: Option<Timestamp>) -> Claimable {
    match next_attempt_at {
        None => Claimable { at_ms: due_ms, kind: AttemptKind::First },
        Some(at) => Claimable { at_ms: at.unix_ms(), kind: AttemptKind::Retry },
    }
}

/// Returns the time from which a firing has expired that may be claimed until `expires_at`.
const fn expired_from(expires_at: Timestamp) -> u64 {
    expires_at.unix_ms() + 1
}

impl From<LaneKey> for LaneOf {
    fn from(key: LaneKey) -> Self {
        match key {
            LaneKey::Pull => Self::Pull,
            key => Self::Receiver(Box::new(key)),
        }
    }
}

impl DeadLetterOrigin {
    fn of(reason: DeadLetterReason) -> Self {
        if reason == DeadLetterReason::Corrupt { Self::Corruption } else { Self::Firing }
    }
}

impl Firing {
    fn of(timer: &Timer) -> Self {
        let (incarnation, occurrence) = (timer.incarnation, timer.occurrence);
        Self { id: timer.id.clone(), incarnation, occurrence }
    }

    /// Returns the delivery id, given the name of the namespace.
    pub(crate) fn delivery_id(&self, namespace: &str) -> DeliveryId {
        DeliveryId::of(namespace, self.id.as_str(), self.incarnation, self.occurrence)
    }
}

#[cfg(test)]
mod tests;
