//! The lifecycle of a timer: the only place where a state follows from an event.
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
//!              │       │ ▲  └──────────────►   │ budget spent, given up, expired
//!              ▼       │ └ redrive             ▼
//!        ┌───────────┐ │                   ┌──────┐
//!        │ cancelled │ ◄┘                  │ dead │ ◄── expire, overdue (from due, retrying)
//!        └───────────┘                     └──────┘
//! ```
//!
//! A store loads the state inside its atomic step, asks [`transition`], and writes what it says. The
//! whole table stands in `lifecycle/table.txt`; a test keeps it equal to the code.

use std::fmt;

use crate::{Code, schedule::IfExists};

/// State of a timer. `Scheduled` and `Due` differ only by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Waiting for its due time.
    Scheduled,
    /// Due and not yet claimed; no attempt has failed.
    Due,
    /// Claimed under a lease.
    InFlight,
    /// An attempt failed; waits for the next one, or is due for it.
    Retrying,
    /// Delivered and confirmed.
    Finished,
    /// Given up; kept whole.
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

    /// The word of the contract.
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

    /// Parses the word of the contract.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Scheduled, due, in flight or retrying.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::Scheduled | Self::Due | Self::InFlight | Self::Retrying)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a schedule repeats the request that made the existing timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Equal request hash.
    Same,
    /// Another request, with what it says about an existing timer.
    Other(IfExists),
}

/// Whether an imported timer is the one that has its id here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Imported {
    /// It has been here before: equal incarnation, or what is left of it does not tell.
    Known,
    /// It has not.
    New,
}

/// Whether a failed attempt may be followed by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// Attempts are left.
    Left,
    /// That was the last one.
    Spent,
}

/// What can happen to a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A caller schedules this id.
    Schedule(Request),
    /// A timer comes from another store as it was there.
    Import(Imported),
    /// A caller changes it.
    Reschedule,
    /// A caller cancels it.
    Cancel,
    /// A caller wants it now.
    Fire,
    /// A worker claims the due firing.
    Claim,
    /// The holder confirms delivery.
    Ack,
    /// The holder reports failure, or its lease ended.
    Fail(Budget),
    /// The holder gives it up for good.
    DeadLetter,
    /// The holder hands it back untouched.
    Release,
    /// `expire_after` has passed.
    Expire,
    /// An operator gives up what is overdue.
    Overdue,
    /// An operator sends the dead letter again.
    Redrive,
    /// An operator drops the dead letter.
    Purge,
}

/// What the event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// A new timer takes the id.
    Create,
    /// A new incarnation takes the place of the pending timer.
    Replace,
    /// The existing timer is the answer; nothing changes.
    Existing,
    /// The timer is changed and is `scheduled` or `due`, as its due time says.
    Change,
    /// The timer moves to this state.
    Move(State),
    /// It is so already; nothing changes.
    Already,
    /// The timer leaves no trace.
    Remove,
    /// Not possible in this state.
    Refuse(Code),
}

/// The one transition function: what `event` does to a timer in `state` (`None`: no such timer).
pub const fn transition(state: Option<State>, event: Event) -> Transition {
    let Some(state) = state else {
        return match event {
            Event::Schedule(_) | Event::Import(_) => Transition::Create,
            _ => Transition::Refuse(Code::NotFound),
        };
    };
    match event {
        Event::Schedule(request) => on_schedule(state, request),
        Event::Import(Imported::Known) => Transition::Existing,
        Event::Import(Imported::New) => match state {
            // A dead letter stays under its delivery id beside another timer of its id.
            State::Dead => Transition::Create,
            // What was cancelled does not come back.
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
        Event::Fail(Budget::Left) => in_flight_only(state, Transition::Move(State::Retrying)),
        Event::Fail(Budget::Spent) | Event::DeadLetter => {
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

const fn on_schedule(state: State, request: Request) -> Transition {
    use IfExists::{Fail, Keep, Replace};
    match (state, request) {
        (State::Cancelled, _) => Transition::Create,
        (State::Dead, Request::Same | Request::Other(Fail)) => Transition::Refuse(Code::Dead),
        (State::Finished, Request::Other(Fail)) => Transition::Refuse(Code::Finished),
        (State::Finished | State::Dead, Request::Other(Replace)) => Transition::Create,
        (State::InFlight, Request::Other(Replace)) => Transition::Refuse(Code::InFlight),
        (_, Request::Same | Request::Other(Keep)) => Transition::Existing,
        (_, Request::Other(Fail)) => Transition::Refuse(Code::AlreadyExists),
        (_, Request::Other(Replace)) => Transition::Replace,
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

/// The code that a refusal carries in this state.
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
