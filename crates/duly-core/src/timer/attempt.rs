//! The outcome of an attempt, and its effect on the timer.

use std::fmt;

use crate::{DeliveryId, Millis, RetryPolicy, Timer, TimerId, Timestamp, invalid::shorten};

use super::{HISTORY_MAX, REASON_BYTES_MAX};

crate::named_enum! {
    /// The outcome of an attempt.
    pub enum AttemptOutcome {
        /// The receiver confirmed it.
        Delivered = "delivered",
        /// The receiver, or the consumer, reported a failure.
        Failed = "failed",
        /// The receiver did not respond in time.
        TimedOut = "timed_out",
        /// The connection could not be made, so nothing was sent.
        NotConnected = "not_connected",
        /// The connection broke after something was sent.
        ConnectionLost = "connection_lost",
        /// The lease ended before a verdict: the consumer or node is gone, crashed or restarted.
        LeaseLost = "lease_lost",
        /// The receiver, or the consumer, refused the firing for good.
        Rejected = "rejected",
    }

    /// The reason for which a firing was dead-lettered.
    pub enum DeadLetterReason {
        /// No attempts of the retry budget were left.
        AttemptsSpent = "attempts_spent",
        /// The receiver, or the consumer, refused the firing for good.
        Rejected = "rejected",
        /// `expire_after` passed.
        Expired = "expired",
        /// Its record can no longer be read.
        Corrupt = "corrupt",
        /// An operator dead-lettered it because it was overdue, as after a restore.
        Overdue = "overdue",
    }
}

impl AttemptOutcome {
    /// Returns `true` if the firing may have arrived without a confirmation (P4).
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::TimedOut | Self::ConnectionLost | Self::LeaseLost)
    }
}

/// One attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// The start of the attempt.
    pub at: Timestamp,
    /// Its outcome.
    pub outcome: AttemptOutcome,
    /// The reason, for people; at most [`REASON_BYTES_MAX`] bytes.
    pub reason: String,
}

impl Attempt {
    /// Creates an ended attempt. The reason is cut to [`REASON_BYTES_MAX`] bytes at a character boundary.
    pub fn new(attempt: u32, at: Timestamp, outcome: AttemptOutcome, reason: &str) -> Self {
        let end = reason.floor_char_boundary(REASON_BYTES_MAX);
        Self { attempt, at, outcome, reason: reason[..end].to_owned() }
    }
}

/// The time and reason of a dead-lettering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetter {
    /// The time.
    pub at: Timestamp,
    /// The reason.
    pub reason: DeadLetterReason,
}

/// The name of a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeadLetterId {
    /// The latest dead letter of this timer.
    Timer(TimerId),
    /// Exactly this firing.
    Delivery(DeliveryId),
}

impl fmt::Display for DeadLetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timer(id) => f.write_str(&shorten(id.as_str())),
            Self::Delivery(delivery_id) => delivery_id.fmt(f),
        }
    }
}

/// A verdict that ended a lease, kept to recognise a repeated settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The firing was delivered.
    Ack,
    /// The firing is to be tried again.
    Retry,
    /// The firing was dead-lettered.
    Dead,
    /// The firing was returned or put off; the attempt does not count.
    Release,
}

/// A token that was settled, with its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledToken {
    /// The random part of the token.
    pub nonce: u64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Mark of a reason of a namespace's fallback.
pub const FALLBACK: &str = "fallback: ";

/// The step after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// Another attempt, not before this time.
    Retry(Timestamp),
    /// No attempt is left: the firing becomes a dead letter.
    Dead,
}

/// The wait after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The wait of the policy.
    Policy,
    /// The wait of the policy, but at least this (a receiver's `Retry-After`), spread upwards by the
    /// policy's jitter.
    AtLeast(Millis),
    /// Exactly this wait (a consumer's `after`).
    Exactly(Millis),
    /// No wait (a lost lease: the firing is due again).
    None,
}

/// Returns the part of a reason that is Duly's own: of a response the status, and what follows from it. The
/// rest is the words of the receiver, which may repeat the payload and headers that it got.
pub fn own_reason(reason: &str) -> &str {
    let response = reason.strip_prefix(FALLBACK).unwrap_or(reason);
    let Some(status) = response.strip_prefix("HTTP ") else { return reason };
    let digits = status.find(|c: char| !c.is_ascii_digit()).unwrap_or(status.len());
    if digits != 3 {
        return reason;
    }
    // Reasons of older versions have the words directly behind the status.
    let own = match status[digits..].strip_prefix(" (").and_then(|rest| rest.find(')')) {
        Some(length) => digits + " (".len() + length + ")".len(),
        None => digits,
    };
    &reason[..reason.len() - status.len() + own]
}

impl Timer {
    /// Records an attempt that ended without a confirmation, and returns the next step. The wait starts at
    /// `now`. `policy` is the timer's own, or its namespace's.
    pub fn attempt_failed(
        &mut self,
        ended: Attempt,
        wait: Wait,
        policy: &RetryPolicy,
        jitter_seed: u64,
        now: Timestamp,
    ) -> AfterFailure {
        self.attempt_concluded(ended);
        let made = self.attempts.saturating_sub(self.budget_from);
        let Some(by_policy) = policy.wait_after(made, jitter_seed) else {
            return AfterFailure::Dead;
        };
        let wait = match wait {
            Wait::Policy => by_policy,
            Wait::AtLeast(least) => by_policy.max(policy.spread(least, made, jitter_seed)),
            Wait::Exactly(exact) => exact,
            Wait::None => Millis::ZERO,
        };
        let at = now.saturating_add(wait);
        self.next_attempt_at = Some(at);
        AfterFailure::Retry(at)
    }

    /// Records an attempt that was confirmed, or that ended the firing for good.
    pub fn attempt_concluded(&mut self, ended: Attempt) {
        self.attempts = ended.attempt.max(self.attempts);
        self.fired_at.get_or_insert(ended.at);
        self.maybe_delivered |= ended.outcome.is_unknown();
        if self.history.len() >= HISTORY_MAX {
            self.history.remove(0);
        }
        self.history.push(ended);
    }

    /// Records an attempt that its holder put off: it does not count for the retry budget. The next one is not
    /// before `next`.
    pub fn attempt_snoozed(&mut self, attempt: u32, at: Timestamp, next: Timestamp) {
        self.attempts = attempt.max(self.attempts);
        self.budget_from = self.budget_from.saturating_add(1);
        self.fired_at.get_or_insert(at);
        self.next_attempt_at = Some(next);
    }

    /// Makes the timer a dead letter. Its whole record stays, with its reasons.
    pub fn mark_dead_letter(&mut self, at: Timestamp, reason: DeadLetterReason) {
        self.next_attempt_at = None;
        self.dead_letter = Some(DeadLetter { at, reason });
    }

    /// Returns the reason of the last failed attempt, or of its dead-lettering.
    pub fn last_error(&self) -> Option<&str> {
        let attempt = self.history.iter().rev().find(|a| a.outcome != AttemptOutcome::Delivered);
        attempt
            .map(|a| a.reason.as_str())
            .or_else(|| self.dead_letter.map(|dead_letter| dead_letter.reason.as_str()))
    }
}
