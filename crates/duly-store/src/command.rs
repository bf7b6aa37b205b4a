//! What callers ask of timers, item by item.

use std::sync::Arc;

pub use duly_core::operate::{DeadLetterId, Operation, Seen};
use duly_core::{
    Invalid, NamespaceName, Refusal, Timestamp,
    operate::{Decision, Reply},
    shard::{ShardId, shard_of},
    view::{Body, TooLarge},
};

use crate::{Error, TimerView};

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

impl Command {
    /// The shard that it belongs to; `None` for a dead letter named by its delivery id, which tells
    /// no shard: ask every one.
    pub fn shard(&self, shards: u16) -> Option<ShardId> {
        let id = self.operation.id()?;
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

impl Answer {
    /// Refuses to show what takes more bytes of memory ([`Decision::read_bytes`]) than is allowed.
    ///
    /// # Errors
    /// [`TooLarge`] with the bytes that it takes.
    pub fn check(self, bytes: impl FnOnce() -> u64) -> Result<(), TooLarge> {
        let Self::Within(bytes_max) = self else { return Ok(()) };
        let bytes = bytes();
        if bytes <= bytes_max { Ok(()) } else { Err(TooLarge { bytes }) }
    }
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
    /// Returns the outcome of a decision whose effect is persisted.
    pub fn of(decision: Decision, namespace: &NamespaceName, wall: Timestamp) -> Self {
        let Decision { effect, reply, .. } = decision;
        let outcome = match reply {
            Reply::Created => Self::Created,
            Reply::Replaced => Self::Replaced,
            Reply::Changed => Self::Changed,
            Reply::Existing(view) => return Self::Existing(Arc::new(view)),
            Reply::Unchanged(view) => return Self::Unchanged(Arc::new(view)),
            Reply::Cancelled { attempts, maybe_delivered, already } => {
                return Self::Cancelled { attempts, maybe_delivered, already };
            }
            Reply::Purged => return Self::Purged,
        };
        let view = effect.and_then(|effect| effect.into_view(namespace, wall));
        outcome(Arc::new(view.expect("this reply shows the timer that the effect writes")))
    }

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
            timer.spec.payload = None;
            timer.spec.headers = duly_core::headers::Headers::default();
        }
        self
    }
}
