//! Operations of callers on single timers: the one place that says what each of them does.
//!
//! ```text
//!   store: loads Known ──► operate() ──► Decision { effect, takes, reply } ──► store: persists the effect
//!                              └───────► Refusal: nothing changes
//! ```
//!
//! Everything here is pure. What may happen in a state is asked of [`lifecycle::transition`](crate::lifecycle::transition), and how the record
//! then looks is left to the methods of [`Timer`].
//!
//! Rules:
//! * [`Operation::level`] says how much of the timer the store has to know. An index entry is enough for
//!   most cancels ([`cancel_unread`]).
//! * A store may carry out an operation by numbers of its own, if the core decides the same. It never refuses
//!   by itself: then it loads what is known and asks here. Limits of the store itself (its disk, its memory)
//!   are its own.
//! * Order of the refusals: the state, the values, the quotas of the namespace.

use std::time::Duration;

use crate::{
    Incarnation, NamespaceName, Settings, Timer, TimerId, TimerView, Timestamp,
    lifecycle::Transition, limits::Limits, refusal::Refusal, schedule::When,
};

mod change;
mod dead_letters;
mod decision;
mod import;
mod operation;
mod schedule;
#[cfg(test)]
mod tests;

pub use change::{cancel, cancel_unread, fire, reschedule};
pub use dead_letters::{dead_letter_overdue, purge, redrive};
pub use decision::{Cause, Decision, Effect, Reply, Takes};
pub use import::import;
pub use operation::{DeadLetterId, Level, Operation, Seen};
pub use schedule::schedule;

/// One moment, by both clocks of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The wall clock: it decides what is due and stands in every reply. It can step.
    pub wall: Timestamp,
    /// The steady clock, in which waits between attempts are measured. A step of the wall clock moves no
    /// retry. A store with one clock gives the same time twice.
    pub steady: Timestamp,
}

/// How much of its quotas a namespace uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Pending timers.
    pub pending: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long until the rate of schedules allows another one.
    pub schedule_in: Duration,
}

/// What a decision depends on besides the timer.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The namespace.
    pub namespace: &'a NamespaceName,
    /// Its settings.
    pub settings: &'a Settings,
    /// What it uses of its quotas. A store whose script checks a quota with the write gives 0 here, and
    /// lets the script check what [`Decision::takes`] says.
    pub usage: Usage,
    /// The moment.
    pub now: Now,
    /// A random number: the incarnation of a timer that is made.
    pub random: u64,
}

/// What a store knows under the id of an operation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// The timer: the live one, else its tombstone, else its latest dead letter. For a redrive the live one
    /// is enough.
    pub timer: Option<TimerView>,
    /// The dead letter that a redrive or a purge names, or that of the firing that an import brings.
    pub letter: Option<Box<Timer>>,
}

/// Decides what an operation does.
///
/// # Errors
/// The refusal, if it is not possible; nothing is to be changed then.
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
        Operation::Import { timer: brought } => import(brought, timer, letter, context),
        Operation::Reschedule { id, patch, if_revision } => {
            reschedule(&id, *patch, if_revision, timer, context)
        }
        Operation::Cancel { id, if_revision } => cancel(&id, if_revision, timer.as_ref(), context),
        Operation::CancelSeen { id, seen } => {
            cancel(&id, None, timer.as_ref().filter(|view| seen.is(view)), context)
        }
        Operation::Fire { id } => fire(&id, timer, context),
        Operation::DeadLetter { id, if_due_by } => {
            dead_letter_overdue(&id, if_due_by, timer, context)
        }
        Operation::Redrive { letter: named, delay } => {
            redrive(&named, delay, timer.as_ref(), letter, context)
        }
        Operation::Purge { letter: named } => purge(&named, letter.is_some(), context),
    }
}

impl Context<'_> {
    const fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Checks what a caller gives for a timer.
    fn check_values(&self, payload_bytes: u64, when: Option<When>) -> Result<(), Refusal> {
        let checked = self.limits().admit(payload_bytes, when, self.now.wall);
        checked.map_err(|exceeded| Refusal::exceeded(self.namespace, exceeded))
    }

    /// Checks the values of a timer that comes from another store.
    fn check_brought(&self, timer: &Timer) -> Result<(), Refusal> {
        self.check_values(timer.spec.payload_bytes(), Some(When::At(timer.due_at)))
    }

    /// The decision to write, if the quotas allow it.
    fn write(&self, effect: Effect, takes: Takes, reply: Reply) -> Result<Decision, Refusal> {
        let (limits, usage) = (self.limits(), &self.usage);
        match (limits.max_pending, limits.schedule_per_second) {
            (Some(max), _) if takes.pending && usage.pending >= max => {
                Err(Refusal::pending_full(self.namespace, max))
            }
            _ if takes.dead_letter && usage.dead >= limits.max_dead => {
                Err(Refusal::dead_letters_full(self.namespace, limits.max_dead))
            }
            (_, Some(rate)) if takes.schedule && usage.schedule_in > Duration::ZERO => {
                Err(Refusal::schedules_too_fast(self.namespace, rate, usage.schedule_in))
            }
            _ => Ok(Decision { takes, ..Decision::change(effect, reply) }),
        }
    }

    const fn incarnation(&self) -> Incarnation {
        Incarnation(self.random)
    }

    fn unknown(&self, id: &TimerId) -> Refusal {
        Refusal::UnknownTimer { namespace: self.namespace.clone(), id: id.clone() }
    }

    /// The refusal of a transition that is not possible.
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

/// Refuses a record of another revision; a tombstone answers by its state.
fn check_revision(known: Option<&TimerView>, if_revision: Option<u32>) -> Result<(), Refusal> {
    match (known.and_then(TimerView::timer), if_revision) {
        (Some(timer), Some(expected)) if timer.revision != expected => {
            Err(Refusal::Revision { id: timer.id.clone(), expected, actual: timer.revision })
        }
        _ => Ok(()),
    }
}
