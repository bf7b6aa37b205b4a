//! The lifecycle of a timer: the only code that derives a state from an event.
//!
//! ```text
//!               schedule
//!                  │
//!                  ▼        due_at reached
//!            ┌───────────┐ ───────────────► ┌─────┐
//!            │ scheduled │                  │ due │ ◄─── release (uncounted)
//!            └───────────┘                  └─────┘
//!              │       ▲ reschedule            │ claim
//!       cancel │       │          snooze,      ▼
//!              │   ┌──────────┐  fail    ┌───────────┐  ack    ┌──────────┐
//!              ├── │ retrying │ ◄─────── │ in_flight │ ──────► │ finished │
//!              │   └──────────┘  claim   └───────────┘         └──────────┘
//!              │       │ ▲  └──────────────►   │ budget spent, rejected, expired
//!              ▼       │ └ redrive             ▼
//!        ┌───────────┐ │                   ┌──────┐
//!        │ cancelled │ ◄┘                  │ dead │ ◄── expire, overdue (from due, retrying)
//!        └───────────┘                     └──────┘
//!              ▲
//!              └── in_flight, stopped by a caller: the attempt ended without an ack
//! ```
//!
//! A store loads the state inside its atomic step, calls [`transition`], and persists the result. The file
//! `lifecycle/table.txt` holds the whole table; a test keeps it equal to the code.

use std::fmt;

use crate::{Code, schedule::IfExists};

crate::named_enum! {
    /// The state of a timer. `Scheduled` and `Due` differ only by the store's clock.
    #[derive(PartialOrd, Ord)]
    pub enum State {
        /// Waiting for its due time.
        Scheduled = "scheduled",
        /// Due and not yet claimed; no attempt has failed.
        Due = "due",
        /// Claimed under a lease.
        InFlight = "in_flight",
        /// An attempt failed or was put off; the timer waits for the next one, or is due for it.
        Retrying = "retrying",
        /// Delivered and confirmed.
        Finished = "finished",
        /// A dead letter; its whole record is kept.
        Dead = "dead",
        /// Cancelled before it was claimed.
        Cancelled = "cancelled",
    }
}

impl State {
    /// Parses its name in the API.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Returns `true` if it is scheduled, due, in flight or retrying.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::Scheduled | Self::Due | Self::InFlight | Self::Retrying)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A schedule request, compared with the request that made the existing timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestMatch {
    /// The same request: the request hashes are equal, and the request does not restart the timer.
    Same,
    /// Another request, or any request that restarts the timer; with its mode for an existing timer.
    Other(IfExists),
}

/// An imported timer, compared with the timer that this store has under its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportMatch {
    /// This store has had the timer before: the incarnation is equal, or the remains of the existing timer
    /// do not tell.
    Same,
    /// This store has not had the timer before.
    Other,
}

/// The retry budget after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryBudget {
    /// At least one attempt is left.
    Left,
    /// The failed attempt was the last one.
    Spent,
}

/// An event of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A caller schedules this id.
    Schedule(RequestMatch),
    /// A timer of another store is imported unchanged.
    Import(ImportMatch),
    /// A caller changes the timer.
    Reschedule,
    /// A caller cancels the timer.
    Cancel,
    /// A caller cancels the timer; if it is in flight, no attempt follows the one under way.
    CancelOrStop,
    /// A caller makes the timer due now.
    Fire,
    /// A consumer or a node claims the due firing.
    Claim,
    /// The holder of the lease confirms delivery.
    Ack,
    /// The holder reports a failure, or its lease ended.
    Fail(RetryBudget),
    /// The holder dead-letters the firing.
    DeadLetter,
    /// The holder returns the firing; the attempt does not count.
    Release,
    /// The holder puts the firing off; the attempt does not count for the retry budget.
    Snooze,
    /// The attempt of a stopped timer ended without a confirmation: it failed, was refused or returned, or
    /// its lease ended.
    EndStopped,
    /// `expire_after` has passed.
    Expire,
    /// An operator dead-letters the overdue timer.
    Overdue,
    /// An operator redrives the dead letter.
    Redrive,
    /// An operator purges the dead letter.
    Purge,
    /// An operator removes the tombstone of the ended timer.
    Forget,
}

/// The effect of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// A new timer takes the id.
    Create,
    /// A new incarnation replaces the pending timer.
    Replace,
    /// The existing timer is the result; nothing changes.
    Existing,
    /// The record of the timer changes, and the timer stays pending. Its times decide whether it is
    /// `scheduled`, `due` or `retrying`.
    Change,
    /// The timer moves to this state.
    Move(State),
    /// The timer is already in the requested state; nothing changes.
    Already,
    /// The timer is removed without a tombstone.
    Remove,
    /// The event is not possible in this state.
    Refuse(Code),
}

/// Returns the effect of `event` on a timer in `state` (`None`: no such timer). This is the only transition
/// function.
pub const fn transition(state: Option<State>, event: Event) -> Transition {
    let Some(state) = state else {
        return match event {
            Event::Schedule(_) | Event::Import(_) => Transition::Create,
            _ => Transition::Refuse(Code::NotFound),
        };
    };
    match (event, state) {
        (Event::Schedule(request), _) => on_schedule(state, request),
        (Event::Import(ImportMatch::Same), _) => Transition::Existing,
        // A dead letter is kept by its delivery id, beside another timer with the same id.
        (Event::Import(ImportMatch::Other), State::Dead) => Transition::Create,
        // A cancelled timer does not come back.
        (Event::Import(ImportMatch::Other), State::Cancelled) => Transition::Existing,
        (Event::Import(ImportMatch::Other), State::Finished) => Transition::Refuse(Code::Finished),
        (Event::Import(ImportMatch::Other), _) => Transition::Refuse(Code::AlreadyExists),
        (Event::Reschedule, State::Scheduled | State::Due | State::Retrying) => Transition::Change,
        (Event::Cancel | Event::CancelOrStop, State::Scheduled | State::Due | State::Retrying) => {
            Transition::Move(State::Cancelled)
        }
        (Event::Cancel | Event::CancelOrStop, State::Cancelled) => Transition::Already,
        // The timer stays in flight.
        (Event::CancelOrStop, State::InFlight) => Transition::Change,
        (Event::Fire, State::Scheduled) => Transition::Change,
        (Event::Fire, State::Retrying) => Transition::Move(State::Retrying),
        (Event::Fire, State::Due | State::InFlight) => Transition::Already,
        (Event::Claim, State::Due | State::Retrying) => Transition::Move(State::InFlight),
        (Event::Ack, State::InFlight) => Transition::Move(State::Finished),
        (Event::Fail(RetryBudget::Left) | Event::Snooze, State::InFlight) => {
            Transition::Move(State::Retrying)
        }
        (Event::Fail(RetryBudget::Spent) | Event::DeadLetter, State::InFlight) => {
            Transition::Move(State::Dead)
        }
        (Event::Release, State::InFlight) => Transition::Change,
        (Event::EndStopped, State::InFlight) => Transition::Move(State::Cancelled),
        (Event::Expire | Event::Overdue, State::Due | State::Retrying) => {
            Transition::Move(State::Dead)
        }
        (Event::Overdue, State::Dead) => Transition::Already,
        (Event::Redrive, State::Dead) => Transition::Move(State::Retrying),
        (Event::Purge, State::Dead) => Transition::Remove,
        (Event::Redrive | Event::Purge, _) => Transition::Refuse(Code::NotFound),
        (Event::Forget, State::Finished | State::Cancelled) => Transition::Remove,
        // A dead letter has a name of its own.
        (Event::Forget, State::Dead) => Transition::Refuse(Code::NotFound),
        // Every other event is named, so that a new one is a compile error until it has its rows.
        (Event::Reschedule | Event::Cancel | Event::CancelOrStop | Event::Fire, _)
        | (Event::Claim | Event::Ack | Event::Fail(_) | Event::DeadLetter, _)
        | (Event::Release | Event::Snooze | Event::EndStopped | Event::Expire, _)
        | (Event::Overdue | Event::Forget, _) => Transition::Refuse(code_of(state)),
    }
}

const fn on_schedule(state: State, request: RequestMatch) -> Transition {
    use IfExists::{Fail, Keep, Replace, Restart};
    match (state, request) {
        (State::Cancelled, _) => Transition::Create,
        (State::Dead, RequestMatch::Same | RequestMatch::Other(Fail)) => {
            Transition::Refuse(Code::Dead)
        }
        (State::Finished, RequestMatch::Other(Fail)) => Transition::Refuse(Code::Finished),
        (State::Finished | State::Dead, RequestMatch::Other(Replace | Restart)) => {
            Transition::Create
        }
        (State::InFlight, RequestMatch::Other(Replace | Restart)) => {
            Transition::Refuse(Code::InFlight)
        }
        (_, RequestMatch::Same | RequestMatch::Other(Keep)) => Transition::Existing,
        (_, RequestMatch::Other(Fail)) => Transition::Refuse(Code::AlreadyExists),
        (_, RequestMatch::Other(Replace | Restart)) => Transition::Replace,
    }
}

/// Returns the code of a refusal in this state.
pub const fn code_of(state: State) -> Code {
    match state {
        State::InFlight => Code::InFlight,
        State::Finished => Code::Finished,
        State::Cancelled => Code::Cancelled,
        State::Dead => Code::Dead,
        State::Scheduled | State::Due | State::Retrying => Code::AlreadyExists,
    }
}

#[cfg(test)]
mod tests;
