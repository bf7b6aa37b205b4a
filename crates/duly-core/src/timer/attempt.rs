//! How an attempt ended, and what follows from it.

use crate::{Millis, RetryPolicy, Timer, Timestamp};

use super::{HISTORY_MAX, REASON_BYTES_MAX};

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptOutcome {
    /// The receiver confirmed it.
    Delivered,
    /// The receiver, or the consumer, said no.
    Failed,
    /// No answer in time.
    TimedOut,
    /// The connection could not be made, so nothing was sent.
    NotConnected,
    /// The connection broke after something was sent.
    ConnectionLost,
    /// The lease ended before a verdict: worker gone, crash, restart.
    LeaseLost,
    /// The receiver, or the consumer, said never again.
    Rejected,
}

impl AttemptOutcome {
    /// Every outcome.
    pub const ALL: [Self; 7] = [
        Self::Delivered,
        Self::Failed,
        Self::TimedOut,
        Self::NotConnected,
        Self::ConnectionLost,
        Self::LeaseLost,
        Self::Rejected,
    ];

    /// The word of the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::NotConnected => "not_connected",
            Self::ConnectionLost => "connection_lost",
            Self::LeaseLost => "lease_lost",
            Self::Rejected => "rejected",
        }
    }

    /// Whether the receiver may have it although nobody said so (P4).
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::TimedOut | Self::ConnectionLost | Self::LeaseLost)
    }
}

/// One attempt that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, from 1.
    pub attempt: u32,
    /// When it began.
    pub at: Timestamp,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Why, for a person; at most [`REASON_BYTES_MAX`] bytes.
    pub reason: String,
}

impl Attempt {
    /// An ended attempt; the reason is cut to [`REASON_BYTES_MAX`] bytes at a character.
    pub fn new(attempt: u32, at: Timestamp, outcome: AttemptOutcome, reason: &str) -> Self {
        let end = reason.floor_char_boundary(REASON_BYTES_MAX);
        Self { attempt, at, outcome, reason: reason[..end].to_owned() }
    }
}

/// Why a firing was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadLetterReason {
    /// The retry budget was spent.
    AttemptsSpent,
    /// The receiver or consumer said never again.
    Rejected,
    /// `expire_after` passed.
    Expired,
    /// Its record cannot be read any more.
    Corrupt,
    /// An operator gave it up because it was overdue, as after a restore.
    Overdue,
}

impl DeadLetterReason {
    /// Every reason.
    pub const ALL: [Self; 5] =
        [Self::AttemptsSpent, Self::Rejected, Self::Expired, Self::Corrupt, Self::Overdue];

    /// The word of the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AttemptsSpent => "attempts_spent",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Corrupt => "corrupt",
            Self::Overdue => "overdue",
        }
    }
}

/// When and why a firing was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetter {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: DeadLetterReason,
}

/// What a holder said of its token, to recognise the same settle again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Confirmed.
    Ack,
    /// To be tried again.
    Retry,
    /// Given up.
    Dead,
    /// Handed back uncounted.
    Release,
}

/// A token that was settled, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledToken {
    /// The random part of the token.
    pub nonce: u64,
    /// What was said.
    pub verdict: Verdict,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another attempt, not before this time.
    Retry(Timestamp),
    /// The budget is spent.
    Dead,
}

/// How long a failed attempt waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// As the policy says.
    Policy,
    /// As the policy says, but at least this (a receiver's `Retry-After`).
    AtLeast(Millis),
    /// Exactly this (a consumer's `after`).
    Exactly(Millis),
    /// Not at all (a lost lease: the firing is due again).
    None,
}

impl Timer {
    /// Records that an attempt ended without a confirmation and says what follows. `now` is when
    /// the wait starts; `policy` is the timer's own or its namespace's.
    pub fn attempt_failed(
        &mut self,
        ended: Attempt,
        wait: Wait,
        policy: &RetryPolicy,
        jitter_seed: u64,
        now: Timestamp,
    ) -> Next {
        self.attempts = ended.attempt.max(self.attempts);
        self.maybe_delivered |= ended.outcome.is_unknown();
        self.fired_at.get_or_insert(ended.at);
        self.remember(ended);
        let made = self.attempts.saturating_sub(self.budget_from);
        let Some(by_policy) = policy.wait_after(made, jitter_seed) else {
            return Next::Dead;
        };
        let wait = match wait {
            Wait::Policy => by_policy,
            Wait::AtLeast(least) => by_policy.max(least),
            Wait::Exactly(exact) => exact,
            Wait::None => Millis::ZERO,
        };
        let at = now.saturating_add(wait);
        self.next_attempt_at = Some(at);
        Next::Retry(at)
    }

    /// Records an attempt that confirmed, or that ended the firing for good.
    pub fn attempt_concluded(&mut self, ended: Attempt) {
        self.attempts = ended.attempt.max(self.attempts);
        self.fired_at.get_or_insert(ended.at);
        self.maybe_delivered |= ended.outcome.is_unknown();
        self.remember(ended);
    }

    /// Gives the firing up; it stays whole, with its reasons.
    pub fn die(&mut self, at: Timestamp, reason: DeadLetterReason) {
        self.next_attempt_at = None;
        self.dead_letter = Some(DeadLetter { at, reason });
    }

    /// The reason of the last attempt that failed, or of its death.
    pub fn last_error(&self) -> Option<&str> {
        let attempt = self.history.iter().rev().find(|a| a.outcome != AttemptOutcome::Delivered);
        attempt
            .map(|a| a.reason.as_str())
            .or_else(|| self.dead_letter.map(|dead_letter| dead_letter.reason.as_str()))
    }

    fn remember(&mut self, ended: Attempt) {
        if self.history.len() >= HISTORY_MAX {
            self.history.remove(0);
        }
        self.history.push(ended);
    }
}
