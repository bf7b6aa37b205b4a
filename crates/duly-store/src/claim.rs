//! Claiming: how a due firing becomes in-flight.

use std::{sync::Arc, time::Duration};

use duly_core::{
    DeliveryId, Destination, Invalid, Millis, NamespaceName, Payload, Settings, Timer, TimerId,
    Timestamp,
    destination::LaneKey,
    headers::Headers,
    namespace::{LEASE_MAX, LEASE_MIN},
    schedule::SlotKey,
};

use crate::Token;

/// Most distinct HTTP origins named by timers of one namespace that get lanes of their own; timers
/// to later ones share [`LaneKey::Overflow`]. An origin keeps its lane while the namespace lives;
/// the namespace's own destination never overflows.
pub const ORIGINS_MAX: usize = 252;

/// Most lanes named by one claim; more refuse the call.
pub const LANES_MAX: usize = 1_000;

/// The unit of isolation in firing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The receiver within it.
    pub key: LaneKey,
}

/// Lanes that have something due, and how long until more becomes due.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ready {
    /// Lanes with something claimable, in the store's own order, after the cursor; while things
    /// change, a lane may come twice. Paused namespaces and namespaces whose dead letters are at
    /// their limit are left out.
    pub lanes: Vec<ReadyLane>,
    /// Where to go on when the list was cut.
    pub cursor: Option<ReadyCursor>,
    /// At most how long until something becomes claimable that is not so yet: the next timer, retry
    /// or end of a consumer's lease, of paused lanes too. `None` when there is none at all. What is
    /// claimable already does not count.
    pub next_due_in: Option<Duration>,
}

/// Where a list of ready lanes goes on; only the store that made it knows what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyCursor(Box<[u8]>);

impl ReadyCursor {
    /// Longest cursor, in bytes.
    pub const BYTES_MAX: usize = 512;

    /// A cursor of the store's own bytes, at most [`Self::BYTES_MAX`].
    pub fn new(own: &[u8]) -> Self {
        debug_assert!(own.len() <= Self::BYTES_MAX, "a cursor is short");
        Self(own.into())
    }

    /// The store's own bytes.
    pub const fn own(&self) -> &[u8] {
        &self.0
    }
}

/// A lane with something claimable.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyLane {
    /// Which.
    pub lane: Lane,
    /// How many first attempts are claimable: an estimate, at least 1 when any is.
    pub first: u64,
    /// How many retries are claimable: an estimate, at least 1 when any is.
    pub retry: u64,
    /// Settings of the namespace now (weight, limits).
    pub settings: Arc<Settings>,
}

/// The life of a node, from its start to its end: random, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// Who claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A node that delivers: the lease lives as long as this member of the deployment, and has no end of its
    /// own; it ends by [`crate::Store::release_owner`], or, where the store belongs to one process,
    /// when that opens it again.
    Node(MemberId),
    /// A pulling consumer: the lease runs to its end, also across a restart.
    Consumer {
        /// How long the lease is, from `LEASE_MIN` to `LEASE_MAX` (else the call is refused); the
        /// namespace's own when absent.
        lease: Option<Millis>,
    },
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
    /// Who claims.
    pub owner: Owner,
}

/// Refuses a claim whose values are not allowed.
///
/// # Errors
/// `Invalid` for a lease outside `LEASE_MIN..=LEASE_MAX` and past [`LANES_MAX`] lanes.
pub fn check(request: &ClaimRequest) -> crate::Result<()> {
    if let Owner::Consumer { lease: Some(lease) } = request.owner {
        lease.within(LEASE_MIN, LEASE_MAX).map_err(|invalid| invalid.within("lease"))?;
    }
    if request.lanes.len() > LANES_MAX {
        let allowed = format!("at most {LANES_MAX} a claim");
        return Err(Invalid::new("lanes", request.lanes.len(), allowed).into());
    }
    Ok(())
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
    /// As [`Ready::next_due_in`].
    pub next_due_in: Option<Duration>,
    /// The same of the lanes that were named; `None` where nothing is to come, and where the store does not
    /// say.
    pub next_here: Option<Duration>,
    /// Whether it is known that no other lane of the shard has anything claimable. `false` says nothing:
    /// only a look ([`Store::ready`](crate::Store::ready)) tells.
    pub nothing_else: bool,
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
    /// Attempts that had ended when the present budget began: not 0 after a redrive.
    pub budget_from: u32,
    /// When it was due.
    pub due_at: Timestamp,
    /// When this attempt could first be claimed: the due time, or the time of the retry.
    pub claimable_at: Timestamp,
    /// When it became claimable: as `claimable_at`, and not before a caller made or changed the timer. Lateness
    /// is measured from it.
    pub claimable_since: Timestamp,
    /// When the lease ends, by the store's wall clock; a node's has no end.
    pub leased_until: Option<Timestamp>,
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

impl Firing {
    /// Returns the firing of a timer that was just claimed. `claimable_at` is when this attempt could first be
    /// claimed, by the wall clock.
    pub fn new(
        timer: Timer,
        token: Token,
        lane: &Lane,
        claimable_at: Timestamp,
        leased_until: Option<Timestamp>,
        settings: Arc<Settings>,
    ) -> Self {
        Self {
            token,
            delivery_id: timer.delivery_id(lane.namespace.as_str()),
            namespace: lane.namespace.clone(),
            occurrence: timer.occurrence,
            attempt: timer.attempts.saturating_add(1),
            budget_from: timer.budget_from,
            due_at: timer.due_at,
            claimable_at,
            claimable_since: timer.claimable_since(claimable_at),
            leased_until,
            lane: lane.key.clone(),
            destination: timer.spec.destination.unwrap_or_else(|| settings.destination.clone()),
            id: timer.id,
            headers: timer.spec.headers,
            payload: timer.spec.payload,
            slot_key: timer.spec.slot_key,
            trace_parent: timer.spec.trace_parent,
            settings,
        }
    }

    /// Returns the bytes of its payload and headers.
    pub fn bytes(&self) -> u64 {
        let payload = self.payload.as_ref().map_or(0, |payload| payload.bytes.len());
        (payload + self.headers.heap_bytes()) as u64
    }
}
