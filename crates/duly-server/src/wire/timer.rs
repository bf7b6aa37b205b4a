//! A timer in an answer, written straight from the store's view of it.

use duly_core::{
    NamespaceName, Timer, Tombstone,
    timer::Attempt,
    tombstone::{Details, Ended},
};
use duly_store::{TimerView, query::Body};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::{
    DestinationIn, DestinationOut, DurationOut, HeadersOut, RetryIn, RetryOut, TimeOut,
    payload::{self, Base64Out, JsonOut, TextOut},
    problem::ProblemOut,
};

/// Why this timer is the answer to a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It is new, or the call was no schedule.
    None,
    /// It was there before.
    Existing,
    /// It took the place of a pending one.
    Replaced,
}

/// A timer; a field is absent where it has none.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Timer)]
pub struct TimerOut<'a> {
    /// The namespace.
    pub(super) namespace: &'a str,
    /// The id.
    pub(super) id: &'a str,
    /// `scheduled`, `due`, `in_flight`, `retrying`, `finished`, `dead` or `cancelled`.
    pub(super) state: &'static str,
    /// `true`: the schedule found this timer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) existing: Option<bool>,
    /// `true`: the schedule put this timer in the place of a pending one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replaced: Option<bool>,
    /// `true`: the timer has ended, and this is what stays of it for `retention`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tombstone: Option<bool>,
    /// When it is, or was, due.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) due_at: Option<TimeOut>,
    /// 1 at creation, +1 at every accepted change by a caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<u32>,
    /// Which firing this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) occurrence: Option<u32>,
    /// The receiver's idempotency key of this firing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delivery_id: Option<String>,
    /// The payload, if it was given as JSON: its exact text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(super) payload: Option<JsonOut<'a>>,
    /// The payload, if it was given as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(super) payload_text: Option<TextOut<'a>>,
    /// The payload, if it was given as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    payload_base64: Option<Base64Out<'a>>,
    /// Headers that travel with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    pub(super) headers: Option<HeadersOut<'a>>,
    /// Tags to find it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tags: Option<&'a [String]>,
    /// Key by which a broker partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) slot_key: Option<&'a str>,
    /// Its own destination.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DestinationIn>)]
    pub(super) destination: Option<DestinationOut<'a>>,
    /// Its own retry policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RetryIn>)]
    pub(super) retry: Option<RetryOut<'a>>,
    /// Later than this after due it becomes a dead letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub(super) expire_after: Option<DurationOut>,
    /// When it was made, or replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) created_at: Option<TimeOut>,
    /// When a caller last changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) updated_at: Option<TimeOut>,
    /// Attempts begun, the one under way included.
    pub(super) attempts: u32,
    /// An attempt began whose outcome is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) maybe_delivered: Option<bool>,
    /// When the next attempt may start, after a failed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) next_attempt_at: Option<TimeOut>,
    /// When the lease ends, while in flight.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) leased_until: Option<TimeOut>,
    /// Why the last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_error: Option<&'a str>,
    /// The last 16 attempts, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<AttemptOut>>)]
    pub(super) history: Option<History<'a>>,
    /// When the first attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) fired_at: Option<TimeOut>,
    /// When its delivery was confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) finished_at: Option<TimeOut>,
    /// When it was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) cancelled_at: Option<TimeOut>,
    /// When it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(super) dead_at: Option<TimeOut>,
    /// Why it was given up: `attempts_spent`, `rejected`, `expired`, `corrupt` or `overdue`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dead_reason: Option<&'static str>,
}

impl<'a> TimerOut<'a> {
    /// The answer for a view.
    pub fn new(view: &'a TimerView, mark: Mark) -> Self {
        let mut out = Self {
            namespace: view.namespace.as_str(),
            id: view.id().as_str(),
            state: view.state.as_str(),
            existing: (mark == Mark::Existing).then_some(true),
            replaced: (mark == Mark::Replaced).then_some(true),
            due_at: Some(view.due_at().into()),
            revision: view.revision(),
            attempts: view.attempts(),
            maybe_delivered: view.maybe_delivered().then_some(true),
            leased_until: view.leased_until.map(TimeOut),
            ..Self::default()
        };
        match &view.body {
            Body::Whole(timer) => out.describe(&view.namespace, timer),
            Body::Tombstone(tombstone) => out.describe_tombstone(&view.namespace, tombstone),
        }
        out
    }

    fn describe(&mut self, namespace: &NamespaceName, timer: &'a Timer) {
        let payload = timer.payload.as_ref();
        self.occurrence = Some(timer.occurrence);
        self.delivery_id = Some(timer.delivery_id(namespace.as_str()).to_string());
        self.payload = payload::json_of(payload);
        self.payload_text = payload::text_of(payload);
        self.payload_base64 = payload::base64_of(payload);
        self.headers = (!timer.headers.is_empty()).then_some(HeadersOut(&timer.headers));
        self.tags = (!timer.tags.is_empty()).then_some(timer.tags.as_slice());
        self.slot_key = timer.slot_key.as_ref().map(|key| key.as_str());
        self.destination = timer.destination.as_ref().map(Into::into);
        self.retry = timer.retry.as_ref().map(RetryOut);
        self.expire_after = timer.expire_after.map(DurationOut);
        self.created_at = Some(timer.created_at.into());
        self.updated_at = Some(timer.updated_at.into());
        self.next_attempt_at = timer.next_attempt_at.map(TimeOut);
        self.last_error = timer.last_error();
        self.history = History::of(&timer.history);
        self.fired_at = timer.fired_at.map(TimeOut);
        self.dead_at = timer.dead_letter.map(|dead_letter| dead_letter.at.into());
        self.dead_reason = timer.dead_letter.map(|dead_letter| dead_letter.reason.as_str());
    }

    fn describe_tombstone(&mut self, namespace: &NamespaceName, tombstone: &'a Tombstone) {
        self.tombstone = Some(true);
        match tombstone.ended {
            Ended::Finished => self.finished_at = Some(tombstone.ended_at.into()),
            Ended::Cancelled => self.cancelled_at = Some(tombstone.ended_at.into()),
        }
        let Some(details) = tombstone.details.as_deref() else {
            return;
        };
        let Details { incarnation, occurrence, .. } = *details;
        let delivery_id = duly_core::DeliveryId::of(
            namespace.as_str(),
            tombstone.id.as_str(),
            incarnation,
            occurrence,
        );
        self.occurrence = Some(occurrence);
        self.delivery_id = Some(delivery_id.to_string());
        self.created_at = Some(details.created_at.into());
        self.updated_at = Some(details.updated_at.into());
        self.fired_at = details.fired_at.map(TimeOut);
        self.history = History::of(&details.history);
    }
}

/// The attempts that have ended; nothing where there is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct History<'a>(pub(super) &'a [Attempt]);

impl<'a> History<'a> {
    pub(super) fn of(attempts: &'a [Attempt]) -> Option<Self> {
        (!attempts.is_empty()).then_some(Self(attempts))
    }
}

impl Serialize for History<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|attempt| AttemptOut {
            attempt: attempt.attempt,
            at: attempt.at.into(),
            outcome: attempt.outcome.as_str(),
            reason: &attempt.reason,
        }))
    }
}

/// One attempt that has ended.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(super) struct AttemptOut<'a> {
    /// Its number, from 1.
    attempt: u32,
    /// When it began.
    #[schema(value_type = String, format = DateTime)]
    at: TimeOut,
    /// `delivered`, `failed`, `timed_out`, `not_connected`, `connection_lost`, `lease_lost` or
    /// `rejected`.
    outcome: &'static str,
    /// Why.
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
}

/// A page of timers in order of (due time, id).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TimerPage)]
pub struct TimersOut<'a> {
    /// The timers.
    pub timers: Vec<TimerOut<'a>>,
    /// Where to go on; absent at the end. A page may be short and still have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// With `tag` or `id_prefix`: timers that were looked at for this page, about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examined: Option<u64>,
    /// With `tag` or `id_prefix`: the due time up to which the list was looked through; absent at the
    /// end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub up_to: Option<TimeOut>,
}

/// A line of a list that is a stream and holds no timer: the last one, or how far a search is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListEndOut {
    /// Where a search is. The stream goes on; the same filter with this cursor goes on here.
    Progress {
        /// Timers that were looked at so far, about.
        examined: u64,
        /// The due time up to which the list was looked through.
        up_to: TimeOut,
        /// Where to go on.
        cursor: String,
    },
    /// It is whole.
    Summary {
        /// Timers in it.
        timers: u64,
    },
    /// It ended before that.
    Stopped {
        /// Where to go on; absent: at the beginning.
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
        /// Why.
        error: Box<ProblemOut>,
    },
}
