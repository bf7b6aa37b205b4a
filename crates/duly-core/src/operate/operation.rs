//! The operations of callers.

use crate::{
    Incarnation, Millis, Schedule, State, Timer, TimerId, TimerView, Timestamp,
    schedule::{IfExists, Patch},
    timer::DeadLetterId,
};

/// An operation of a caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Schedules a timer.
    Schedule {
        /// The request.
        schedule: Box<Schedule>,
        /// The mode for an existing timer with this id.
        if_exists: IfExists,
    },
    /// Imports a timer or a dead letter of another store. Incarnation, occurrence, attempts and times stay,
    /// so the delivery id stays too. If this store has had the timer before, in any state, the result is the
    /// timer as it is now, so an import can be repeated.
    Import {
        /// The timer of the other store. With a [`Timer::dead_letter`] it is a dead letter.
        timer: Box<Timer>,
    },
    /// Changes a pending timer.
    Reschedule {
        /// The timer.
        id: TimerId,
        /// The change.
        patch: Box<Patch>,
        /// The revision that it must have, if given; checked before its state.
        if_revision: Option<u32>,
    },
    /// Cancels a timer.
    Cancel {
        /// The timer.
        id: TimerId,
        /// The revision that it must have, if given; checked before its state.
        if_revision: Option<u32>,
    },
    /// Cancels a timer. A timer in flight is stopped instead: no attempt follows the one under way. If that
    /// attempt succeeds, the timer is finished; otherwise the timer is cancelled when the attempt ends.
    CancelOrStop {
        /// The timer.
        id: TimerId,
        /// The revision that it must have, if given; checked before its state.
        if_revision: Option<u32>,
        /// The timer that was seen in a list, if it must still be that one; otherwise it is not found.
        seen: Option<Seen>,
    },
    /// Cancels a timer if it is still the one that was seen in a list; otherwise it is not found.
    CancelSeen {
        /// The timer.
        id: TimerId,
        /// The values that the list showed.
        seen: Seen,
    },
    /// Makes a timer due now, or its next attempt if it waits for one.
    Fire {
        /// The timer.
        id: TimerId,
    },
    /// Dead-letters an overdue timer instead of delivering it. The timer must be due or retrying, not
    /// leased, and its due time not after `if_due_by`. The operation also works in a paused namespace. A
    /// dead letter stays as it is, so the call can be repeated.
    DeadLetter {
        /// The timer.
        id: TimerId,
        /// The latest due time that counts as overdue.
        if_due_by: Timestamp,
    },
    /// Delivers a dead letter again, `delay` after the store accepts the call.
    Redrive {
        /// The dead letter.
        letter: DeadLetterId,
        /// The wait before the next attempt.
        delay: Millis,
    },
    /// Removes a dead letter for good.
    Purge {
        /// The dead letter.
        letter: DeadLetterId,
    },
    /// Removes the tombstone of an ended timer for good. After that the id is as if it had never been used:
    /// a repetition of an earlier request makes a new timer.
    Forget {
        /// The timer.
        id: TimerId,
    },
}

/// The values by which a timer of a list is recognised. The revision alone is not enough: a new timer with
/// the same id also begins at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its revision.
    pub revision: u32,
    /// Its state, if the state must still be the same.
    pub state: Option<State>,
}

impl Seen {
    /// Returns `true` if `view` is still the timer that was seen.
    pub fn is(&self, view: &TimerView) -> bool {
        self.state.is_none_or(|state| view.state == state)
            && view.timer().is_some_and(|timer| {
                (timer.incarnation, timer.revision) == (self.incarnation, self.revision)
            })
    }
}

/// The amount of a timer that a store has to load for an operation or a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The head. For a timer without an attempt: its state and due time. For a leased timer: the values that
    /// a tombstone keeps. An index entry, or what a claim left in memory, is enough; nothing is read.
    Head,
    /// The whole record.
    Whole,
}

impl Operation {
    /// Returns how much of the timer the store has to load.
    pub const fn level(&self) -> Level {
        match self {
            Self::Cancel { if_revision: None, .. } => Level::Head,
            _ => Level::Whole,
        }
    }

    /// Returns the id that it names; `None` for a dead letter named by its delivery id.
    pub const fn id(&self) -> Option<&TimerId> {
        match self {
            Self::Schedule { schedule, .. } => Some(&schedule.id),
            Self::Import { timer } => Some(&timer.id),
            Self::Reschedule { id, .. }
            | Self::Cancel { id, .. }
            | Self::CancelOrStop { id, .. }
            | Self::CancelSeen { id, .. }
            | Self::Fire { id }
            | Self::DeadLetter { id, .. }
            | Self::Forget { id }
            | Self::Redrive { letter: DeadLetterId::Timer(id), .. }
            | Self::Purge { letter: DeadLetterId::Timer(id) } => Some(id),
            Self::Redrive { letter: DeadLetterId::Delivery(_), .. }
            | Self::Purge { letter: DeadLetterId::Delivery(_) } => None,
        }
    }

    /// Returns the dead letter that it names.
    pub const fn letter(&self) -> Option<&DeadLetterId> {
        match self {
            Self::Redrive { letter, .. } | Self::Purge { letter } => Some(letter),
            _ => None,
        }
    }
}
