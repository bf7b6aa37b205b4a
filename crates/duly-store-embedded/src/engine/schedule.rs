//! Schedule: a new timer, the existing one, or one in its place.

use std::{sync::Arc, time::Duration};

use duly_core::{
    Incarnation, Invalid, NamespaceName, Schedule, Settings, Timer, Timestamp,
    lifecycle::{self, Decision, Event, Request},
    request_hash::RequestHash,
    schedule::{IfExists, When},
};
use duly_store::{Answer, Outcome, Refusal, TimerView, query::Body};

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
        let given = (schedule.payload_bytes(), Some(schedule.when));
        let timer = match old_revision {
            None => Timer::new(schedule, now, incarnation),
            Some(revision) => Timer::replacing(revision, schedule, now, incarnation),
        }
        .map(Box::new)
        .map_err(|invalid| Stop::Refused(Refusal::Invalid(invalid)))?;
        check_limits(settings, name, given, now)?;
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

/// Refuses one more where a namespace has as many as it may.
pub(super) fn check_pending(
    settings: &Settings,
    pending: u64,
    name: &NamespaceName,
) -> Result<(), Stop> {
    match settings.limits.max_pending {
        Some(max) if pending >= max => Err(Stop::Refused(Refusal::pending_full(name, max))),
        _ => Ok(()),
    }
}

/// Checks the bytes of a payload, and a due time, that a caller gives.
pub(super) fn check_limits(
    settings: &Settings,
    name: &NamespaceName,
    (payload_bytes, when): (u64, Option<When>),
    now: Timestamp,
) -> Result<(), Stop> {
    let admitted = settings.limits.admit(payload_bytes, when, now);
    admitted.map_err(|exceeded| Stop::Refused(Refusal::exceeded(name, exceeded)))
}
