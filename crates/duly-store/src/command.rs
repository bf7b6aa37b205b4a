//! What callers ask of timers, item by item.

use std::{sync::Arc, time::Duration};

use duly_core::{
    Code, DeliveryId, Incarnation, Invalid, Millis, NamespaceName, Schedule, State, Timer, TimerId,
    Timestamp,
    limits::Exceeded,
    schedule::{IfExists, Patch, When},
    shard::{ShardId, shard_of},
};

use crate::{Error, Limit, TimerView, query::Body};

/// Most commands of one call to [`crate::Store::apply`]; more refuse the call.
pub const COMMANDS_MAX: usize = 10_000;

/// Refuses a call of too many commands.
///
/// # Errors
/// `Invalid` past [`COMMANDS_MAX`].
pub fn check_count(count: usize) -> crate::Result<()> {
    if count <= COMMANDS_MAX {
        return Ok(());
    }
    Err(Invalid::new("operations", count, format!("at most {COMMANDS_MAX} a call")).into())
}

/// One operation in one namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// The namespace.
    pub namespace: NamespaceName,
    /// What to do.
    pub operation: Operation,
    /// How much of the timer the outcome shows.
    pub answer: Answer,
}

impl Answer {
    /// Refuses to show a timer that takes more memory than is allowed.
    ///
    /// # Errors
    /// [`Error::TooLarge`] with what it takes.
    pub fn check(self, view: &TimerView) -> crate::Result<()> {
        match self {
            Self::Within(bytes_max) => view.check_memory(bytes_max),
            Self::Whole | Self::Brief => Ok(()),
        }
    }
}

impl Command {
    /// The shard that it belongs to; `None` for a dead letter named by its delivery id, which tells
    /// no shard: ask every one.
    pub fn shard(&self, shards: u16) -> Option<ShardId> {
        let id = match &self.operation {
            Operation::Schedule { schedule, .. } => &schedule.id,
            Operation::Import { timer } => &timer.id,
            Operation::Reschedule { id, .. }
            | Operation::Cancel { id, .. }
            | Operation::CancelSeen { id, .. }
            | Operation::Fire { id }
            | Operation::DeadLetter { id, .. }
            | Operation::Redrive { letter: Letter::Timer(id), .. }
            | Operation::Purge { letter: Letter::Timer(id) } => id,
            Operation::Redrive { letter: Letter::Delivery(_), .. }
            | Operation::Purge { letter: Letter::Delivery(_) } => return None,
        };
        Some(shard_of(self.namespace.as_str(), id.as_str(), shards))
    }
}

/// How much of a timer an outcome shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answer {
    /// Everything.
    #[default]
    Whole,
    /// Everything, if the timer takes at most so many bytes of memory ([`TimerView::memory_bytes`]).
    /// Where one that the store has read takes more, the operation fails with [`Error::TooLarge`] and
    /// changes nothing.
    Within(u64),
    /// Without payload and headers: the answer to a large batch stays bounded (P10).
    Brief,
}

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
        letter: Letter,
        /// How long to wait first.
        delay: Millis,
    },
    /// Drop a dead letter for good.
    Purge {
        /// Which dead letter.
        letter: Letter,
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
    /// Whether this is still it.
    pub fn is(&self, view: &TimerView) -> bool {
        self.state.is_none_or(|state| view.state == state)
            && view.timer().is_some_and(|timer| {
                (timer.incarnation, timer.revision) == (self.incarnation, self.revision)
            })
    }
}

/// Names a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Letter {
    /// The latest dead letter of this timer.
    Timer(TimerId),
    /// Exactly this firing.
    Delivery(DeliveryId),
}

/// What became of one operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A new timer was made, or one was imported.
    Created(Arc<TimerView>),
    /// The existing timer is the answer; nothing changed.
    Existing(Arc<TimerView>),
    /// A new incarnation took the place of the pending timer.
    Replaced(Arc<TimerView>),
    /// The timer was changed (reschedule, fire, redrive, give up).
    Changed(Arc<TimerView>),
    /// Nothing had to change (fire of a due or running firing, giving up a dead letter).
    Unchanged(Arc<TimerView>),
    /// The timer was cancelled: no claim will be granted.
    Cancelled {
        /// Attempts that were made.
        attempts: u32,
        /// Whether one of them may have arrived.
        maybe_delivered: bool,
        /// Whether it had been cancelled before.
        already: bool,
    },
    /// The dead letter was dropped.
    Purged,
    /// Refused; nothing changed.
    Refused(Refusal),
    /// Not done, or not known to be done, as the error says; other items of the call stand.
    Failed(Error),
}

impl Outcome {
    /// The same outcome, showing no more than `answer` asks for.
    #[must_use]
    pub fn answering(mut self, answer: Answer) -> Self {
        if answer == Answer::Brief
            && let Self::Created(view)
            | Self::Existing(view)
            | Self::Replaced(view)
            | Self::Changed(view)
            | Self::Unchanged(view) = &mut self
            && let Body::Whole(timer) = &mut Arc::make_mut(view).body
        {
            timer.payload = None;
            timer.headers = duly_core::headers::Headers::default();
        }
        self
    }
}

/// Why one operation was refused. It changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A value is not allowed.
    #[error("{0}")]
    Invalid(Invalid),
    /// No namespace of this name.
    #[error("there is no namespace {0:?}")]
    UnknownNamespace(NamespaceName),
    /// No such timer or dead letter.
    #[error("there is no timer {0}")]
    NotFound(String),
    /// The timer is in a state that does not allow it.
    #[error("timer {id} is {state}")]
    State {
        /// Which timer.
        id: TimerId,
        /// Its state.
        state: State,
        /// The code of the contract: the state's own, or `already_exists`.
        code: Code,
        /// When its lease ends, if it is in flight.
        leased_until: Option<Timestamp>,
        /// Attempts so far.
        attempts: u32,
        /// Whether one of them may have arrived.
        maybe_delivered: bool,
    },
    /// The timer has another revision.
    #[error("timer {id} has revision {actual}, not {expected}")]
    Revision {
        /// Which timer.
        id: TimerId,
        /// The revision asked for.
        expected: u32,
        /// The revision it has.
        actual: u32,
    },
    /// The payload is larger than the namespace allows.
    #[error("the payload has {bytes} bytes; namespace {namespace} allows {bytes_max}")]
    PayloadTooLarge {
        /// The namespace.
        namespace: NamespaceName,
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// A limit of the namespace or of the store is reached.
    #[error("{reason}")]
    Exhausted {
        /// Which one.
        limit: Limit,
        /// The same for a person, and what to do.
        reason: String,
        /// When another try can help, if waiting helps.
        retry_after: Option<Millis>,
    },
}

impl Refusal {
    /// That a timer exceeds a limit of its namespace.
    pub fn exceeded(namespace: &NamespaceName, exceeded: Exceeded) -> Self {
        match exceeded {
            Exceeded::Payload { bytes, bytes_max } => {
                Self::PayloadTooLarge { namespace: namespace.clone(), bytes, bytes_max }
            }
            Exceeded::Delay { when, max_delay } => {
                let allowed = format!(
                    "at most {max_delay} from now (limits.max_delay of namespace {namespace})"
                );
                Self::Invalid(match when {
                    When::At(due_at) => Invalid::new("due_at", due_at, allowed),
                    When::After(delay) => Invalid::new("delay", delay, allowed),
                })
            }
        }
    }

    /// That a namespace has room for no more pending timers.
    pub fn pending_full(namespace: &NamespaceName, max_pending: u64) -> Self {
        let reason = format!(
            "namespace {namespace} has {max_pending} pending timers, its limit: cancel some, wait until \
             some have fired, or raise limits.max_pending"
        );
        let retry_after = Some(Millis::from_secs(1));
        Self::Exhausted { limit: Limit::MaxPending, reason, retry_after }
    }

    /// That a namespace has room for no more dead letters.
    pub fn dead_letters_full(namespace: &NamespaceName, max_dead: u64) -> Self {
        let reason = format!(
            "namespace {namespace} has {max_dead} dead letters, its limit: redrive or purge some, or \
             raise limits.max_dead"
        );
        Self::Exhausted { limit: Limit::MaxDead, reason, retry_after: None }
    }

    /// That a namespace has taken as many schedules as its rate allows; another fits after `wait`.
    pub fn schedules_too_fast(namespace: &NamespaceName, per_second: u32, wait: Duration) -> Self {
        let wait_ms = u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
        let reason = format!(
            "namespace {namespace} takes {per_second} schedules a second, its \
             limits.schedule_per_second: repeat the call after the wait, or raise the limit"
        );
        let retry_after = Some(Millis::from_ms(wait_ms.max(1)));
        Self::Exhausted { limit: Limit::SchedulePerSecond, reason, retry_after }
    }

    /// The stable code of the contract.
    pub const fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidArgument,
            Self::UnknownNamespace(_) | Self::NotFound(_) => Code::NotFound,
            Self::State { code, .. } => *code,
            Self::Revision { .. } => Code::RevisionMismatch,
            Self::PayloadTooLarge { .. } => Code::PayloadTooLarge,
            Self::Exhausted { .. } => Code::ResourceExhausted,
        }
    }
}
