//! One id as it was read, and what follows from it. Pure: no connection, no clock of its own.
//!
//! ```text
//!  read.lua ──► Case ──► due(): what the clock has ended ──► Draft ─┐
//!                 │                                                ├─► change.lua, if nothing that
//!                 └────► an operation or a verdict ────────► Draft ─┘    the case saw has changed
//! ```
//!
//! Whether something may happen is asked of [`duly_core::lifecycle::decide`]; how the record then
//! looks is left to the methods of [`duly_core::Timer`]. So this store has no lifecycle of its own.

use std::sync::Arc;

use duly_core::{
    Code, NamespaceName, Settings, State, Timer, TimerId, Timestamp, Tombstone, schedule::When,
};
use duly_store::{Error, Refusal, TimerView};

use crate::record::{Lease, Record};

mod clock;
mod draft;
mod import;
mod letters;
mod operation;
mod settle;

pub(crate) use clock::OWNER_GONE;
pub(crate) use draft::{Draft, Payload, origin_of};
pub(crate) use letters::not_found;
pub(crate) use operation::{Step, fresh, id_of};
pub(crate) use settle::Judged;

/// What is fixed for a namespace, as one shard has it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Control {
    pub(crate) name: NamespaceName,
    pub(crate) num: String,
    pub(crate) ver: String,
    pub(crate) settings: Arc<Settings>,
    pub(crate) paused: bool,
    pub(crate) resumes_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// All that is known of one id at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) id: TimerId,
    pub(crate) now: Timestamp,
    pub(crate) control: Arc<Control>,
    /// Dead letters of the namespace in this shard.
    pub(crate) dead: u64,
    pub(crate) live: Option<Live>,
    pub(crate) tombstone: Option<Tombstone>,
    /// The dead letter that is meant: the latest of the id, or the one asked for.
    pub(crate) letter: Option<Letter>,
    /// The dead letter of the firing that was asked for.
    pub(crate) other: Option<Timer>,
    pub(crate) seen: Seen,
}

/// A pending timer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Live {
    pub(crate) record: Record,
    pub(crate) lease: Option<Lease>,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Letter {
    pub(crate) record: Record,
    /// Its key among the records.
    pub(crate) key: Vec<u8>,
}

/// The bytes that were seen, for the compare-and-set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) core: Vec<u8>,
    pub(crate) lease: Vec<u8>,
    pub(crate) tombstone: Vec<u8>,
    /// Entry of the latest dead letter, unless another was asked for.
    pub(crate) newest: Option<Vec<u8>>,
    pub(crate) letter_core: Vec<u8>,
}

impl Live {
    pub(crate) fn state(&self, now: Timestamp) -> State {
        if self.lease.is_some() {
            State::InFlight
        } else if self.record.timer.next_attempt_at.is_some() {
            State::Retrying
        } else if self.record.timer.due_at <= now {
            State::Due
        } else {
            State::Scheduled
        }
    }

    pub(crate) fn view(&self, namespace: &NamespaceName, now: Timestamp) -> TimerView {
        let timer = &self.record.timer;
        let mut view = TimerView::whole(namespace.clone(), self.state(now), timer.clone());
        view.leased_until = self.lease.and_then(|lease| lease.until());
        view.attempt_under_way = self.lease.map(|_| timer.attempts + 1);
        view.claimed_at = self.lease.map(|lease| lease.since);
        view
    }
}

impl Case {
    /// The timer under this id: the live one, else its tombstone, else its latest dead letter.
    pub(crate) fn view(&self) -> Option<TimerView> {
        let name = &self.control.name;
        if let Some(live) = &self.live {
            return Some(live.view(name, self.now));
        }
        if let Some(tombstone) = &self.tombstone {
            return Some(TimerView::tombstone(name.clone(), tombstone.clone()));
        }
        Some(self.letter_view(&self.letter.as_ref()?.record))
    }

    /// The same, with what the clock has ended taken as ended, although nobody has written that yet.
    pub(crate) fn view_by_clock(&self) -> Option<TimerView> {
        let Some(draft) = self.due() else {
            return self.view();
        };
        match (&draft.live, &draft.bury) {
            (Some(draft::New::Put(record)), _) => {
                let live = Live { record: Record::clone(record), lease: None };
                Some(live.view(&self.control.name, self.now))
            }
            (_, Some((record, _))) => Some(self.letter_view(record)),
            _ => self.view(),
        }
    }

    /// Refuses a view of it that takes more memory than this, with a payload that was not read for its
    /// size.
    ///
    /// # Errors
    /// [`Error::TooLarge`] with what it takes.
    pub(crate) fn check_memory(&self, view: &TimerView, bytes_max: u64) -> Result<(), Error> {
        let records =
            [self.live.as_ref().map(|it| &it.record), self.letter.as_ref().map(|it| &it.record)];
        let shown = records.into_iter().flatten().next().filter(|record| record.lacks_payload());
        let is_left_out = view.timer().is_some_and(|timer| timer.payload.is_none());
        let missing = shown.filter(|_| is_left_out).and_then(|record| record.apart.as_ref());
        let bytes = view.memory_bytes() + missing.map_or(0, |apart| apart.bytes);
        if bytes <= bytes_max { Ok(()) } else { Err(Error::TooLarge { bytes }) }
    }

    fn letter_view(&self, record: &Record) -> TimerView {
        TimerView::whole(self.control.name.clone(), State::Dead, record.timer.clone())
    }

    /// What a namespace's limits say of a payload and a due time.
    fn admit(&self, payload_bytes: u64, when: Option<When>) -> Result<(), Refusal> {
        let admitted = self.settings().limits.admit(payload_bytes, when, self.now);
        admitted.map_err(|exceeded| Refusal::exceeded(&self.control.name, exceeded))
    }

    fn settings(&self) -> &Settings {
        &self.control.settings
    }
}

/// The refusal of something that a timer's state does not allow.
pub(crate) fn state_refusal(view: &TimerView, code: Code) -> Refusal {
    Refusal::State {
        id: view.id().clone(),
        state: view.state,
        code,
        leased_until: view.leased_until,
        attempts: view.attempts(),
        maybe_delivered: view.maybe_delivered(),
    }
}
