//! One id as it was read, and what follows from it. Pure: no connection and no clock of its own.
//! ```text
//!  read.lua ──► Case ──► due(): what the clock has ended ──► Draft ─┐
//!                 │                                                ├─► change.lua, if nothing that
//!                 └────► an operation or a settlement ─────► Draft ─┘    the case saw has changed
//! ```
//!
//! The decisions are those of [`duly_core::operate`] and [`duly_core::settle`]: this store has no rules
//! of its own.

use std::sync::Arc;

use duly_core::{NamespaceName, Settings, State, Timer, TimerId, Timestamp, Tombstone};
use duly_store::{Answer, Error, TimerView};

use crate::record::{Lease, Record};

mod decide;
mod draft;

pub(crate) use decide::{SettleDecision, origin_of};
pub(crate) use draft::{Draft, LiveChange, PayloadSource};

/// Settings and state of a namespace, as one shard has them.
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

/// Everything known of one id at one time.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) id: TimerId,
    pub(crate) now: Timestamp,
    pub(crate) control: Arc<Control>,
    /// Dead letters of the namespace in this shard.
    pub(crate) dead: u64,
    pub(crate) live: Option<LiveTimer>,
    pub(crate) tombstone: Option<Tombstone>,
    /// The dead letter of the operation: the latest of the id, or the one asked for.
    pub(crate) dead_letter: Option<DeadLetterRecord>,
    /// The dead letter of the firing that was asked for.
    pub(crate) other_dead_letter: Option<Timer>,
    pub(crate) seen: SeenBytes,
}

/// A pending timer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LiveTimer {
    pub(crate) record: Record,
    pub(crate) lease: Option<Lease>,
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeadLetterRecord {
    pub(crate) record: Record,
    /// Key of the dead letter among the records.
    pub(crate) key: Vec<u8>,
}

/// The bytes that were read, for the compare-and-set.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeenBytes {
    pub(crate) core: Vec<u8>,
    pub(crate) lease: Vec<u8>,
    pub(crate) tombstone: Vec<u8>,
    /// Entry of the latest dead letter, unless another one was asked for.
    pub(crate) newest: Option<Vec<u8>>,
    pub(crate) dead_letter_core: Vec<u8>,
}

impl LiveTimer {
    pub(crate) fn view(&self, namespace: &NamespaceName, now: Timestamp) -> TimerView {
        let timer = &self.record.timer;
        let mut view = TimerView::unleased(namespace.clone(), timer.clone(), now);
        if let Some(lease) = self.lease {
            view.state = State::InFlight;
            view.leased_until = lease.until();
            view.attempt_under_way = Some(timer.attempts + 1);
            view.claimed_at = Some(lease.since);
        }
        view
    }
}

impl Case {
    /// Returns the timer of this id: the pending one, else its tombstone, else its latest dead letter.
    pub(crate) fn view(&self) -> Option<TimerView> {
        let name = &self.control.name;
        if let Some(live) = &self.live {
            return Some(live.view(name, self.now));
        }
        if let Some(tombstone) = &self.tombstone {
            return Some(TimerView::tombstone(name.clone(), tombstone.clone()));
        }
        Some(self.dead_letter_view(&self.dead_letter.as_ref()?.record))
    }

    /// Returns the view at the present clock: what the clock has ended counts as ended, also without a
    /// write yet.
    pub(crate) fn view_by_clock(&self) -> Option<TimerView> {
        let Some(draft) = self.due() else {
            return self.view();
        };
        match (&draft.live, &draft.dead_letter) {
            (Some(draft::LiveChange::Put(record)), _) => {
                let live = LiveTimer { record: Record::clone(record), lease: None };
                Some(live.view(&self.control.name, self.now))
            }
            (_, Some((record, _))) => Some(self.dead_letter_view(record)),
            _ => self.view(),
        }
    }

    /// Refuses a view that takes more memory than `bytes_max`, counting a payload that was not read
    /// because of its size.
    ///
    /// # Errors
    /// [`Error::TooLarge`] with the bytes that the view takes.
    pub(crate) fn check_memory(&self, view: &TimerView, bytes_max: u64) -> Result<(), Error> {
        let missing = if view.timer().is_some() { self.missing_bytes() } else { 0 };
        Ok(Answer::Within(bytes_max).check(|| view.memory_bytes() + missing)?)
    }

    /// Returns the bytes of the payload that was not read because of its size.
    fn missing_bytes(&self) -> u64 {
        let live = self.live.as_ref().map(|live| &live.record);
        let shown = live.or_else(|| self.dead_letter.as_ref().map(|letter| &letter.record));
        let lacking = shown.filter(|record| record.lacks_payload());
        lacking.and_then(|record| record.apart.as_ref()).map_or(0, |apart| apart.bytes)
    }

    fn dead_letter_view(&self, record: &Record) -> TimerView {
        TimerView::whole(self.control.name.clone(), State::Dead, record.timer.clone())
    }
}
