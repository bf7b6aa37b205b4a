//! What an operation or a verdict comes to.

use crate::{Millis, NamespaceName, State, Timer, TimerView, Timestamp, Tombstone, view::memory};

/// What to persist, and what to reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// What to persist; nothing where nothing changes.
    pub effect: Option<Effect>,
    /// The quotas of the namespace that it takes from.
    pub takes: Takes,
    /// The reply, once the effect is persisted.
    pub reply: Reply,
    /// `true` if the reply shows content that the store has read, and not the caller's own.
    pub shows_read: bool,
}

/// A change of what a store holds under one id.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// This is the live timer now, under no lease. It takes the place of a live timer or a tombstone of its
    /// id; with [`Cause::Redriven`] the dead letter of its delivery id goes.
    Put(Cause, Box<Timer>),
    /// The live timer ends. The tombstone stays for the retention, if the namespace keeps tombstones.
    End(Box<Tombstone>),
    /// This is the dead letter of its delivery id now. The live timer of its id goes, unless the cause is
    /// [`Cause::Imported`].
    DeadLetter(Cause, Box<Timer>),
    /// The dead letter that was named goes.
    Purge,
    /// The lease ends this long from now.
    Extend(Millis),
}

/// Why a timer was written. The totals of a namespace follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A new timer, or one of another store.
    Created,
    /// A new incarnation in the place of a pending one.
    Replaced,
    /// A caller changed it.
    Rescheduled,
    /// An attempt failed.
    AttemptFailed,
    /// A dead letter was sent again.
    Redriven,
    /// It expired before a claim, or was overdue.
    Expired,
    /// A lease was handed back uncounted.
    Released,
    /// A dead letter of another store: what is pending under its id is not its firing.
    Imported,
}

/// Quotas that a change takes one unit of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Takes {
    /// `limits.namespace.max_pending`.
    pub pending: bool,
    /// `limits.namespace.max_dead`.
    pub dead_letter: bool,
    /// `limits.namespace.schedule_per_second`.
    pub schedule: bool,
}

/// The reply to an operation. Where it shows the timer that the effect writes, it does not repeat it.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A new timer was made, or one was imported.
    Created,
    /// A new incarnation took the place of the pending timer.
    Replaced,
    /// The timer was changed.
    Changed,
    /// The existing timer is the reply.
    Existing(TimerView),
    /// Nothing had to change.
    Unchanged(TimerView),
    /// The timer was cancelled: no claim will be granted.
    Cancelled {
        /// Attempts that were made.
        attempts: u32,
        /// `true` if one of them may have arrived.
        maybe_delivered: bool,
        /// `true` if it had been cancelled before.
        already: bool,
    },
    /// The dead letter was dropped.
    Purged,
}

impl Decision {
    /// A reply that changes nothing.
    pub(super) fn reply(reply: Reply) -> Self {
        Self { effect: None, takes: Takes::default(), reply, shows_read: true }
    }

    /// A change that takes from no quota.
    pub(super) fn change(effect: Effect, reply: Reply) -> Self {
        Self { effect: Some(effect), takes: Takes::default(), reply, shows_read: true }
    }

    /// Returns the bytes of memory of what the reply shows of content that the store has read; 0 where it
    /// shows none.
    pub fn read_bytes(&self, namespace: &NamespaceName) -> u64 {
        match (&self.reply, &self.effect) {
            (Reply::Existing(view) | Reply::Unchanged(view), _) => view.memory_bytes(),
            (Reply::Changed, Some(Effect::Put(_, timer) | Effect::DeadLetter(_, timer)))
                if self.shows_read =>
            {
                memory::of_whole(namespace, timer)
            }
            _ => 0,
        }
    }
}

impl Effect {
    /// Returns `true` if it brings content that the store does not hold yet.
    pub const fn brings_content(&self) -> bool {
        match self {
            Self::Put(cause, _) => matches!(cause, Cause::Created | Cause::Replaced),
            Self::DeadLetter(cause, _) => matches!(cause, Cause::Imported),
            Self::End(_) | Self::Purge | Self::Extend(_) => false,
        }
    }

    /// Returns the timer that it writes as it is seen then; `None` where it writes none.
    pub fn into_view(self, namespace: &NamespaceName, wall: Timestamp) -> Option<TimerView> {
        let namespace = namespace.clone();
        match self {
            Self::Put(_, timer) => Some(TimerView::unleased(namespace, timer, wall)),
            Self::DeadLetter(_, timer) => Some(TimerView::whole(namespace, State::Dead, timer)),
            Self::End(_) | Self::Purge | Self::Extend(_) => None,
        }
    }
}
