//! One id as it was read.

use std::sync::Arc;

use duly_core::{NamespaceName, Settings, State, Timer, TimerId, Timestamp, Tombstone};
use duly_record::packed::Record;
use duly_store::{Answer, Error, TimerView};

use crate::Lease;

/// Everything known of one id at one time.
#[derive(Debug, Clone)]
pub struct Case {
    /// The id.
    pub id: TimerId,
    /// The time of the read, by the store's clock.
    pub now: Timestamp,
    /// The namespace.
    pub namespace: NamespaceName,
    /// The settings of the namespace.
    pub settings: Arc<Settings>,
    /// Dead letters of the namespace in this shard.
    pub dead: u64,
    /// The pending timer.
    pub live: Option<LiveTimer>,
    /// The tombstone, if it is still kept.
    pub tombstone: Option<Tombstone>,
    /// `true`: there is a row of a tombstone, kept or not.
    pub has_tombstone_row: bool,
    /// The dead letter of the operation: the latest of the id, or the one asked for.
    pub dead_letter: Option<Record>,
    /// The dead letter of the firing that was asked for.
    pub other_dead_letter: Option<Timer>,
}

/// A pending timer.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveTimer {
    /// Its record.
    pub record: Record,
    /// Its lease, if an attempt is under way.
    pub lease: Option<Lease>,
}

impl LiveTimer {
    /// Returns the view of the timer.
    pub fn view(&self, namespace: &NamespaceName, now: Timestamp) -> TimerView {
        let timer = &self.record.timer;
        let mut view = TimerView::unleased(namespace.clone(), timer.clone(), now);
        if let Some(lease) = self.lease {
            view.state = State::InFlight;
            view.leased_until = lease.until();
            view.attempt_under_way = Some(timer.attempts + 1);
            view.claimed_at = Some(lease.since);
            view.stopped = self.record.stopped;
        }
        view
    }
}

impl Case {
    /// Returns the timer of this id: the pending one, else its tombstone, else its latest dead letter.
    pub fn view(&self) -> Option<TimerView> {
        let name = &self.namespace;
        if let Some(live) = &self.live {
            return Some(live.view(name, self.now));
        }
        if let Some(tombstone) = &self.tombstone {
            return Some(TimerView::tombstone(name.clone(), tombstone.clone()));
        }
        let letter = self.dead_letter.as_ref()?;
        Some(TimerView::whole(name.clone(), State::Dead, letter.timer.clone()))
    }

    /// Returns the view at the present clock: what the clock has ended counts as ended, also without a
    /// write yet.
    pub fn view_by_clock(&self) -> Option<TimerView> {
        match &self.live {
            Some(live) => live.view_by_clock(&self.context(0)),
            None => self.view(),
        }
    }

    /// Refuses a view that takes more memory than `bytes_max`, counting a payload that was not read
    /// because of its size.
    ///
    /// # Errors
    /// [`Error::TooLarge`] with the bytes that the view takes.
    pub fn check_memory(&self, view: &TimerView, bytes_max: u64) -> Result<(), Error> {
        let missing = if view.timer().is_some() { self.missing_bytes() } else { 0 };
        Ok(Answer::Within(bytes_max).check(|| view.memory_bytes() + missing)?)
    }

    /// Returns the bytes of the payload that was not read because of its size.
    pub(crate) fn missing_bytes(&self) -> u64 {
        let live = self.live.as_ref().map(|live| &live.record);
        live.or(self.dead_letter.as_ref()).map_or(0, Record::missing_bytes)
    }
}
