//! Pulling by hand: leases, and verdicts on them.
//!
//! [`Client::consume`](crate::Client::consume) does all of this by itself; these are for work that
//! must outlive a connection, or that is handed on to other processes with its token.

use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;

use crate::{error::Invalid, payload::Payload};

/// A due occurrence under a lease.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Firing {
    /// Names the lease: who holds it may settle.
    pub token: String,
    /// The idempotency key, the same in every attempt.
    pub delivery_id: String,
    /// The timer.
    pub id: String,
    /// Which firing of the timer.
    pub occurrence: u32,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When it was due.
    pub due_at: Option<SystemTime>,
    /// When the lease ends, if nobody extends it.
    pub leased_until: Option<SystemTime>,
    /// Headers that travel with it.
    pub headers: Vec<(String, String)>,
    /// Key by which a broker partitions.
    pub slot_key: Option<String>,
    /// What it carries.
    pub payload: Option<Payload>,
}

impl Firing {
    /// Reads the payload as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Invalid> {
        self.payload.as_ref().ok_or_else(|| Invalid::unseen("payload", "there"))?.to_json()
    }

    /// Reads the payload as text; empty where there is none.
    pub fn text(&self) -> Result<&str, Invalid> {
        self.payload.as_ref().map_or(Ok(""), Payload::to_text)
    }
}

/// What to lease.
#[derive(Debug, Clone, Default)]
pub struct Lease {
    pub(crate) max: Option<u32>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) lease: Option<Duration>,
    pub(crate) wait: Duration,
}

impl Lease {
    /// At most so many firings, 1 to 10,000.
    #[must_use]
    pub fn up_to(max: u32) -> Self {
        Self { max: Some(max), ..Self::default() }
    }

    /// At most so many bytes of payloads and headers, 32 MiB at most; the first firing comes
    /// whatever its size.
    #[must_use]
    pub const fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = Some(max_bytes);
        self
    }

    /// How long the lease is, 1 s to 12 h; the namespace's without this.
    #[must_use]
    pub const fn lasting(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// How long to wait for the first firing, at most 60 s; not at all without this.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }
}

/// The firings that were granted, in due order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Leased {
    /// The firings.
    pub firings: Vec<Firing>,
    /// The namespace is paused, so there are none.
    pub paused: bool,
}

/// What becomes of a firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Delivered.
    Ack,
    /// Not delivered; to be tried again.
    Retry {
        /// Exactly how long to wait, at most 30 days; by the retry policy when absent.
        after: Option<Duration>,
        /// Why, for a person.
        reason: Option<String>,
    },
    /// Never to be tried again.
    Dead {
        /// Why, for a person.
        reason: String,
    },
    /// The lease is to end later.
    Extend {
        /// How long from now, 1 s to 12 h; it ends at most 12 h after the claim.
        lease: Duration,
    },
}

/// A verdict on one leased firing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The token of the lease.
    pub token: String,
    /// The verdict.
    pub verdict: Verdict,
}

impl Settlement {
    /// A verdict on the lease of this token.
    pub fn new(token: impl Into<String>, verdict: Verdict) -> Self {
        Self { token: token.into(), verdict }
    }

    /// Delivered.
    pub fn ack(token: impl Into<String>) -> Self {
        Self::new(token, Verdict::Ack)
    }
}

/// What became of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Taken.
    Done,
    /// Taken; that retry was the last attempt, so it is a dead letter now.
    Dead,
    /// The same token was settled the same way before.
    Already,
    /// The lease is not held any more; nothing changed.
    LeaseLost,
    /// No token of this store or namespace.
    InvalidToken,
}
