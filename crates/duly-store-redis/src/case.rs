//! One id as it was read, and the change that follows from it, with its arguments for `change.lua`. Pure:
//! no connection and no clock of its own.
//! ```text
//!  read.lua ──► Case ──► due(): what the clock has ended ──► Draft ─┐
//!                 │                                                ├─► change.lua, if nothing that
//!                 └────► an operation or a settlement ─────► Draft ─┘    the case saw has changed
//! ```
//!
//! The decisions are those of [`duly_core::operate`] and [`duly_core::settle`]: this store has no rules
//! of its own.

use std::sync::Arc;

use duly_core::{
    NamespaceName, Settings, State, Timer, TimerId, Timestamp, Tombstone, operate::QuotaUse,
    totals::Total,
};
use duly_store::{Answer, Error, TimerView};

use crate::record::{Lease, Record, cancelled, firing_key_of};

mod decide;

pub(crate) use decide::{SettleDecision, context_of, receiver_of};

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
    pub(crate) control: Control,
    /// Dead letters of the namespace in this shard.
    pub(crate) dead: u64,
    pub(crate) live: Option<LiveTimer>,
    pub(crate) tombstone: Option<Tombstone>,
    /// The dead letter of the operation: the latest of the id, or the one asked for.
    pub(crate) dead_letter: Option<Record>,
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
            view.stopped = self.record.stopped;
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
        let letter = self.dead_letter.as_ref()?;
        Some(TimerView::whole(name.clone(), State::Dead, letter.timer.clone()))
    }

    /// Returns the view at the present clock: what the clock has ended counts as ended, also without a
    /// write yet.
    pub(crate) fn view_by_clock(&self) -> Option<TimerView> {
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
    pub(crate) fn check_memory(&self, view: &TimerView, bytes_max: u64) -> Result<(), Error> {
        let missing = if view.timer().is_some() { self.missing_bytes() } else { 0 };
        Ok(Answer::Within(bytes_max).check(|| view.memory_bytes() + missing)?)
    }

    /// Returns the bytes of the payload that was not read because of its size.
    fn missing_bytes(&self) -> u64 {
        let live = self.live.as_ref().map(|live| &live.record);
        live.or(self.dead_letter.as_ref()).map_or(0, Record::missing_bytes)
    }
}

/// A change of one id. Parts that are left out stay as they are.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) live: Option<LiveChange>,
    /// `true`: the present tombstone is dropped.
    pub(crate) drop_tombstone: bool,
    /// The tombstone that a cancelled timer leaves.
    pub(crate) cancelled: Option<Tombstone>,
    /// A new dead letter. A payload that is stored apart is that of the live timer, and moves to it.
    pub(crate) dead_letter: Option<Box<Record>>,
    /// `true`: the dead letter of the case is removed. Its payload goes with it, or to the live timer.
    pub(crate) removes_dead_letter: bool,
    /// Limits of the namespace at which it is refused.
    pub(crate) quota_use: QuotaUse,
    /// Refused when `schedule_per_second` is used up; the coordinator shard may have to be asked.
    pub(crate) rate: Option<&'static str>,
    pub(crate) counts: &'static [Total],
}

/// New state of the live timer.
#[derive(Debug)]
pub(crate) enum LiveChange {
    Removed,
    /// The timer without a lease.
    Put(Box<Record>),
    /// The timer, stopped; its lease stays.
    Stopped(Box<Record>),
}

impl Draft {
    /// Returns the arguments of the script. `version` names a payload that is to be stored apart.
    pub(crate) fn arguments(&self, case: &Case, version: [u8; 8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut push = |name: &str, value: &[u8]| {
            out.push(name.as_bytes().to_vec());
            out.push(value.to_vec());
        };
        let control = &case.control;
        push("name", control.name.as_str().as_bytes());
        push("num", control.num.as_bytes());
        push("ver", control.ver.as_bytes());
        push("id", case.id.as_str().as_bytes());
        push("core", &case.seen.core);
        push("lease", &case.seen.lease);
        push("stub", &case.seen.tombstone);
        if let Some(newest) = &case.seen.newest {
            push("newest", newest);
        }
        match &self.live {
            None => {}
            Some(LiveChange::Removed) => push("live", b""),
            Some(LiveChange::Stopped(record)) => push("mark", &record.pack(version).record),
            Some(LiveChange::Put(record)) => {
                let timer = &record.timer;
                let packed = record.pack(version);
                push("live", &packed.record);
                push("at", timer.claimable_at().unix_ms().to_string().as_bytes());
                if let Some(at) = timer.expires_at() {
                    push("exp", at.unix_ms().to_string().as_bytes());
                }
                if let Some(receiver) = receiver_of(record) {
                    push("origin", receiver.as_bytes());
                }
                match packed.payload {
                    Some(payload) => push("payload", &payload),
                    None if record.apart.is_none() => push("payload", b""),
                    None => {}
                }
            }
        }
        if let Some(tombstone) = &self.cancelled {
            push("ended", &cancelled(tombstone));
            push("kind", b"C");
        } else if self.drop_tombstone {
            push("ended", b"");
        }
        if let Some(record) = &self.dead_letter {
            let timer = &record.timer;
            let packed = record.pack(version);
            let did = timer.delivery_id(control.name.as_str());
            push("bury", &packed.record);
            push("bury_fk", &firing_key_of(record));
            push("bury_due", timer.due_at.unix_ms().to_string().as_bytes());
            push("bury_did", &did.to_u128().to_be_bytes());
            match packed.payload {
                Some(payload) => push("bury_payload", &payload),
                None if record.apart.is_some() => push("bury_payload", b"="),
                None => {}
            }
        }
        if let (true, Some(letter)) = (self.removes_dead_letter, &case.dead_letter) {
            let did = letter.timer.delivery_id(control.name.as_str());
            push("take_fk", &firing_key_of(letter));
            push("take_core", &case.seen.dead_letter_core);
            push("take_did", &did.to_u128().to_be_bytes());
            if self.live.is_some() && letter.apart.is_some() {
                push("take_payload", b"=");
            }
        }
        if self.quota_use.pending {
            push("one_more", b"1");
        }
        if self.quota_use.dead_letter {
            push("one_letter", b"1");
        }
        if let Some(admission) = self.rate {
            push("rate", admission.as_bytes());
        }
        for count in self.counts.iter().map(|total| total.as_str()) {
            push(&format!("count.{count}"), b"1");
        }
        out
    }
}
