//! What a record does to the state: the few fields that [`crate::engine`] looks at when it absorbs
//! one, live and at replay alike.
//!
//! An effect holds no strings but where a delivery id has to be worked out, so that hundreds of
//! thousands of them a second can be read back.

use duly_core::{
    DeliveryId, Incarnation, Timer, TimerId, destination::LaneKey, stub::Ended, timer::DeathReason,
};

use crate::{
    format::record::{self, Cause, NamespaceRecord, Record},
    index::{Claimable, Key, Kind},
};

/// What a record does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// The timer is pending from here on, and nothing else.
    Pending(Pending),
    /// The firing is a dead letter from here on.
    Dead {
        key: Key,
        cause: Cause,
        due_ms: u64,
        died_ms: u64,
        /// Whether its record was lost: then the key is not that of the timer it came from.
        is_corrupt: bool,
        firing: Box<FiringName>,
    },
    /// The timer has ended; `ends_ms` is when its stub goes, if one is kept.
    Ended { key: Key, ended: Ended, ends_ms: Option<u64>, number: u32 },
    /// A lease was granted or extended.
    Lease { key: Key, lease: Lease },
    /// A dead letter of this timer is gone.
    Purged { key: Key, delivery: DeliveryId },
    /// The record of a pending timer is lost, and the timer with it.
    Lost { key: Key },
    /// The namespace as it is from here on.
    Namespace(Box<NamespaceRecord>),
    /// The namespace and all it held are gone.
    NamespaceGone,
}

/// A pending timer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pending {
    pub(crate) key: Key,
    pub(crate) cause: Cause,
    pub(crate) claimable: Claimable,
    pub(crate) due_ms: u64,
    pub(crate) lane: LaneOf,
    /// From when on it has expired.
    pub(crate) expires_ms: Option<u64>,
    /// Of a redriven dead letter.
    pub(crate) firing: Option<Box<FiringName>>,
}

/// A lease as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) nonce: u64,
    pub(crate) attempt: u32,
    /// `None` for a consumer.
    pub(crate) node: Option<u64>,
    pub(crate) claimed_at_ms: u64,
    pub(crate) lease_ms: u64,
    pub(crate) until_ms: u64,
    /// Whether it extends a lease that was granted before.
    pub(crate) extends: bool,
}

/// The lane that a timer asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LaneOf {
    /// Where its namespace delivers.
    Default,
    /// Pull.
    Pull,
    /// The lane of its own destination.
    Origin(Box<LaneKey>),
}

/// What, with the name of its namespace, a delivery id is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FiringName {
    pub(crate) id: TimerId,
    pub(crate) incarnation: Incarnation,
    pub(crate) occurrence: u32,
}

impl FiringName {
    fn of(timer: &Timer) -> Box<Self> {
        let Timer { id, incarnation, occurrence, .. } = timer;
        Box::new(Self { id: id.clone(), incarnation: *incarnation, occurrence: *occurrence })
    }

    pub(crate) fn delivery_id(&self, namespace: &str) -> DeliveryId {
        DeliveryId::of(namespace, self.id.as_str(), self.incarnation, self.occurrence)
    }
}

/// When, and as what, a timer can be claimed: a first attempt by the wall clock, a retry by the
/// steady one.
pub(crate) const fn claimable_at(due_ms: u64, next_attempt_ms: Option<u64>) -> Claimable {
    match next_attempt_ms {
        None => Claimable { at_ms: due_ms, kind: Kind::First },
        Some(at_ms) => Claimable { at_ms, kind: Kind::Retry },
    }
}

impl Effect {
    /// The effect of a record that was just made.
    pub(crate) fn of(hash_key: u128, namespace: u32, record: &Record) -> Self {
        let key_of = |id: &TimerId| Key::of(hash_key, namespace, id.as_str());
        match record {
            Record::Pending(cause, timer) => Self::Pending(Pending {
                key: key_of(&timer.id),
                cause: *cause,
                claimable: claimable_at(
                    timer.due_at.unix_ms(),
                    timer.next_attempt_at.map(duly_core::Timestamp::unix_ms),
                ),
                due_ms: timer.due_at.unix_ms(),
                lane: LaneOf::of(timer),
                expires_ms: timer.expires_at().map(|at| at.unix_ms() + 1),
                firing: (*cause == Cause::Redriven).then(|| FiringName::of(timer)),
            }),
            Record::Dead(cause, timer) => Self::Dead {
                key: key_of(&timer.id),
                cause: *cause,
                due_ms: timer.due_at.unix_ms(),
                died_ms: timer.death.map_or(0, |death| death.at.unix_ms()),
                is_corrupt: timer.death.is_some_and(|death| death.reason == DeathReason::Corrupt),
                firing: FiringName::of(timer),
            },
            Record::Ended { stub, expires_at, number } => Self::Ended {
                key: key_of(&stub.id),
                ended: stub.ended,
                ends_ms: expires_at.map(duly_core::Timestamp::unix_ms),
                number: *number,
            },
            Record::Lease(lease) => Self::Lease { key: key_of(&lease.id), lease: Lease::of(lease) },
            Record::Purged { delivery, key } => {
                Self::Purged { key: Key::unpack(*key), delivery: *delivery }
            }
            Record::Lost { key } => Self::Lost { key: Key::unpack(*key) },
            Record::Namespace(record) => Self::Namespace(record.clone()),
            Record::NamespaceGone => Self::NamespaceGone,
        }
    }
}

impl LaneOf {
    fn of(timer: &Timer) -> Self {
        match &timer.destination {
            None => Self::Default,
            Some(duly_core::Destination::Pull) => Self::Pull,
            Some(other) => Self::Origin(Box::new(other.lane_key())),
        }
    }
}

impl Lease {
    fn of(lease: &record::Lease) -> Self {
        Self {
            nonce: lease.nonce,
            attempt: lease.attempt,
            node: lease.node,
            claimed_at_ms: lease.claimed_at.unix_ms(),
            lease_ms: lease.lease_ms,
            until_ms: lease.until.unix_ms(),
            extends: lease.extends,
        }
    }
}
