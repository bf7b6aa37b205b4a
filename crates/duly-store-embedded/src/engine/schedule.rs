//! Schedule: a new timer, the existing one, or one in its place.

use std::sync::Arc;

use duly_core::{
    Incarnation, Invalid, NamespaceName, Schedule, Settings, Timer, Timestamp,
    lifecycle::{self, Decision, Event, Request},
    request_hash::RequestHash,
    schedule::IfExists,
};
use duly_store::{Command, Operation, Outcome, Refusal, TimerView, query::Body};

use crate::format::record::{Cause, Record};

use super::{Engine, Stop, view::Known};

impl Engine {
    /// Carries out one command.
    pub(crate) fn apply(&mut self, command: Command) -> Outcome {
        if let Err(error) = self.check_usable() {
            return Outcome::Failed(error);
        }
        let answer = command.answer;
        match self.try_apply(command) {
            Ok(outcome) => outcome.answering(answer),
            Err(Stop::Refused(refusal)) => Outcome::Refused(refusal),
            Err(Stop::Poisoned) => Outcome::Failed(duly_store::Error::InDoubt {
                reason: self.poisoned.clone().unwrap_or_else(|| "a write failed".into()),
            }),
        }
    }

    fn try_apply(&mut self, command: Command) -> Result<Outcome, Stop> {
        let name = command.namespace;
        let Some(number) = self.namespaces.number_of(&name) else {
            return Err(Stop::Refused(Refusal::UnknownNamespace(name)));
        };
        match command.operation {
            Operation::Schedule { schedule, if_exists } => {
                self.schedule(number, &name, *schedule, if_exists)
            }
            Operation::Reschedule { id, patch, if_revision } => {
                self.reschedule(number, &name, &id, *patch, if_revision)
            }
            Operation::Cancel { id, if_revision } => self.cancel(number, &name, &id, if_revision),
            Operation::Fire { id } => self.fire(number, &name, &id),
            Operation::GiveUp { id, if_due_by } => {
                self.give_up_overdue(number, &name, &id, if_due_by)
            }
            Operation::Redrive { letter, delay } => self.redrive(number, &name, &letter, delay),
            Operation::Purge { letter } => self.purge(number, &name, &letter),
        }
    }

    fn schedule(
        &mut self,
        number: u32,
        name: &NamespaceName,
        schedule: Schedule,
        if_exists: IfExists,
    ) -> Result<Outcome, Stop> {
        let key = self.key(number, schedule.id.as_str());
        let known = self.look_up(key);
        let view = self.readable(name, known)?;
        let request = match &view {
            Some(view) if is_same(view, &schedule) => Request::Same,
            _ => Request::Other(if_exists),
        };
        let state = view.as_ref().map(|view| view.state);
        match (lifecycle::decide(state, Event::Schedule(request)), view) {
            (Decision::Create, _) => {
                let namespace = self.namespace(number);
                let settings = Arc::clone(&namespace.settings);
                let pending = namespace.pending();
                self.admit_new().map_err(Stop::Refused)?;
                let timer = self.new_timer(name, &settings, schedule, None)?;
                check_pending(&settings, pending, name)?;
                let record = Record::Pending(Cause::Created, Box::new(timer));
                self.write(number, &record)?;
                Ok(Outcome::Created(self.view_of(name, record)))
            }
            (Decision::Replace, Some(view)) => {
                let settings = Arc::clone(&self.namespace(number).settings);
                self.admit_new().map_err(Stop::Refused)?;
                let old_revision = view.revision().unwrap_or(0);
                let timer = self.new_timer(name, &settings, schedule, Some(old_revision))?;
                let record = Record::Pending(Cause::Replaced, Box::new(timer));
                self.write(number, &record)?;
                Ok(Outcome::Replaced(self.view_of(name, record)))
            }
            (Decision::Existing, Some(view)) => Ok(Outcome::Existing(Arc::new(view))),
            (Decision::Refuse(code), Some(view)) => {
                Err(Stop::Refused(self.refuse_state(&schedule.id, &view, code)))
            }
            (decision, _) => unreachable!("a schedule is never answered by {decision:?}"),
        }
    }

    fn new_timer(
        &mut self,
        name: &NamespaceName,
        settings: &Settings,
        schedule: Schedule,
        old_revision: Option<u32>,
    ) -> Result<Timer, Stop> {
        let now = self.now.wall();
        let incarnation = Incarnation(self.random_u64());
        let field = when_field(&schedule.when);
        let timer = match old_revision {
            None => Timer::new(schedule, now, incarnation),
            Some(revision) => Timer::replacing(revision, schedule, now, incarnation),
        }
        .map_err(|invalid| Stop::Refused(Refusal::Invalid(invalid)))?;
        check_limits(settings, name, &timer, now, field)?;
        Ok(timer)
    }

    /// The view of a timer whose record was just written.
    pub(super) fn view_of(&self, name: &NamespaceName, record: Record) -> Arc<TimerView> {
        let (Record::Pending(_, timer) | Record::Dead(_, timer)) = record else {
            unreachable!("only records of timers are viewed")
        };
        Arc::new(self.live_view(name, *timer, None))
    }

    /// The view of what is known; a record that cannot be read is quarantined and then gone.
    pub(super) fn readable(
        &mut self,
        name: &NamespaceName,
        known: Known,
    ) -> Result<Option<TimerView>, Stop> {
        match self.view(name, known) {
            Ok(view) => Ok(view),
            Err(error) => {
                if let Known::Live(key, entry) = known {
                    self.quarantine(key, &entry, &error)?;
                }
                Ok(None)
            }
        }
    }
}

fn is_same(view: &TimerView, schedule: &Schedule) -> bool {
    let stored = match &view.body {
        Body::Whole(timer) => Some(timer.request_hash),
        Body::Stub(stub) => stub.details.as_ref().map(|details| details.request_hash),
    };
    stored == Some(RequestHash::of(schedule))
}

/// The field of a request that named the time.
pub(super) const fn when_field(when: &duly_core::schedule::When) -> &'static str {
    match when {
        duly_core::schedule::When::At(_) => "due_at",
        duly_core::schedule::When::After(_) => "delay",
    }
}

fn check_pending(settings: &Settings, pending: u64, name: &NamespaceName) -> Result<(), Stop> {
    match settings.limits.max_pending {
        Some(max) if pending >= max => Err(Stop::Refused(Refusal::Exhausted {
            reason: format!(
                "namespace {name} holds {pending} pending timers and its limits.max_pending is \
                 {max}; raise it, cancel timers, or wait until some have fired"
            ),
            retry_after: Some(duly_core::Millis::from_secs(1)),
        })),
        _ => Ok(()),
    }
}

/// Checks a new or changed timer against the namespace's limits.
pub(super) fn check_limits(
    settings: &Settings,
    name: &NamespaceName,
    timer: &Timer,
    now: Timestamp,
    field: &'static str,
) -> Result<(), Stop> {
    let limits = &settings.limits;
    let bytes = timer.payload.as_ref().map_or(0, |payload| payload.bytes.len() as u64);
    if bytes > limits.max_payload_bytes {
        return Err(Stop::Refused(Refusal::PayloadTooLarge {
            namespace: name.clone(),
            bytes,
            bytes_max: limits.max_payload_bytes,
        }));
    }
    if let Some(max_delay) = limits.max_delay
        && timer.due_at.saturating_since(now) > max_delay
    {
        let allowed =
            format!("at most {max_delay} from now (limits.max_delay of namespace {name})");
        let seen = timer.due_at;
        return Err(Stop::Refused(Refusal::Invalid(Invalid::new(field, seen, allowed))));
    }
    Ok(())
}
