//! Operations of callers on single timers: the only code that decides their effects.
//!
//! ```text
//!   store: loads Known ──► operate() ──► Decision { effect, quota_use, reply } ──► store: persists the effect
//!                              └───────► Refusal: nothing changes
//! ```
//!
//! Everything here is pure. [`lifecycle::transition`](crate::lifecycle::transition) decides which events are
//! possible in a state. The methods of [`Timer`] decide the record that results.
//!
//! Rules:
//! 1. [`Operation::level`] says how much of the timer the store has to load. An index entry is enough for
//!    most cancels ([`cancel_without_record`]).
//! 2. A store may decide an operation from its own numbers, if the core decides the same. It never refuses
//!    on its own: it loads what is known and calls `operate`.
//! 3. Limits of the store itself (its disk, its memory) are checked by the store alone.
//! 4. Refusals are checked in this order: the state, the values, the quotas of the namespace.

use std::time::Duration;

use crate::{
    Incarnation, NamespaceName, Settings, Timer, TimerId, TimerView, Timestamp,
    lifecycle::{Event, Transition},
    limits::Limits,
    refusal::Refusal,
    schedule::When,
};

mod change;
mod decision;
mod operation;
mod schedule;
#[cfg(test)]
mod tests;

pub use change::{
    cancel, cancel_without_record, dead_letter_overdue, fire, forget, purge, redrive, reschedule,
};
pub use decision::{Cause, Decision, Effect, QuotaUse, Reply};
pub use operation::{Level, Operation, Seen};
pub use schedule::{import, schedule};

/// One moment, by both clocks of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The wall clock. It decides which timers are due, and replies show it. It can step.
    pub wall: Timestamp,
    /// The steady clock, which measures the waits between attempts. A step of the wall clock moves no retry.
    /// A store with one clock gives the same time twice.
    pub steady: Timestamp,
}

/// The use of a namespace's quotas.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Pending timers.
    pub pending: u64,
    /// Dead letters.
    pub dead: u64,
    /// Time until `schedule_per_second` allows the next schedule; zero if it allows one now.
    pub schedule_in: Duration,
}

/// The inputs of a decision besides the timer.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The namespace.
    pub namespace: &'a NamespaceName,
    /// Its settings.
    pub settings: &'a Settings,
    /// The use of its quotas. A store whose script checks a quota together with the write gives 0 here; the
    /// script then checks the quotas in [`Decision::quota_use`].
    pub usage: Usage,
    /// The moment.
    pub now: Now,
    /// A random number: the incarnation of a new timer.
    pub random: u64,
}

/// The store's knowledge of the id of an operation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// The timer: the live one, else its tombstone, else its latest dead letter. For a redrive the live
    /// timer is enough.
    pub timer: Option<TimerView>,
    /// The dead letter that a redrive or a purge names, or the dead letter of the firing that an import
    /// brings.
    pub letter: Option<Box<Timer>>,
}

/// Decides the effect of an operation.
///
/// # Errors
/// The refusal, if the operation is not possible; nothing may be changed then.
pub fn operate(
    operation: Operation,
    known: Known,
    context: &Context<'_>,
) -> Result<Decision, Refusal> {
    let Known { timer, letter } = known;
    match operation {
        Operation::Schedule { schedule: asked, if_exists } => {
            schedule(*asked, if_exists, timer, context)
        }
        Operation::Import { timer: imported } => import(imported, timer, letter, context),
        Operation::Reschedule { id, patch, if_revision } => {
            reschedule(&id, *patch, if_revision, timer, context)
        }
        Operation::Cancel { id, if_revision } => {
            cancel(&id, if_revision, Event::Cancel, timer.as_ref(), context)
        }
        Operation::CancelOrStop { id, if_revision, seen } => {
            let known = timer.as_ref().filter(|view| seen.is_none_or(|seen| seen.is(view)));
            cancel(&id, if_revision, Event::CancelOrStop, known, context)
        }
        Operation::CancelSeen { id, seen } => {
            let known = timer.as_ref().filter(|view| seen.is(view));
            cancel(&id, None, Event::Cancel, known, context)
        }
        Operation::Fire { id } => fire(&id, timer, context),
        Operation::DeadLetter { id, if_due_by } => {
            dead_letter_overdue(&id, if_due_by, timer, context)
        }
        Operation::Redrive { letter: named, delay } => {
            redrive(&named, delay, timer.as_ref(), letter, context)
        }
        Operation::Purge { letter: named } => purge(&named, letter.is_some(), context),
        Operation::Forget { id } => forget(&id, timer.as_ref(), context),
    }
}

impl Context<'_> {
    const fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Checks the values that a caller gives for a timer.
    fn check_values(&self, payload_bytes: u64, when: Option<When>) -> Result<(), Refusal> {
        self.limits().admit(self.namespace, payload_bytes, when, self.now.wall)
    }

    /// Checks the values of a timer that comes from another store.
    fn check_imported(&self, timer: &Timer) -> Result<(), Refusal> {
        self.check_values(timer.spec.payload_bytes(), Some(When::At(timer.due_at)))
    }

    /// Returns the decision to write `effect`, if the quotas allow it.
    fn write(
        &self,
        effect: Effect,
        quota_use: QuotaUse,
        reply: Reply,
    ) -> Result<Decision, Refusal> {
        let (limits, usage) = (self.limits(), &self.usage);
        match (limits.max_pending, limits.schedule_per_second) {
            (Some(max), _) if quota_use.pending && usage.pending >= max => {
                Err(Refusal::pending_full(self.namespace, max))
            }
            _ if quota_use.dead_letter && usage.dead >= limits.max_dead => {
                Err(Refusal::dead_letters_full(self.namespace, limits.max_dead))
            }
            (_, Some(rate)) if quota_use.schedule && usage.schedule_in > Duration::ZERO => {
                Err(Refusal::schedules_too_fast(self.namespace, rate, usage.schedule_in))
            }
            _ => Ok(Decision { quota_use, ..Decision::change(effect, reply) }),
        }
    }

    const fn incarnation(&self) -> Incarnation {
        Incarnation(self.random)
    }

    fn unknown(&self, id: &TimerId) -> Refusal {
        Refusal::UnknownTimer { namespace: self.namespace.clone(), id: id.clone() }
    }

    /// Returns the refusal for a transition that is not possible.
    fn refused(&self, refused: Transition, known: Option<&TimerView>, id: &TimerId) -> Refusal {
        match (refused, known) {
            (Transition::Refuse(code), Some(view)) => Refusal::state(view, code),
            _ => self.unknown(id),
        }
    }
}

fn state_of(known: Option<&TimerView>) -> Option<crate::State> {
    known.map(|view| view.state)
}

/// Refuses a timer with another revision. A tombstone passes: its state decides.
fn check_revision(known: Option<&TimerView>, if_revision: Option<u32>) -> Result<(), Refusal> {
    match (known.and_then(TimerView::timer), if_revision) {
        (Some(timer), Some(expected)) if timer.revision != expected => {
            Err(Refusal::Revision { id: timer.id.clone(), expected, actual: timer.revision })
        }
        _ => Ok(()),
    }
}
