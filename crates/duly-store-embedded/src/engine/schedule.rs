//! Schedule: a new timer, the existing one, or one in its place.

use std::{sync::Arc, time::Duration};

use duly_core::{
    Incarnation, Invalid, NamespaceName, Schedule, Settings, Timer, Timestamp,
    lifecycle::{self, Decision, Event, Request},
    request_hash::RequestHash,
    schedule::IfExists,
};
use duly_store::{Answer, Limit, Outcome, Refusal, TimerView, query::Body};

use crate::{
    format::record::{Cause, Record},
    index::Key,
};

use super::{Engine, Stop, time::may_be_damaged, view::Known};

impl Engine {
    pub(super) fn schedule(
        &mut self,
        key: Key,
        name: &NamespaceName,
        schedule: Schedule,
        if_exists: IfExists,
        answer: Answer,
    ) -> Result<Outcome, Stop> {
        let number = key.namespace();
        let known = self.look_up(key);
        let view = self.readable(name, known)?;
        if view.as_ref().is_some_and(|view| *view.id() != schedule.id) {
            let id = schedule.id.as_str();
            let allowed = "another id: this one's hash in this store is that of another timer";
            return Err(Stop::Refused(Refusal::Invalid(Invalid::new("id", id, allowed))));
        }
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
                self.take_of_rate(key, name, &settings)?;
                let record = Record::Pending(Cause::Created, timer);
                self.write_keyed(key, &record)?;
                Ok(Outcome::Created(self.view_of(name, record)))
            }
            (Decision::Replace, Some(view)) => {
                let settings = Arc::clone(&self.namespace(number).settings);
                self.admit_new().map_err(Stop::Refused)?;
                let old_revision = view.revision().unwrap_or(0);
                let timer = self.new_timer(name, &settings, schedule, Some(old_revision))?;
                self.take_of_rate(key, name, &settings)?;
                let record = Record::Pending(Cause::Replaced, timer);
                self.write_keyed(key, &record)?;
                Ok(Outcome::Replaced(self.view_of(name, record)))
            }
            (Decision::Existing, Some(view)) => {
                answer.check(&view).map_err(Stop::Unread)?;
                Ok(Outcome::Existing(Arc::new(view)))
            }
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
    ) -> Result<Box<Timer>, Stop> {
        let now = self.now.wall();
        let incarnation = Incarnation(self.random_u64());
        let field = when_field(&schedule.when);
        let timer = match old_revision {
            None => Timer::new(schedule, now, incarnation),
            Some(revision) => Timer::replacing(revision, schedule, now, incarnation),
        }
        .map(Box::new)
        .map_err(|invalid| Stop::Refused(Refusal::Invalid(invalid)))?;
        check_limits(settings, name, &timer, now, field)?;
        Ok(timer)
    }

    /// Takes one of the schedules that the namespace's rate allows.
    fn take_of_rate(
        &mut self,
        key: Key,
        name: &NamespaceName,
        settings: &Settings,
    ) -> Result<(), Stop> {
        let Some(rate) = settings.limits.schedule_rate() else {
            return Ok(());
        };
        let boot = Duration::from_millis(self.now.boot_ms);
        let Some(namespace) = self.namespaces.get_mut(key.namespace()) else {
            return Ok(());
        };
        if namespace.schedules.available(rate, boot) == 0 {
            let wait = namespace.schedules.next_in(rate, boot);
            let refusal = Refusal::schedules_too_fast(name, rate.per_second(), wait);
            return Err(Stop::Refused(refusal));
        }
        namespace.schedules.take(rate, boot, 1);
        Ok(())
    }

    /// The view of a timer whose record was just written.
    pub(super) fn view_of(&self, name: &NamespaceName, record: Record) -> Arc<TimerView> {
        let (Record::Pending(_, timer) | Record::Dead(_, timer)) = record else {
            unreachable!("only records of timers are viewed")
        };
        Arc::new(self.live_view(name, timer, None))
    }

    /// The view of what is known; a damaged record is quarantined and then gone, and where the disk
    /// does not read it now nothing is known.
    pub(super) fn readable(
        &mut self,
        name: &NamespaceName,
        known: Known,
    ) -> Result<Option<TimerView>, Stop> {
        match self.view(name, known) {
            Ok(view) => Ok(view),
            Err(error) => {
                may_be_damaged(&error)?;
                match known {
                    Known::Live(key, entry) => self.quarantine(key, &entry, &error)?,
                    Known::Ended(key, _) => self.quarantine_tombstone(key, &error)?,
                    Known::Dead(_) | Known::Nothing => {}
                }
                Ok(None)
            }
        }
    }
}

fn is_same(view: &TimerView, schedule: &Schedule) -> bool {
    let stored = match &view.body {
        Body::Whole(timer) => Some(timer.request_hash),
        Body::Tombstone(tombstone) => {
            tombstone.details.as_ref().map(|details| details.request_hash)
        }
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

/// Refuses one more where a namespace has as many as it may.
pub(super) fn check_pending(
    settings: &Settings,
    pending: u64,
    name: &NamespaceName,
) -> Result<(), Stop> {
    match settings.limits.max_pending {
        Some(max) if pending >= max => Err(Stop::Refused(Refusal::Exhausted {
            limit: Limit::MaxPending,
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
