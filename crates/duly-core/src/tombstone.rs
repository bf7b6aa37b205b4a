//! Tombstones: the remains of a finished or cancelled timer, kept for `retention`.

use crate::{
    Incarnation, State, Timer, TimerId, Timestamp,
    request_hash::RequestHash,
    timer::{Attempt, SettledToken, Verdict},
};

/// The way in which a timer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// Delivered and confirmed.
    Finished,
    /// Cancelled.
    Cancelled,
}

impl Ended {
    /// Returns the state of such a timer.
    pub const fn state(self) -> State {
        match self {
            Self::Finished => State::Finished,
            Self::Cancelled => State::Cancelled,
        }
    }
}

/// The remains of an ended timer. A cancel that did not read the record leaves only the id, the due time and
/// the time of the cancel.
#[derive(Debug, Clone, PartialEq)]
pub struct Tombstone {
    /// The caller's id.
    pub id: TimerId,
    /// Finished or cancelled.
    pub ended: Ended,
    /// The time at which it ended.
    pub ended_at: Timestamp,
    /// The due time.
    pub due_at: Timestamp,
    /// Attempts of its last occurrence.
    pub attempts: u32,
    /// `true`: the outcome of an attempt is not known.
    pub maybe_delivered: bool,
    /// Fields of the record; `None` if the record was not read.
    pub details: Option<Box<Details>>,
}

/// The part of a tombstone that comes from the timer's record.
#[derive(Debug, Clone, PartialEq)]
pub struct Details {
    /// The time at which the timer was created.
    pub created_at: Timestamp,
    /// The time of the last change by a caller.
    pub updated_at: Timestamp,
    /// Its revision.
    pub revision: u32,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its occurrence.
    pub occurrence: u32,
    /// Hash of the request that created it.
    pub request_hash: RequestHash,
    /// The start of the first attempt.
    pub fired_at: Option<Timestamp>,
    /// Number of attempts that did not count for the retry policy.
    pub uncounted: u32,
    /// Its last attempts.
    pub history: Vec<Attempt>,
    /// The token that was settled last.
    pub settled: Option<SettledToken>,
}

impl Tombstone {
    /// Creates the tombstone of a timer from its record.
    pub fn of(timer: &Timer, ended: Ended, ended_at: Timestamp) -> Self {
        Self {
            id: timer.id.clone(),
            ended,
            ended_at,
            due_at: timer.due_at,
            attempts: timer.attempts,
            maybe_delivered: timer.maybe_delivered,
            details: Some(Box::new(Details {
                created_at: timer.created_at,
                updated_at: timer.updated_at,
                revision: timer.revision,
                incarnation: timer.incarnation,
                occurrence: timer.occurrence,
                request_hash: timer.request_hash,
                fired_at: timer.fired_at,
                uncounted: timer.budget_from,
                history: timer.history.clone(),
                settled: timer.last_settled,
            })),
        }
    }

    /// Returns the token that was settled last. A timer that was cancelled before an attempt had failed has
    /// none, because a store may cancel it without its record.
    pub fn settled(&self) -> Option<SettledToken> {
        let settled = self.details.as_ref()?.settled?;
        let is_of_failure = matches!(settled.verdict, Verdict::Retry | Verdict::Dead);
        match self.ended {
            Ended::Finished => Some(settled),
            Ended::Cancelled => Some(settled).filter(|_| self.attempts > 0 && is_of_failure),
        }
    }

    /// Creates the tombstone of a timer that was cancelled before any attempt, without reading its record.
    pub const fn cancelled_without_record(
        id: TimerId,
        due_at: Timestamp,
        ended_at: Timestamp,
    ) -> Self {
        Self {
            id,
            ended: Ended::Cancelled,
            ended_at,
            due_at,
            attempts: 0,
            maybe_delivered: false,
            details: None,
        }
    }
}
