//! What callers can ask for.

use std::fmt;

use crate::{
    DeliveryId, Incarnation, Millis, Schedule, State, Timer, TimerId, TimerView, Timestamp,
    schedule::{IfExists, Patch},
};

/// What a caller can ask for.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// Schedule a timer.
    Schedule {
        /// The request.
        schedule: Box<Schedule>,
        /// What an existing timer with this id means.
        if_exists: IfExists,
    },
    /// Take a timer, or a dead letter, as another store had it: incarnation, occurrence, attempts
    /// and times stay, so that its delivery id does. One that has been here before, in whatever
    /// state, is the answer as it is, so that an import can be repeated.
    Import {
        /// As it was. With a [`Timer::dead_letter`] it is a dead letter.
        timer: Box<Timer>,
    },
    /// Change a pending timer.
    Reschedule {
        /// Which.
        id: TimerId,
        /// How.
        patch: Box<Patch>,
        /// Only if it has this revision; checked before its state.
        if_revision: Option<u32>,
    },
    /// Cancel a timer.
    Cancel {
        /// Which.
        id: TimerId,
        /// Only if it has this revision; checked before its state.
        if_revision: Option<u32>,
    },
    /// Cancel a timer if it is still the one that was seen in a list; otherwise it is not found.
    CancelSeen {
        /// Which.
        id: TimerId,
        /// What was seen of it.
        seen: Seen,
    },
    /// Make it due now, or its next attempt.
    Fire {
        /// Which.
        id: TimerId,
    },
    /// Make a dead letter of a timer that is overdue, instead of delivering it: a due or retrying
    /// one, not leased, whose due time is not after `if_due_by`. Paused namespaces allow it; a dead
    /// letter stays what it is, so that the call can be repeated.
    DeadLetter {
        /// Which.
        id: TimerId,
        /// Only if it was due then already.
        if_due_by: Timestamp,
    },
    /// Send a dead letter again, `delay` after the store takes it.
    Redrive {
        /// Which dead letter.
        letter: DeadLetterId,
        /// How long to wait first.
        delay: Millis,
    },
    /// Drop a dead letter for good.
    Purge {
        /// Which dead letter.
        letter: DeadLetterId,
    },
}

/// What was seen of a timer. The revision alone would not tell it from a new timer of the same id:
/// both begin at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its revision.
    pub revision: u32,
    /// Its state, where that matters.
    pub state: Option<State>,
}

impl Seen {
    /// Returns `true` if this is still it.
    pub fn is(&self, view: &TimerView) -> bool {
        self.state.is_none_or(|state| view.state == state)
            && view.timer().is_some_and(|timer| {
                (timer.incarnation, timer.revision) == (self.incarnation, self.revision)
            })
    }
}

/// Names a dead letter.
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
            Self::Timer(id) => f.write_str(&crate::invalid::shorten(id.as_str())),
            Self::Delivery(delivery_id) => delivery_id.fmt(f),
        }
    }
}

/// How much of a timer a store has to know for an operation or a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Without an attempt: its state and due time. Under a lease: what a tombstone keeps. So an index entry,
    /// or what a claim left in memory, is enough, and nothing is read.
    Head,
    /// The whole record.
    Whole,
}

impl Operation {
    /// How much of the timer the store has to know.
    pub const fn level(&self) -> Level {
        match self {
            Self::Cancel { if_revision: None, .. } => Level::Head,
            _ => Level::Whole,
        }
    }

    /// The id that it names; `None` for a dead letter named by its delivery id.
    pub const fn id(&self) -> Option<&TimerId> {
        match self {
            Self::Schedule { schedule, .. } => Some(&schedule.id),
            Self::Import { timer } => Some(&timer.id),
            Self::Reschedule { id, .. }
            | Self::Cancel { id, .. }
            | Self::CancelSeen { id, .. }
            | Self::Fire { id }
            | Self::DeadLetter { id, .. }
            | Self::Redrive { letter: DeadLetterId::Timer(id), .. }
            | Self::Purge { letter: DeadLetterId::Timer(id) } => Some(id),
            Self::Redrive { letter: DeadLetterId::Delivery(_), .. }
            | Self::Purge { letter: DeadLetterId::Delivery(_) } => None,
        }
    }

    /// The dead letter that it names.
    pub const fn letter(&self) -> Option<&DeadLetterId> {
        match self {
            Self::Redrive { letter, .. } | Self::Purge { letter } => Some(letter),
            _ => None,
        }
    }
}
