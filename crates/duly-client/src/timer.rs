//! A timer as the server shows it.

use std::time::{Duration, SystemTime};

use duly_core::State;

use crate::{
    destination::{Destination, RetryPolicy},
    payload::Payload,
};

/// A timer, its tombstone, or its dead letter; a field is absent where it has none.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Timer {
    /// The namespace that it is in.
    pub namespace: String,
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub state: State,
    /// Whether it has ended and only this is left of it.
    pub tombstone: bool,
    /// When it is, or was, due.
    pub due_at: Option<SystemTime>,
    /// 1 at creation, and one more at every change by a caller.
    pub revision: Option<u32>,
    /// Which firing it is.
    pub occurrence: Option<u32>,
    /// The receiver's idempotency key of this firing.
    pub delivery_id: Option<String>,
    /// What it carries; only [`Client::get`](crate::Client::get), lists, and what an
    /// [`unbatched`](crate::Client::unbatched) client changed show it.
    pub payload: Option<Payload>,
    /// Headers that travel with it; shown where the payload is.
    pub headers: Vec<(String, String)>,
    /// Tags to find it by.
    pub tags: Vec<String>,
    /// Key by which a broker partitions.
    pub slot_key: Option<String>,
    /// Its own destination.
    pub destination: Option<Destination>,
    /// Its own retry policy.
    pub retry: Option<RetryPolicy>,
    /// Later than this after due it becomes a dead letter.
    pub expire_after: Option<Duration>,
    /// When it was made, or replaced.
    pub created_at: Option<SystemTime>,
    /// When a caller last changed it.
    pub updated_at: Option<SystemTime>,
    /// Attempts begun, the one under way included.
    pub attempts: u32,
    /// An attempt began whose outcome is not known.
    pub maybe_delivered: bool,
    /// When the next attempt may start, after a failed one.
    pub next_attempt_at: Option<SystemTime>,
    /// When the lease ends, while in flight.
    pub leased_until: Option<SystemTime>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// The last attempts, oldest first.
    pub history: Vec<Attempt>,
    /// When the first attempt began.
    pub fired_at: Option<SystemTime>,
    /// When its delivery was confirmed.
    pub finished_at: Option<SystemTime>,
    /// When it was cancelled.
    pub cancelled_at: Option<SystemTime>,
    /// When it was given up.
    pub dead_at: Option<SystemTime>,
    /// Why it was given up: `attempts_spent`, `rejected`, `expired`, `corrupt` or `overdue`.
    pub dead_reason: Option<String>,
}

/// One attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// When it began.
    pub at: Option<SystemTime>,
    /// How it ended: `delivered`, `failed`, `lease_lost` and others.
    pub outcome: String,
    /// Why.
    pub reason: String,
}

/// What a schedule came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A new timer was made.
    Created,
    /// The timer was there: by the same request, or by an earlier try of this very call.
    Existing,
    /// It took the place of a pending one.
    Replaced,
}

/// The answer to a schedule.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Scheduled {
    /// What it came to.
    pub outcome: Outcome,
    /// The timer; without payload and headers, unless the client is
    /// [`unbatched`](crate::Client::unbatched).
    pub timer: Timer,
}

/// The answer to a cancel: the timer is cancelled, and is never delivered after this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cancelled {
    /// Attempts that were made before.
    pub attempts: u32,
    /// Whether one of them may have arrived.
    pub maybe_delivered: bool,
    /// It had been cancelled before, maybe by an earlier try of this very call.
    pub already: bool,
}
