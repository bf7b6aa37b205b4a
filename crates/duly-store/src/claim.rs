//! Claiming: how a due firing becomes in-flight.

use std::{sync::Arc, time::Duration};

use duly_core::{
    DeliveryId, Destination, Millis, NamespaceName, Payload, Settings, TimerId, Timestamp,
    destination::LaneKey, headers::Headers, schedule::SlotKey,
};

use crate::Token;

/// Most distinct HTTP origins named by timers of one namespace that get lanes of their own; timers
/// to later ones share [`LaneKey::Overflow`]. An origin keeps its lane while the namespace lives;
/// the namespace's own destination never overflows.
pub const ORIGINS_MAX: usize = 252;

/// The unit of isolation in firing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The receiver within it.
    pub key: LaneKey,
}

/// Lanes that have something due, and how long until more becomes due.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ready {
    /// Lanes with something claimable, in lane order, after the cursor. Paused namespaces and
    /// namespaces whose dead letters are at their limit are left out.
    pub lanes: Vec<ReadyLane>,
    /// Where to go on when the limit cut the list.
    pub cursor: Option<Lane>,
    /// At most how long until something becomes claimable that is not so yet: the next timer, retry
    /// or lease end. `None` when there is none at all. What is claimable already does not count.
    pub next_due_in: Option<Duration>,
}

/// A lane with something claimable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyLane {
    /// Which.
    pub lane: Lane,
    /// How many first attempts are claimable (a lower bound, at least 1 when any is).
    pub first: u64,
    /// How many retries are claimable (a lower bound, at least 1 when any is).
    pub retry: u64,
}

/// Who claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A node that delivers: the lease lives as long as the node; it ends by
    /// [`crate::Store::release_owner`], or when the store is opened again.
    Node(u64),
    /// A pulling consumer: the lease runs to its end, also across a restart.
    Consumer,
}

/// A claim over some lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The lanes; no other lane is touched.
    pub lanes: Vec<LaneClaim>,
    /// Most firings in all.
    pub total_max: usize,
    /// Most bytes of payload and headers in all; the first firing is granted whatever its size.
    pub bytes_max: u64,
    /// How long the lease is, from `LEASE_MIN` to `LEASE_MAX` (else the call is refused); the
    /// namespace's own when absent.
    pub lease: Option<Millis>,
    /// Who claims.
    pub owner: Owner,
}

/// How much of one lane to claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneClaim {
    /// The lane.
    pub lane: Lane,
    /// Most first attempts.
    pub first_max: usize,
    /// Most retries.
    pub retry_max: usize,
}

/// What was granted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claimed {
    /// The firings: per lane first attempts in due order, then retries in order of their time.
    pub firings: Vec<Firing>,
    /// Lanes that were named and have more claimable.
    pub more: Vec<Lane>,
    /// At most how long until something becomes claimable that is not so yet: the next timer, retry
    /// or lease end. `None` when there is none at all. What is claimable already does not count.
    pub next_due_in: Option<Duration>,
}

/// A due occurrence, handed out under a lease.
#[derive(Debug, Clone, PartialEq)]
pub struct Firing {
    /// Names the lease; who holds it may settle.
    pub token: Token,
    /// The receiver's idempotency key.
    pub delivery_id: DeliveryId,
    /// The namespace.
    pub namespace: NamespaceName,
    /// The timer.
    pub id: TimerId,
    /// Which firing of the timer.
    pub occurrence: u32,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When it was due.
    pub due_at: Timestamp,
    /// When this attempt could first be claimed: the due time, or the time of the retry.
    pub claimable_at: Timestamp,
    /// When the lease ends, by the store's wall clock; only a hint where a node holds it.
    pub leased_until: Timestamp,
    /// How long the lease is.
    pub lease: Millis,
    /// The lane it was claimed from.
    pub lane: LaneKey,
    /// Where it goes.
    pub destination: Destination,
    /// Headers that travel with it.
    pub headers: Headers,
    /// What is delivered.
    pub payload: Option<Payload>,
    /// Key by which a broker partitions.
    pub slot_key: Option<SlotKey>,
    /// W3C trace context of the call that scheduled it.
    pub trace_parent: Option<String>,
    /// Settings of the namespace at the claim (signing secrets, weight).
    pub settings: Arc<Settings>,
}
