//! A tombstone: what stays of a finished or cancelled timer for `retention`.

use crate::{
    Incarnation, State, Timer, TimerId, Timestamp,
    request_hash::RequestHash,
    timer::{Attempt, SettledToken},
};

/// How a timer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// Delivered and confirmed.
    Finished,
    /// Cancelled.
    Cancelled,
}

impl Ended {
    /// The state that goes with it.
    pub const fn state(self) -> State {
        match self {
            Self::Finished => State::Finished,
            Self::Cancelled => State::Cancelled,
        }
    }
}

/// What stays of an ended timer. A cancel that needed no look at the record leaves only id, due
/// time and when it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Tombstone {
    /// The caller's id.
    pub id: TimerId,
    /// How it ended.
    pub ended: Ended,
    /// When it ended.
    pub ended_at: Timestamp,
    /// When it was due.
    pub due_at: Timestamp,
    /// Attempts of its last occurrence.
    pub attempts: u32,
    /// An attempt began whose outcome is not known.
    pub maybe_delivered: bool,
    /// What only the record knew.
    pub details: Option<Box<Details>>,
}

/// The part of a tombstone that comes from the timer's record.
#[derive(Debug, Clone, PartialEq)]
pub struct Details {
    /// When the timer was made.
    pub created_at: Timestamp,
    /// When a caller last changed it.
    pub updated_at: Timestamp,
    /// Its revision.
    pub revision: u32,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its occurrence.
    pub occurrence: u32,
    /// Hash of the request that made it.
    pub request_hash: RequestHash,
    /// When the first attempt began.
    pub fired_at: Option<Timestamp>,
    /// Its last attempts.
    pub history: Vec<Attempt>,
    /// The token whose settle ended it.
    pub settled: Option<SettledToken>,
}

impl Tombstone {
    /// The tombstone of a timer whose record is at hand.
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
                history: timer.history.clone(),
                settled: timer.last_settled,
            })),
        }
    }

    /// Returns the token whose settle ended the timer. A cancelled one forgets its tokens: a store may cancel
    /// without its record.
    pub fn settled(&self) -> Option<SettledToken> {
        match self.ended {
            Ended::Finished => self.details.as_ref()?.settled,
            Ended::Cancelled => None,
        }
    }

    /// The tombstone of a timer that was cancelled before any attempt, without a look at its record.
    pub const fn cancelled_unread(id: TimerId, due_at: Timestamp, ended_at: Timestamp) -> Self {
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
