//! Reschedule and fire: changes of a pending timer.

use std::sync::Arc;

use duly_core::{
    NamespaceName, TimerId,
    lifecycle::{self, Decision, Event},
    schedule::Patch,
};
use duly_store::{Answer, Outcome, Refusal, TimerView, query::Body};

use crate::{
    format::record::{Cause, Record},
    index::Key,
};

use super::{Engine, Stop, schedule};

impl Engine {
    pub(super) fn reschedule(
        &mut self,
        key: Key,
        name: &NamespaceName,
        id: &TimerId,
        patch: Patch,
        if_revision: Option<u32>,
        answer: Answer,
    ) -> Result<Outcome, Stop> {
        let view = self.find(key, name, id)?;
        check_revision(id, &view, if_revision)?;
        match lifecycle::decide(Some(view.state), Event::Reschedule) {
            Decision::Change => {}
            Decision::Refuse(code) => {
                return Err(Stop::Refused(self.refuse_state(id, &view, code)));
            }
            decision => unreachable!("a reschedule is never answered by {decision:?}"),
        }
        if patch.payload.is_keep() {
            answer.check(&view).map_err(Stop::Unread)?;
        }
        let mut timer = whole(view);
        let given = (patch.payload_bytes(), patch.when);
        let now = self.now.wall();
        timer.change(patch, now).map_err(|invalid| Stop::Refused(Refusal::Invalid(invalid)))?;
        let settings = Arc::clone(&self.namespace(key.namespace()).settings);
        schedule::check_limits(&settings, name, given, now)?;
        let record = Record::Pending(Cause::Rescheduled, timer);
        self.write_keyed(key, &record)?;
        Ok(Outcome::Changed(self.view_of(name, record)))
    }

    pub(super) fn fire(
        &mut self,
        key: Key,
        name: &NamespaceName,
        id: &TimerId,
        answer: Answer,
    ) -> Result<Outcome, Stop> {
        let view = self.find(key, name, id)?;
        let decision = lifecycle::decide(Some(view.state), Event::Fire);
        if let Decision::Refuse(code) = decision {
            return Err(Stop::Refused(self.refuse_state(id, &view, code)));
        }
        answer.check(&view).map_err(Stop::Unread)?;
        if decision == Decision::Already {
            return Ok(Outcome::Unchanged(Arc::new(view)));
        }
        let mut timer = whole(view);
        let now = if timer.next_attempt_at.is_some() { self.now.steady() } else { self.now.wall() };
        timer.fire_now(now);
        timer.updated_at = self.now.wall();
        let record = Record::Pending(Cause::Rescheduled, timer);
        self.write_keyed(key, &record)?;
        Ok(Outcome::Changed(self.view_of(name, record)))
    }

    /// The timer, tombstone or dead letter of an id, or `not_found`.
    pub(super) fn find(
        &mut self,
        key: Key,
        name: &NamespaceName,
        id: &TimerId,
    ) -> Result<TimerView, Stop> {
        let known = self.look_up(key);
        let own = self.readable(name, known)?.filter(|view| view.id() == id);
        own.ok_or_else(|| Stop::Refused(not_found(name, id)))
    }
}

pub(super) fn not_found(name: &NamespaceName, id: &TimerId) -> Refusal {
    Refusal::NotFound(format!("{:?} in namespace {name}", id.as_str()))
}

/// Refuses when a record has another revision than the caller expects; tombstones answer by state.
pub(super) fn check_revision(
    id: &TimerId,
    view: &TimerView,
    expected: Option<u32>,
) -> Result<(), Stop> {
    match (expected, view.timer()) {
        (Some(expected), Some(timer)) if timer.revision != expected => {
            let (id, actual) = (id.clone(), timer.revision);
            Err(Stop::Refused(Refusal::Revision { id, expected, actual }))
        }
        _ => Ok(()),
    }
}

pub(super) fn whole(view: TimerView) -> Box<duly_core::Timer> {
    match view.body {
        Body::Whole(timer) => timer,
        Body::Tombstone(_) => unreachable!("a tombstone's state allows no change"),
    }
}
