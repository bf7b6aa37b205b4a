//! Claims: a due firing becomes in flight.

use std::{sync::Arc, time::Duration};

use duly_core::{
    DeliveryId, Destination, Invalid, Millis, NamespaceName, Settings, Timer, TimerId, TimerSpec,
    Timestamp,
    destination::LaneKey,
    namespace::{LEASE_MAX, LEASE_MIN},
};

use crate::Token;

/// Maximum number of distinct receivers of one namespace's timers that get lanes of their own. Timers to
/// later receivers share [`LaneKey::Overflow`]. A receiver keeps its lane while the namespace exists. The
/// namespace's own destination never overflows.
pub const RECEIVERS_MAX: usize = 252;

/// Maximum number of lanes in one claim; a claim with more is refused.
pub const LANES_MAX: usize = 1_000;

/// A lane: the unit of isolation for delivery.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The key of its receiver in the namespace.
    pub key: LaneKey,
}

/// Lanes that have something due, and the time until more becomes due.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ready {
    /// Lanes with something claimable after the cursor, in the store's own order. If timers change
    /// meanwhile, a lane may be returned twice. Paused namespaces are left out, and so are namespaces at
    /// their limit of dead letters.
    pub lanes: Vec<ReadyLane>,
    /// The start of the next page, if the list was cut.
    pub cursor: Option<ReadyCursor>,
    /// Upper bound of the time until something more becomes claimable: the next timer, retry or end of a
    /// consumer's lease, also of paused lanes. `None` if there is nothing. Firings that are already
    /// claimable do not count.
    pub next_due_in: Option<Duration>,
}

/// A position in a list of ready lanes. Only the store that created it can interpret it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyCursor(Box<[u8]>);

impl ReadyCursor {
    /// Maximum size of a cursor, in bytes.
    pub const BYTES_MAX: usize = 512;

    /// Creates a cursor of the store's own bytes, at most [`Self::BYTES_MAX`].
    pub fn new(own: &[u8]) -> Self {
        debug_assert!(own.len() <= Self::BYTES_MAX, "a cursor is short");
        Self(own.into())
    }

    /// Returns the store's own bytes.
    pub const fn own(&self) -> &[u8] {
        &self.0
    }
}

/// A lane with something claimable.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyLane {
    /// The lane.
    pub lane: Lane,
    /// Number of claimable first attempts: an estimate, at least 1 if there are any.
    pub first: u64,
    /// Number of claimable retries: an estimate, at least 1 if there are any.
    pub retry: u64,
    /// The present settings of the namespace (weight, limits).
    pub settings: Arc<Settings>,
}

/// A member id: one life of a node, from its start to its end. It is random and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// The owner of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A node that delivers. The lease lasts as long as this member of the deployment and has no end of its
    /// own. [`crate::Timers::release_owner`] ends it, or the next opening of a store that belongs to one
    /// process.
    Node(MemberId),
    /// A consumer that pulls. The lease lasts until its end, also across a restart.
    Consumer {
        /// The length of the lease, from `LEASE_MIN` to `LEASE_MAX` (else the call is refused); if absent,
        /// that of the namespace.
        lease: Option<Millis>,
    },
}

/// A claim over some lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The lanes. No other lane is affected.
    pub lanes: Vec<LaneClaim>,
    /// Maximum number of firings in all.
    pub total_max: usize,
    /// Maximum bytes of payload and headers in all. The first firing is granted at any size.
    pub bytes_max: u64,
    /// The owner of the leases.
    pub owner: Owner,
}

/// Checks the values of a claim.
///
/// # Errors
/// `Invalid` for a lease outside `LEASE_MIN..=LEASE_MAX` and past [`LANES_MAX`] lanes.
pub fn check(request: &ClaimRequest) -> crate::Result<()> {
    if let Owner::Consumer { lease: Some(lease) } = request.owner {
        lease.within(LEASE_MIN, LEASE_MAX).map_err(|invalid| invalid.within("lease"))?;
    }
    if request.lanes.len() > LANES_MAX {
        let allowed = format!("at most {LANES_MAX} per claim");
        return Err(Invalid::new("lanes", request.lanes.len(), allowed).into());
    }
    Ok(())
}

/// The part of a claim for one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneClaim {
    /// The lane.
    pub lane: Lane,
    /// Maximum number of first attempts.
    pub first_max: usize,
    /// Maximum number of retries.
    pub retry_max: usize,
}

/// The granted firings of a claim.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Claimed {
    /// The firings: per lane, first attempts in order of their due times, then retries in order of their
    /// times.
    pub firings: Vec<Firing>,
    /// Named lanes that have more to claim.
    pub more: Vec<Lane>,
    /// The same as [`Ready::next_due_in`].
    pub next_due_in: Option<Duration>,
    /// The same for the named lanes only. `None` if nothing is to come, or if the store does not compute it.
    pub next_here: Option<Duration>,
    /// `true`: no other lane of the shard has anything claimable. `false`: not known; call
    /// [`Timers::ready`](crate::Timers::ready).
    pub nothing_else: bool,
}

/// A due occurrence that was claimed under a lease.
#[derive(Debug, Clone, PartialEq)]
pub struct Firing {
    /// The token of the lease. Its holder may settle.
    pub token: Token,
    /// The receiver's idempotency key.
    pub delivery_id: DeliveryId,
    /// The namespace.
    pub namespace: NamespaceName,
    /// The timer.
    pub id: TimerId,
    /// The number of the occurrence.
    pub occurrence: u32,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Number of attempts that had ended when the present retry budget began: not 0 after a redrive.
    pub budget_from: u32,
    /// The due time.
    pub due_at: Timestamp,
    /// The earliest time of this attempt: the due time, or the time of the retry.
    pub claimable_at: Timestamp,
    /// The time since which it has been claimable: `claimable_at`, but not before the last creation or
    /// change by a caller. Lateness is measured from it.
    pub claimable_since: Timestamp,
    /// The end of the lease, by the store's wall clock; the lease of a node has none.
    pub leased_until: Option<Timestamp>,
    /// The lane that it was claimed from.
    pub lane: LaneKey,
    /// The caller's fields of the timer.
    pub spec: Arc<TimerSpec>,
    /// Settings of the namespace at the claim (signing secrets, weight).
    pub settings: Arc<Settings>,
}

impl Firing {
    /// Creates the firing of a timer that was just claimed. `claimable_at` is the earliest time of this
    /// attempt, by the wall clock.
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
            id: timer.id,
            spec: Arc::new(timer.spec),
            settings,
        }
    }

    /// Returns its destination: its own, else that of the namespace.
    pub fn destination(&self) -> &Destination {
        self.spec.destination.as_ref().unwrap_or(&self.settings.destination)
    }

    /// Takes its destination, without a copy if it is its own: the specification is then without it.
    pub fn take_destination(&mut self) -> Destination {
        let own = Arc::make_mut(&mut self.spec).destination.take();
        own.unwrap_or_else(|| self.settings.destination.clone())
    }

    /// Returns the size of all fields of its timer that it holds, in bytes.
    pub fn bytes(&self) -> u64 {
        self.spec.content_bytes()
    }
}
