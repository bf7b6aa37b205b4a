//! Commands of callers on single timers, and their outcomes.

use std::sync::Arc;

use duly_core::{
    Invalid, NamespaceName, Refusal, Timestamp,
    operate::{Decision, Reply},
    shard::{ShardId, shard_of},
    view::{Body, TooLarge},
};
pub use duly_core::{
    operate::{Operation, Seen},
    timer::DeadLetterId,
};

use crate::{Error, TimerView};

/// Maximum number of commands of one call to [`crate::Timers::apply`]; a call with more is refused.
pub const COMMANDS_MAX: usize = 10_000;

/// Checks the number of commands of a call.
///
/// # Errors
/// `Invalid` past [`COMMANDS_MAX`].
pub fn check_count(count: usize) -> crate::Result<()> {
    if count <= COMMANDS_MAX {
        return Ok(());
    }
    Err(Invalid::new("operations", count, format!("at most {COMMANDS_MAX} per call")).into())
}

/// One operation in one namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The operation.
    pub operation: Operation,
    /// The part of the timer that the outcome shows.
    pub answer: Answer,
}

impl Command {
    /// Returns the shard that it belongs to. `None` for a dead letter named by its delivery id: it may be in
    /// any shard.
    pub fn shard(&self, shards: u16) -> Option<ShardId> {
        let id = self.operation.id()?;
        Some(shard_of(self.namespace.as_str(), id.as_str(), shards))
    }
}

/// The part of a timer that an outcome shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answer {
    /// Everything.
    #[default]
    Whole,
    /// Everything, if the timer takes at most this many bytes of memory ([`TimerView::memory_bytes`]). If a
    /// timer that the store has read takes more, the operation fails with [`Error::TooLarge`] and changes
    /// nothing.
    Within(u64),
    /// Everything except payload and headers: the result of a large batch stays bounded (P10).
    Brief,
}

impl Answer {
    /// Checks that the reply takes no more memory ([`Decision::read_bytes`]) than is allowed.
    ///
    /// # Errors
    /// [`TooLarge`] with the bytes that it takes.
    pub fn check(self, bytes: impl FnOnce() -> u64) -> Result<(), TooLarge> {
        let Self::Within(bytes_max) = self else { return Ok(()) };
        let bytes = bytes();
        if bytes <= bytes_max { Ok(()) } else { Err(TooLarge { bytes }) }
    }
}

/// The outcome of one operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A new timer was created or imported.
    Created(Arc<TimerView>),
    /// The existing timer is the result; nothing changed.
    Existing(Arc<TimerView>),
    /// A new incarnation replaced the pending timer.
    Replaced(Arc<TimerView>),
    /// The timer was changed (reschedule, fire, redrive, dead-letter).
    Changed(Arc<TimerView>),
    /// Nothing had to change (fire of a timer that is due or in flight, dead-lettering of a dead letter).
    Unchanged(Arc<TimerView>),
    /// The timer is cancelled: it will not be claimed.
    Cancelled {
        /// Number of attempts that were made.
        attempts: u32,
        /// `true`: an attempt may have arrived.
        maybe_delivered: bool,
        /// `true`: the timer had been cancelled before.
        already: bool,
    },
    /// The timer is in flight, and no attempt follows the one under way.
    Stopped {
        /// Number of attempts that were begun, the one under way included.
        attempts: u32,
        /// `true`: an earlier attempt may have arrived.
        maybe_delivered: bool,
        /// `true`: the timer had been stopped before.
        already: bool,
    },
    /// The dead letter or the tombstone was purged.
    Purged,
    /// The operation was refused; nothing changed.
    Refused(Refusal),
    /// The operation was not done, or it is not known whether it was done, as the error says. Other items of
    /// the call are not affected.
    Failed(Error),
}

impl Outcome {
    /// Returns `true` if the operation changed something, or may have.
    pub const fn has_changed(&self) -> bool {
        match self {
            Self::Created(_) | Self::Replaced(_) | Self::Changed(_) | Self::Purged => true,
            Self::Cancelled { already, .. } | Self::Stopped { already, .. } => !*already,
            Self::Failed(error) => matches!(error, Error::InDoubt { .. }),
            Self::Existing(_) | Self::Unchanged(_) | Self::Refused(_) => false,
        }
    }

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
            Reply::Stopped { attempts, maybe_delivered, already } => {
                return Self::Stopped { attempts, maybe_delivered, already };
            }
            Reply::Purged => return Self::Purged,
        };
        let view = effect.and_then(|effect| effect.into_view(namespace, wall));
        outcome(Arc::new(view.expect("this reply shows the timer that the effect writes")))
    }

    /// Returns the same outcome with no more of the timer than `answer` asks for.
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
