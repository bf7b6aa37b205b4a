//! Operations for a batch of one's own, and what becomes of them.

use crate::{
    change::Change,
    schedule::Schedule,
    timer::{Cancelled, Scheduled, Timer},
};

/// One operation of [`Client::batch`](crate::Client::batch).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Operation {
    /// Makes a timer; without an id of yours the client makes one.
    Schedule(Box<Schedule>),
    /// Changes a pending timer.
    Reschedule {
        /// The timer.
        id: String,
        /// What to change.
        change: Box<Change>,
    },
    /// Cancels a timer.
    Cancel {
        /// The timer.
        id: String,
        /// Only if it has this revision.
        if_revision: Option<u32>,
    },
    /// Makes a timer due now, or its next attempt.
    Fire {
        /// The timer.
        id: String,
    },
}

impl Operation {
    /// Changes a pending timer.
    pub fn reschedule(id: impl Into<String>, change: Change) -> Self {
        Self::Reschedule { id: id.into(), change: Box::new(change) }
    }

    /// Cancels a timer, whatever its revision.
    pub fn cancel(id: impl Into<String>) -> Self {
        Self::Cancel { id: id.into(), if_revision: None }
    }

    /// Makes a timer due now, or its next attempt.
    pub fn fire(id: impl Into<String>) -> Self {
        Self::Fire { id: id.into() }
    }
}

impl From<Schedule> for Operation {
    fn from(schedule: Schedule) -> Self {
        Self::Schedule(Box::new(schedule))
    }
}

/// What became of an operation that was not refused. Timers are shown without payload and headers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Done {
    /// Of a schedule.
    Scheduled(Box<Scheduled>),
    /// Of a reschedule or fire: the timer as it is now.
    Changed(Box<Timer>),
    /// Of a cancel.
    Cancelled(Cancelled),
}
