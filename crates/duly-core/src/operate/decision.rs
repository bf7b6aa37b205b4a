//! The result of an operation or a verdict.

use crate::{
    Millis, NamespaceName, State, Timer, TimerId, TimerView, Timestamp, Tombstone, view::memory,
};

/// The change to persist, and the reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The change to persist; `None` if nothing changes.
    pub effect: Option<Effect>,
    /// The quotas of the namespace that the change uses.
    pub quota_use: QuotaUse,
    /// The reply, once the effect is persisted.
    pub reply: Reply,
    /// `true`: the reply shows content that the store has read, not the caller's own.
    pub shows_stored_content: bool,
}

/// A change of the store's data under one id.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Writes the live timer, without a lease. It replaces a live timer or a tombstone with the same id.
    /// With [`Cause::Redriven`] it also removes the dead letter with the same delivery id.
    Put(Cause, Box<Timer>),
    /// Ends the live timer. The tombstone stays for the retention, if the namespace keeps tombstones.
    End(Box<Tombstone>),
    /// Writes the dead letter of its delivery id. It also removes the live timer of its id, unless the cause
    /// is [`Cause::Imported`].
    DeadLetter(Cause, Box<Timer>),
    /// Removes the dead letter that the operation names.
    Purge,
    /// Removes the tombstone of the id.
    Forget,
    /// Moves the end of the lease to this long from now.
    Extend(Millis),
    /// Marks the lease of the timer with this id: no attempt follows the one under way. The lease stays.
    Stop(TimerId),
}

/// The cause of a write. It determines the change of the namespace's totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The timer is new, or comes from another store.
    Created,
    /// A new incarnation replaced a pending timer.
    Replaced,
    /// A caller changed the timer.
    Rescheduled,
    /// An attempt failed.
    AttemptFailed,
    /// A dead letter was redriven.
    Redriven,
    /// The timer expired before a claim, or was overdue.
    Expired,
    /// A lease was released, or its firing put off; the attempt does not count.
    Released,
    /// A dead letter was imported from another store. A pending timer with the same id is another firing and
    /// stays.
    Imported,
}

/// The quotas of which a change uses one unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaUse {
    /// `true`: uses `limits.namespace.max_pending`.
    pub pending: bool,
    /// `true`: uses `limits.namespace.max_dead`.
    pub dead_letter: bool,
    /// `true`: uses `limits.namespace.schedule_per_second`.
    pub schedule: bool,
}

/// The reply to an operation. If it shows the timer that the effect writes, it does not repeat the timer.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A new timer was created or imported.
    Created,
    /// A new incarnation replaced the pending timer.
    Replaced,
    /// The timer was changed.
    Changed,
    /// The existing timer is the result.
    Existing(TimerView),
    /// Nothing had to change.
    Unchanged(TimerView),
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
}

impl Decision {
    /// Returns a decision that changes nothing.
    pub(super) fn reply(reply: Reply) -> Self {
        Self { effect: None, quota_use: QuotaUse::default(), reply, shows_stored_content: true }
    }

    /// Returns a decision to change something without using a quota.
    pub(super) fn change(effect: Effect, reply: Reply) -> Self {
        Self { effect: Some(effect), ..Self::reply(reply) }
    }

    /// Returns the memory of the content in the reply that the store has read, in bytes; 0 if the reply
    /// shows none.
    pub fn read_bytes(&self, namespace: &NamespaceName) -> u64 {
        match (&self.reply, &self.effect) {
            (Reply::Existing(view) | Reply::Unchanged(view), _) => view.memory_bytes(),
            (Reply::Changed, Some(Effect::Put(_, timer) | Effect::DeadLetter(_, timer)))
                if self.shows_stored_content =>
            {
                memory::of_whole(namespace, timer)
            }
            _ => 0,
        }
    }
}

impl Effect {
    /// Returns `true` if it brings content that the store does not hold yet.
    pub const fn has_new_content(&self) -> bool {
        match self {
            Self::Put(cause, _) => matches!(cause, Cause::Created | Cause::Replaced),
            Self::DeadLetter(cause, _) => matches!(cause, Cause::Imported),
            Self::End(_) | Self::Purge | Self::Forget | Self::Extend(_) | Self::Stop(_) => false,
        }
    }

    /// Returns the view of the timer that it writes; `None` if it writes none.
    pub fn into_view(self, namespace: &NamespaceName, wall: Timestamp) -> Option<TimerView> {
        let namespace = namespace.clone();
        match self {
            Self::Put(_, timer) => Some(TimerView::unleased(namespace, timer, wall)),
            Self::DeadLetter(_, timer) => Some(TimerView::whole(namespace, State::Dead, timer)),
            Self::End(_) | Self::Purge | Self::Forget | Self::Extend(_) | Self::Stop(_) => None,
        }
    }
}
