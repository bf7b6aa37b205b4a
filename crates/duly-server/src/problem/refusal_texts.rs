//! Texts of refused operations: the reason, and what the caller can do instead.
//!
//! The store knows the reason of a refusal; the remedy depends on the operation. Only this module
//! combines both.

use duly_core::{Code, State, invalid::shorten, payload::PAYLOAD_BYTES_HARD, schedule::IfExists};
use duly_store::{Operation, Refusal};

use super::{KNOWN_TIMERS, Problem};

/// The kind of operation that a caller asked for, in the order of
/// [`OPERATIONS`](duly_core::metric_names::OPERATIONS).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperationKind {
    /// Creates a timer.
    Schedule,
    /// Changes a timer.
    Reschedule,
    /// Cancels a timer.
    Cancel,
    /// Fires a timer early.
    Fire,
    /// Redrives a dead letter.
    Redrive,
    /// Purges a dead letter.
    Purge,
    /// Dead-letters a timer in place of a late delivery.
    DeadLetter,
    /// Imports a timer of another server.
    Import,
    /// Removes what is left of an ended timer.
    Forget,
}

/// An operation as its caller sent it.
#[derive(Debug, Clone)]
pub(crate) struct SentOperation {
    /// The kind of operation.
    pub(crate) kind: OperationKind,
    /// The due time or delay, if the caller sent text: a refusal shows it.
    pub(crate) when: Option<Box<str>>,
    /// The mode of a schedule for an existing timer.
    pub(crate) if_exists: IfExists,
}

impl SentOperation {
    /// Returns the sent form of `operation`; `when` is its due time or delay, if the caller sent text.
    pub(crate) const fn of(operation: &Operation, when: Option<Box<str>>) -> Self {
        let if_exists = match operation {
            Operation::Schedule { if_exists, .. } => *if_exists,
            _ => IfExists::Fail,
        };
        Self { kind: OperationKind::of(operation), when, if_exists }
    }
}

impl From<OperationKind> for SentOperation {
    fn from(kind: OperationKind) -> Self {
        Self { kind, when: None, if_exists: IfExists::Fail }
    }
}

impl OperationKind {
    /// Returns the kind of an operation.
    pub(crate) const fn of(operation: &Operation) -> Self {
        match operation {
            Operation::Schedule { .. } => Self::Schedule,
            Operation::Import { .. } => Self::Import,
            Operation::Reschedule { .. } => Self::Reschedule,
            Operation::Cancel { .. }
            | Operation::CancelOrStop { .. }
            | Operation::CancelSeen { .. } => Self::Cancel,
            Operation::Fire { .. } => Self::Fire,
            Operation::DeadLetter { .. } => Self::DeadLetter,
            Operation::Redrive { .. } => Self::Redrive,
            Operation::Purge { .. } => Self::Purge,
            Operation::Forget { .. } => Self::Forget,
        }
    }

    /// Returns the name in a batch; empty for an operation that no batch contains.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Reschedule => "reschedule",
            Self::Cancel => "cancel",
            Self::Fire => "fire",
            Self::Redrive | Self::Purge | Self::DeadLetter | Self::Import | Self::Forget => "",
        }
    }

    /// Returns the path of this operation in a batch, or of this timer in an import.
    pub(crate) fn path_at(self, index: usize) -> String {
        match self {
            Self::Import => format!("timers[{index}]"),
            _ => format!("operations[{index}].{}", self.name()),
        }
    }
}

impl Problem {
    /// Returns the problem of an operation that the store refused. `path` is the operation's place in
    /// the body, in front of the field at fault; empty where the operation is the body.
    pub(crate) fn refused(refusal: Refusal, sent: impl Into<SentOperation>, path: &str) -> Self {
        let SentOperation { kind, when, .. } = sent.into();
        if let Some(mut invalid) = refusal.invalid() {
            let is_when = matches!(&*invalid.field, "due_at" | "delay");
            if let Some(when) = when.filter(|_| is_when) {
                invalid.seen = Some(shorten(&when));
            }
            return invalid.within(path).into();
        }
        let problem = match refusal {
            Refusal::UnknownNamespace(name) => Self::no_namespace(name.as_str()),
            refusal => Self::new(refusal.code(), detail(&refusal, kind)).with(refusal),
        };
        let problem = problem.within(path);
        if kind == OperationKind::Cancel { problem.for_cancel() } else { problem }
    }
}

fn detail(refusal: &Refusal, kind: OperationKind) -> String {
    match refusal {
        Refusal::UnknownTimer { .. } => format!("{refusal}: {KNOWN_TIMERS}"),
        Refusal::UnknownDeadLetter { .. } => {
            format!("{refusal}: GET …/timers?state=dead lists them")
        }
        Refusal::PayloadLost { .. } => {
            format!("{refusal}: it cannot be sent again; purge it, and schedule a new timer")
        }
        Refusal::State { id, state, code, leased_until, .. } => {
            let until =
                leased_until.map_or_else(String::new, |until| format!(", leased until {until}"));
            let (id, state_words) = (shorten(id.as_str()), state_words(*state));
            format!("timer {id} is {state_words}{until}: {}", remedy(kind, *state, *code))
        }
        Refusal::Revision { .. } => format!(
            "{refusal}: read it, and repeat the call with the revision it has if it is still wanted"
        ),
        Refusal::PayloadTooLarge { bytes, .. } if *bytes > PAYLOAD_BYTES_HARD => format!(
            "{refusal}, and none more than {PAYLOAD_BYTES_HARD}: send a smaller one, or a reference \
             to where it is"
        ),
        Refusal::PayloadTooLarge { namespace, .. } => format!(
            "{refusal}: send a smaller one, or raise limits.namespace.max_payload_bytes of {namespace}"
        ),
        other => other.to_string(),
    }
}

const fn state_words(state: State) -> &'static str {
    match state {
        State::InFlight => "in flight",
        State::Dead => "a dead letter",
        other => other.as_str(),
    }
}

const fn remedy(kind: OperationKind, state: State, code: Code) -> &'static str {
    match (kind, state) {
        (OperationKind::Schedule, State::InFlight) if matches!(code, Code::InFlight) => {
            "an attempt is under way; repeat the call when it has ended, or choose another id"
        }
        (OperationKind::Schedule, State::InFlight) => {
            "it was created by another request; choose another id, or send if_exists \"keep\" to \
             get it"
        }
        (OperationKind::Schedule, State::Finished) => {
            "it has been delivered; choose another id, or send if_exists \"replace\" for a new \
             timer under this one"
        }
        (OperationKind::Schedule, State::Dead) => {
            "redrive or purge it, or send if_exists \"replace\" for a new timer under this id"
        }
        (OperationKind::Schedule, _) => {
            "it was created by another request; choose another id, or send if_exists \"keep\" to \
             get it or \"replace\" to put this one in its place"
        }
        (OperationKind::Import, State::Finished) => {
            "another timer had this id here and has been delivered; import this one when the \
             namespace's retention has passed, or schedule it again under another id"
        }
        (OperationKind::Import, _) => {
            "another timer has this id here; cancel that one and import this one again when it is \
             gone, or leave this one out"
        }
        (OperationKind::Redrive | OperationKind::Purge, _) => {
            "only a dead letter can be redriven or purged"
        }
        (OperationKind::Forget, State::InFlight) => {
            "only an ended timer is forgotten; cancel it when the attempt has ended, or repeat the \
             call when it is delivered"
        }
        (OperationKind::Forget, _) => "only an ended timer is forgotten; cancel it first",
        (OperationKind::Cancel, State::InFlight) => {
            "an attempt is under way and may be delivered; check the timer after the attempt"
        }
        (_, State::InFlight) => "an attempt is under way; repeat the call when it has ended",
        (OperationKind::Cancel, State::Finished) => {
            "it has been delivered and nothing is left to cancel"
        }
        (_, State::Finished) => "it has been delivered; schedule a new one",
        (_, State::Cancelled) => "it never fires; schedule a new one, this id may be used again",
        (OperationKind::Cancel, State::Dead) => {
            "it is not delivered again unless it is redriven; purge it to remove it"
        }
        (_, State::Dead) => "redrive it to deliver it again",
        _ => "its state does not allow this",
    }
}

#[cfg(test)]
mod tests;
