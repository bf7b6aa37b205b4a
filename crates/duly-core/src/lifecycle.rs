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
//!       cancel │       │                       ▼
//!              │   ┌──────────┐  fail    ┌───────────┐  ack    ┌──────────┐
//!              ├── │ retrying │ ◄─────── │ in_flight │ ──────► │ finished │
//!              │   └──────────┘  claim   └───────────┘         └──────────┘
//!              │       │ ▲  └──────────────►   │ budget spent, rejected, expired
//!              ▼       │ └ redrive             ▼
//!        ┌───────────┐ │                   ┌──────┐
//!        │ cancelled │ ◄┘                  │ dead │ ◄── expire, overdue (from due, retrying)
//!        └───────────┘                     └──────┘
//! ```
//!
//! A store loads the state inside its atomic step, calls [`transition`], and persists the result. The file
//! `lifecycle/table.txt` holds the whole table; a test keeps it equal to the code.

use std::fmt;

use crate::{Code, schedule::IfExists};

/// The state of a timer. `Scheduled` and `Due` differ only by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Waiting for its due time.
    Scheduled,
    /// Due and not yet claimed; no attempt has failed.
    Due,
    /// Claimed under a lease.
    InFlight,
    /// An attempt failed; the timer waits for the next one, or is due for it.
    Retrying,
    /// Delivered and confirmed.
    Finished,
    /// A dead letter; its whole record is kept.
    Dead,
    /// Cancelled before it was claimed.
    Cancelled,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Scheduled,
        Self::Due,
        Self::InFlight,
        Self::Retrying,
        Self::Finished,
        Self::Dead,
        Self::Cancelled,
    ];

    /// Returns its name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Due => "due",
            Self::InFlight => "in_flight",
            Self::Retrying => "retrying",
            Self::Finished => "finished",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }

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
    /// The same request: the request hashes are equal.
    Same,
    /// Another request, with its mode for an existing timer.
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
    /// `expire_after` has passed.
    Expire,
    /// An operator dead-letters the overdue timer.
    Overdue,
    /// An operator redrives the dead letter.
    Redrive,
    /// An operator purges the dead letter.
    Purge,
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
    match event {
        Event::Schedule(request) => on_schedule(state, request),
        Event::Import(ImportMatch::Same) => Transition::Existing,
        Event::Import(ImportMatch::Other) => match state {
            // A dead letter is kept by its delivery id, beside another timer with the same id.
            State::Dead => Transition::Create,
            // A cancelled timer does not come back.
            State::Cancelled => Transition::Existing,
            State::Finished => Transition::Refuse(Code::Finished),
            _ => Transition::Refuse(Code::AlreadyExists),
        },
        Event::Reschedule => match state {
            State::Scheduled | State::Due | State::Retrying => Transition::Change,
            _ => Transition::Refuse(code_of(state)),
        },
        Event::Cancel => match state {
            State::Scheduled | State::Due | State::Retrying => Transition::Move(State::Cancelled),
            State::Cancelled => Transition::Already,
            _ => Transition::Refuse(code_of(state)),
        },
        Event::Fire => match state {
            State::Scheduled => Transition::Change,
            State::Retrying => Transition::Move(State::Retrying),
            State::Due | State::InFlight => Transition::Already,
            _ => Transition::Refuse(code_of(state)),
        },
        Event::Claim => match state {
            State::Due | State::Retrying => Transition::Move(State::InFlight),
            _ => Transition::Refuse(code_of(state)),
        },
        Event::Ack => in_flight_only(state, Transition::Move(State::Finished)),
        Event::Fail(RetryBudget::Left) => in_flight_only(state, Transition::Move(State::Retrying)),
        Event::Fail(RetryBudget::Spent) | Event::DeadLetter => {
            in_flight_only(state, Transition::Move(State::Dead))
        }
        Event::Release => in_flight_only(state, Transition::Change),
        Event::Expire => match state {
            State::Due | State::Retrying => Transition::Move(State::Dead),
            _ => Transition::Refuse(code_of(state)),
        },
        Event::Overdue => match state {
            State::Due | State::Retrying => Transition::Move(State::Dead),
            State::Dead => Transition::Already,
            _ => Transition::Refuse(code_of(state)),
        },
        Event::Redrive => dead_only(state, Transition::Move(State::Retrying)),
        Event::Purge => dead_only(state, Transition::Remove),
    }
}

const fn on_schedule(state: State, request: RequestMatch) -> Transition {
    use IfExists::{Fail, Keep, Replace};
    match (state, request) {
        (State::Cancelled, _) => Transition::Create,
        (State::Dead, RequestMatch::Same | RequestMatch::Other(Fail)) => {
            Transition::Refuse(Code::Dead)
        }
        (State::Finished, RequestMatch::Other(Fail)) => Transition::Refuse(Code::Finished),
        (State::Finished | State::Dead, RequestMatch::Other(Replace)) => Transition::Create,
        (State::InFlight, RequestMatch::Other(Replace)) => Transition::Refuse(Code::InFlight),
        (_, RequestMatch::Same | RequestMatch::Other(Keep)) => Transition::Existing,
        (_, RequestMatch::Other(Fail)) => Transition::Refuse(Code::AlreadyExists),
        (_, RequestMatch::Other(Replace)) => Transition::Replace,
    }
}

const fn in_flight_only(state: State, allowed: Transition) -> Transition {
    match state {
        State::InFlight => allowed,
        _ => Transition::Refuse(code_of(state)),
    }
}

const fn dead_only(state: State, allowed: Transition) -> Transition {
    match state {
        State::Dead => allowed,
        _ => Transition::Refuse(Code::NotFound),
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
