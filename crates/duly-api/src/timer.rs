//! A timer in a response.

use bytes::Bytes;
use duly_core::{
    DeliveryId, NamespaceName, Timer as StoredTimer, TimerSpec, TimerView, Tombstone, timer,
    tombstone::{Details, Ended},
    view::Body,
};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{
    AttemptOutcome, DeadReason, Destination, Duration, Problem, Retry, State, Time, Unchanged,
    headers::{self, CredentialsForm, Header, HeaderList},
    number::ranged,
    payload::{self, PayloadFields},
    words::{Word, is_unspecified},
};

/// Entries of a page of a list if the call does not set `limit`.
pub const PAGE_DEFAULT: u32 = 100;

/// A timer; a field without a value is absent.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct Timer {
    /// The namespace.
    #[prost(string, tag = "1")]
    pub namespace: String,
    /// The id.
    #[prost(string, tag = "2")]
    pub id: String,
    /// The state.
    #[prost(enumeration = "State", tag = "3")]
    #[serde(with = "Word::<State>")]
    #[schema(value_type = State)]
    pub state: i32,
    /// `true`: the schedule found this timer.
    #[prost(bool, tag = "31")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub existing: bool,
    /// `true`: the schedule put this timer in the place of a pending one.
    #[prost(bool, tag = "32")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
    /// The call changed nothing, for this reason.
    #[prost(enumeration = "Unchanged", tag = "41")]
    #[serde(default, with = "Word::<Unchanged>", skip_serializing_if = "is_unspecified")]
    #[schema(value_type = Option<Unchanged>)]
    pub unchanged: i32,
    /// `true`: the timer has ended, and its tombstone is kept for `retention`.
    #[prost(bool, tag = "4")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tombstone: bool,
    /// The time at which it is, or was, due.
    #[prost(message, optional, tag = "5")]
    #[schema(required = true, value_type = Time)]
    pub due_at: Option<Time>,
    /// 1 at creation, +1 at every accepted change by a caller.
    #[prost(uint32, optional, tag = "6")]
    pub revision: Option<u32>,
    /// The number of this firing: 0 for a timer that fires once.
    #[prost(uint32, optional, tag = "7")]
    pub occurrence: Option<u32>,
    /// The receiver's idempotency key of this firing.
    #[prost(string, optional, tag = "8")]
    pub delivery_id: Option<String>,
    /// The payload, if it was given as JSON: its exact text, `null` too. Never in the response to a batch.
    #[prost(bytes = "bytes", optional, tag = "9")]
    #[serde(default, with = "payload::json")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Bytes>,
    /// The payload, if it was given as text.
    #[prost(bytes = "bytes", optional, tag = "10")]
    #[serde(default, with = "payload::text")]
    #[schema(value_type = Option<String>)]
    pub payload_text: Option<Bytes>,
    /// The payload, if it was given as bytes.
    #[prost(bytes = "bytes", optional, tag = "30")]
    #[serde(default, with = "payload::base64_text")]
    #[schema(value_type = Option<String>)]
    pub payload_base64: Option<Bytes>,
    /// Headers that travel with it. Never in the response to a batch.
    #[prost(message, repeated, tag = "11")]
    #[serde(default, with = "headers", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<HeaderList>)]
    pub headers: Vec<Header>,
    /// Tags to find it by.
    #[prost(string, repeated, tag = "12")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Key by which a broker partitions.
    #[prost(string, optional, tag = "13")]
    pub slot_key: Option<String>,
    /// Its own destination.
    #[prost(message, optional, tag = "14")]
    pub destination: Option<Destination>,
    /// Its own retry policy.
    #[prost(message, optional, tag = "15")]
    pub retry: Option<Retry>,
    /// Longest time after the due time; past it the timer becomes a dead letter.
    #[prost(message, optional, tag = "16")]
    #[schema(value_type = Option<String>)]
    pub expire_after: Option<Duration>,
    /// The time at which it was created, or replaced.
    #[prost(message, optional, tag = "17")]
    pub created_at: Option<Time>,
    /// The time at which a caller last changed it.
    #[prost(message, optional, tag = "18")]
    pub updated_at: Option<Time>,
    /// Attempts begun, the one under way included.
    #[prost(uint32, tag = "19")]
    pub attempts: u32,
    /// Attempts of these that do not count for the retry policy: those that ended in a snooze, and those before
    /// a redrive.
    #[prost(uint32, tag = "43")]
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncounted_attempts: u32,
    /// `true`: an attempt began whose outcome is not known.
    #[prost(bool, tag = "20")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maybe_delivered: bool,
    /// The time at which the next attempt may start, after a failed one.
    #[prost(message, optional, tag = "21")]
    pub next_attempt_at: Option<Time>,
    /// The end of the lease, while in flight.
    #[prost(message, optional, tag = "22")]
    pub leased_until: Option<Time>,
    /// `true`: the timer was cancelled while in flight, so no attempt follows the one under way.
    #[prost(bool, tag = "42")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_further_attempt: bool,
    /// The reason for which the last attempt failed.
    #[prost(string, optional, tag = "23")]
    pub last_error: Option<String>,
    /// The last 16 attempts, oldest first.
    #[prost(message, repeated, tag = "24")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Attempt>,
    /// The time at which the first attempt began.
    #[prost(message, optional, tag = "25")]
    pub fired_at: Option<Time>,
    /// The time at which its delivery was confirmed.
    #[prost(message, optional, tag = "26")]
    pub finished_at: Option<Time>,
    /// The time at which it was cancelled.
    #[prost(message, optional, tag = "27")]
    pub cancelled_at: Option<Time>,
    /// The time at which it was dead-lettered.
    #[prost(message, optional, tag = "28")]
    pub dead_at: Option<Time>,
    /// The reason for which it was dead-lettered.
    #[prost(enumeration = "DeadReason", tag = "29")]
    #[serde(default, with = "Word::<DeadReason>", skip_serializing_if = "is_unspecified")]
    #[schema(value_type = Option<DeadReason>)]
    pub dead_reason: i32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// An attempt that has ended.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct Attempt {
    /// Its number, from 1.
    #[prost(uint32, tag = "1")]
    #[schema(minimum = 1)]
    #[serde(deserialize_with = "ranged::<1, { u32::MAX as u64 }, _, _>")]
    pub attempt: u32,
    /// The time at which it began.
    #[prost(message, optional, tag = "2")]
    #[schema(required = true, value_type = Time)]
    pub at: Option<Time>,
    /// Its outcome.
    #[prost(enumeration = "AttemptOutcome", tag = "3")]
    #[serde(with = "Word::<AttemptOutcome>")]
    #[schema(value_type = AttemptOutcome)]
    pub outcome: i32,
    /// The reason, for people.
    #[prost(string, tag = "4")]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 1024)]
    pub reason: String,
}

/// A page of timers in order of (due time, id).
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = TimerPage)]
pub struct ListResponse {
    /// The timers.
    #[prost(message, repeated, tag = "1")]
    pub timers: Vec<Timer>,
    /// The place to continue from; absent at the end. A page may be short, even empty, and still have one.
    #[prost(string, optional, tag = "2")]
    pub cursor: Option<String>,
    /// With `tag` or `id_prefix`: approximate number of timers that were read for this page.
    #[prost(uint64, optional, tag = "3")]
    pub examined: Option<u64>,
    /// With `tag` or `id_prefix`: the due time up to which the list was read; absent at the end.
    #[prost(message, optional, tag = "4")]
    pub up_to: Option<Time>,
    /// Shards that were unavailable: their timers are not in this page. Absent: the page has the timers of
    /// all shards.
    #[prost(uint32, repeated, tag = "5")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub unavailable_shards: Vec<u32>,
}

/// The last line of a streamed list, or a line with the progress of a search.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListEnd {
    /// The progress of a search. The stream continues; a new call with the same filter and this cursor
    /// continues here.
    Progress {
        /// Approximate number of timers that were read so far.
        examined: u64,
        /// The due time up to which the list was read.
        up_to: Time,
        /// The place to continue from.
        cursor: String,
        /// Shards that were unavailable so far: their timers up to here are missing.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        unavailable_shards: Vec<u32>,
    },
    /// The list is complete.
    Summary {
        /// Timers in it.
        timers: u64,
    },
    /// The list ended early.
    Stopped {
        /// The place to continue from; absent: the beginning.
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<String>,
        /// The reason.
        error: Box<Problem>,
        /// Shards that were unavailable so far: their timers up to here are missing.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        unavailable_shards: Vec<u32>,
    },
}

/// The effect of the call that returns a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEffect {
    /// The timer is new or changed, or the call was not a change.
    Plain,
    /// The call changed nothing.
    Unchanged(Unchanged),
    /// The timer took the place of a pending one.
    Replaced,
}

impl Timer {
    /// Returns a timer as a response shows it.
    pub fn new(view: &TimerView, effect: CallEffect) -> Self {
        let unchanged = match effect {
            CallEffect::Unchanged(reason) => reason,
            CallEffect::Plain | CallEffect::Replaced => Unchanged::Unspecified,
        };
        let mut shown = Self {
            namespace: view.namespace.as_str().to_owned(),
            id: view.id().as_str().to_owned(),
            state: State::from(view.state).into(),
            existing: matches!(unchanged, Unchanged::SameRequest | Unchanged::Kept),
            replaced: effect == CallEffect::Replaced,
            unchanged: unchanged.into(),
            due_at: Some(view.due_at().into()),
            revision: view.revision(),
            attempts: view.attempts(),
            maybe_delivered: view.maybe_delivered(),
            leased_until: view.leased_until.map(Time::from),
            no_further_attempt: view.stopped,
            ..Self::default()
        };
        match &view.body {
            Body::Whole(timer) => shown.describe(&view.namespace, timer),
            Body::Tombstone(tombstone) => shown.describe_tombstone(&view.namespace, tombstone),
        }
        shown
    }

    /// Returns a timer of a list with `view=summary`: without payload, headers, history and the words of its
    /// receiver, which may repeat payload and headers.
    pub fn summary(view: &TimerView, effect: CallEffect) -> Self {
        let whole = Self::new(view, effect);
        let last_error =
            whole.last_error.as_deref().map(|reason| timer::own_reason(reason).to_owned());
        Self {
            payload: None,
            payload_text: None,
            payload_base64: None,
            headers: Vec::new(),
            history: Vec::new(),
            last_error,
            ..whole
        }
    }

    fn describe(&mut self, namespace: &NamespaceName, timer: &StoredTimer) {
        // Each field is named here, so that a new field is a compile error until it is shown.
        let TimerSpec {
            payload,
            headers,
            tags,
            slot_key,
            destination,
            retry,
            expire_after,
            trace_parent: _,
        } = &timer.spec;
        let forms = PayloadFields::of(payload.as_ref());
        self.payload = forms.json;
        self.payload_text = forms.text;
        self.payload_base64 = forms.base64;
        self.occurrence = Some(timer.occurrence);
        self.delivery_id = Some(timer.delivery_id(namespace.as_str()).to_string());
        self.headers = headers::shown(headers);
        self.tags = tags.as_slice().to_vec();
        self.slot_key = slot_key.as_ref().map(|key| key.as_str().to_owned());
        let destination = destination.as_ref();
        self.destination = destination.map(|it| Destination::shown(it, CredentialsForm::Redacted));
        self.retry = retry.as_ref().map(Retry::from);
        self.expire_after = expire_after.map(Duration::from);
        self.created_at = Some(timer.created_at.into());
        self.updated_at = Some(timer.updated_at.into());
        self.next_attempt_at = timer.next_attempt_at.map(Time::from);
        self.last_error = timer.last_error().map(str::to_owned);
        self.history = timer.history.iter().map(Attempt::from).collect();
        self.uncounted_attempts = timer.budget_from;
        self.fired_at = timer.fired_at.map(Time::from);
        self.dead_at = timer.dead_letter.map(|dead_letter| dead_letter.at.into());
        let reason = timer.dead_letter.map(|dead_letter| DeadReason::from(dead_letter.reason));
        self.dead_reason = reason.unwrap_or_default().into();
    }

    fn describe_tombstone(&mut self, namespace: &NamespaceName, tombstone: &Tombstone) {
        self.tombstone = true;
        match tombstone.ended {
            Ended::Finished => self.finished_at = Some(tombstone.ended_at.into()),
            Ended::Cancelled => self.cancelled_at = Some(tombstone.ended_at.into()),
        }
        let Some(details) = tombstone.details.as_deref() else {
            return;
        };
        let Details { incarnation, occurrence, .. } = *details;
        let id = tombstone.id.as_str();
        let delivery_id = DeliveryId::of(namespace.as_str(), id, incarnation, occurrence);
        self.occurrence = Some(occurrence);
        self.delivery_id = Some(delivery_id.to_string());
        self.created_at = Some(details.created_at.into());
        self.updated_at = Some(details.updated_at.into());
        self.uncounted_attempts = details.uncounted;
        self.fired_at = details.fired_at.map(Time::from);
        self.history = details.history.iter().map(Attempt::from).collect();
    }
}

impl From<&timer::Attempt> for Attempt {
    fn from(attempt: &timer::Attempt) -> Self {
        Self {
            attempt: attempt.attempt,
            at: Some(attempt.at.into()),
            outcome: AttemptOutcome::from(attempt.outcome).into(),
            reason: attempt.reason.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
