//! Counts of a namespace, now and by time in the future.

use duly_core::Millis;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{Duration, Time};

/// Length of a bucket if the call does not set `bucket`.
pub const BUCKET_DEFAULT: Millis = Millis::from_secs(60);
/// Buckets if the call does not set `count`.
pub const BUCKETS_DEFAULT: u32 = 60;

/// Counts of a namespace.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = Stats)]
pub struct NamespaceStats {
    /// Waiting for their due time.
    #[prost(uint64, tag = "1")]
    pub scheduled: u64,
    /// Due and unclaimed.
    #[prost(uint64, tag = "2")]
    pub due: u64,
    /// Under a lease.
    #[prost(uint64, tag = "3")]
    pub in_flight: u64,
    /// Waiting for, or due for, another attempt.
    #[prost(uint64, tag = "4")]
    pub retrying: u64,
    /// Dead letters.
    #[prost(uint64, tag = "5")]
    pub dead: u64,
    /// Scheduled, due, in flight and retrying.
    #[prost(uint64, tag = "6")]
    pub pending: u64,
    /// Estimated bytes of the pending timers.
    #[prost(uint64, tag = "7")]
    pub pending_bytes: u64,
    /// Tombstones of ended timers.
    #[prost(uint64, tag = "8")]
    pub retained: u64,
    /// Earliest due time in the future.
    #[prost(message, optional, tag = "9")]
    pub next_due_at: Option<Time>,
    /// Earliest due time of the due and unclaimed timers.
    #[prost(message, optional, tag = "10")]
    pub oldest_due_at: Option<Time>,
    /// `true`: claims are refused.
    #[prost(bool, tag = "11")]
    pub paused: bool,
    /// `true`: no claim is granted, because there are `max_dead` dead letters.
    #[prost(bool, tag = "12")]
    pub dead_letters_full: bool,
    /// Lanes with pending timers.
    #[prost(message, repeated, tag = "13")]
    pub lanes: Vec<Lane>,
    /// State of the namespace's fallback on this node; absent where it has none.
    #[prost(message, optional, tag = "15")]
    pub fallback: Option<FallbackState>,
    /// Monotonic totals; they survive a restart.
    #[prost(message, optional, tag = "14")]
    #[schema(required = true, value_type = Totals)]
    pub totals: Option<Totals>,
    /// Shards that were unavailable: their timers are not counted. Absent: all shards are counted.
    #[prost(uint32, repeated, tag = "16")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub unavailable_shards: Vec<u32>,
}

/// Counts of one lane.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct Lane {
    /// `pull`, an HTTP origin, or `overflow`. A limited number of origins of timers' own destinations
    /// have their own lane; timers of further origins share `overflow`. It has no breaker, so its
    /// `breaker` is always `closed`.
    #[prost(string, tag = "1")]
    pub lane: String,
    /// Due and unclaimed first attempts.
    #[prost(uint64, tag = "2")]
    pub due: u64,
    /// Due and unclaimed retries.
    #[prost(uint64, tag = "3")]
    pub retry_due: u64,
    /// Under a lease.
    #[prost(uint64, tag = "4")]
    pub in_flight: u64,
    /// State of a push lane that this node has served lately; absent for pull.
    #[prost(message, optional, tag = "5")]
    #[serde(flatten)]
    pub push: Option<PushLane>,
}

/// State of a push lane on a node.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct PushLane {
    /// `flowing`, `capped` (at `in_flight_max`), `throttled` (at `per_second_max`), `starved` (of workers) or
    /// `shut` (its breaker is open).
    #[prost(string, tag = "1")]
    #[schema(required = false)]
    pub state: String,
    /// Attempts under way on this node, those not yet settled included.
    #[prost(uint64, tag = "2")]
    #[schema(required = false)]
    pub attempts_in_flight: u64,
    /// Those of them that are not first attempts.
    #[prost(uint64, tag = "3")]
    #[schema(required = false)]
    pub retries_in_flight: u64,
    /// Most attempts under way at once on this node.
    #[prost(uint64, optional, tag = "4")]
    pub in_flight_max: Option<u64>,
    /// Most attempts begun in a second.
    #[prost(uint32, optional, tag = "5")]
    pub per_second_max: Option<u32>,
    /// Due firings that the node knows of and has not claimed.
    #[prost(uint64, tag = "6")]
    #[schema(required = false)]
    pub backlog: u64,
    /// `closed`, `open` (the receiver does not respond and gets no attempts) or `half_open` (single
    /// attempts test whether it is back).
    #[prost(string, tag = "7")]
    #[schema(required = false)]
    pub breaker: String,
    /// `true`: its firings go to the namespace's fallback now.
    #[prost(bool, tag = "8")]
    #[schema(required = false)]
    pub diverted: bool,
    /// Failures in a row that the breaker has counted.
    #[prost(uint32, tag = "9")]
    #[schema(required = false)]
    pub failures_in_a_row: u32,
    /// Time until the next attempt past an open breaker.
    #[prost(uint64, optional, tag = "10")]
    pub next_probe_in_ms: Option<u64>,
}

/// State of the fallback of a namespace on a node.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct FallbackState {
    /// `closed`, `open` (it does not respond and gets no attempts: firings go to their own receivers, as
    /// without a fallback) or `half_open` (single attempts test whether it is back).
    #[prost(string, tag = "1")]
    pub breaker: String,
    /// Failures in a row that the breaker has counted.
    #[prost(uint32, tag = "2")]
    pub failures_in_a_row: u32,
    /// Time until the next attempt past an open breaker.
    #[prost(uint64, optional, tag = "3")]
    pub next_probe_in_ms: Option<u64>,
}

/// Monotonic totals of a namespace.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct Totals {
    /// Timers created or replaced.
    #[prost(uint64, tag = "1")]
    pub scheduled: u64,
    /// Attempts claimed.
    #[prost(uint64, tag = "2")]
    pub fired: u64,
    /// Firings confirmed.
    #[prost(uint64, tag = "3")]
    pub delivered: u64,
    /// Attempts that ended without a confirmation.
    #[prost(uint64, tag = "4")]
    pub failed: u64,
    /// Timers cancelled.
    #[prost(uint64, tag = "5")]
    pub cancelled: u64,
    /// Changes by PATCH and fire.
    #[prost(uint64, tag = "6")]
    pub rescheduled: u64,
    /// Firings dead-lettered.
    #[prost(uint64, tag = "7")]
    pub dead: u64,
}

/// The numbers of pending timers that become claimable in each of several buckets of time.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = Forecast)]
pub struct NamespaceForecast {
    /// The time at which it was made.
    #[prost(message, optional, tag = "1")]
    #[schema(required = true, value_type = Time)]
    pub now: Option<Time>,
    /// Length of a bucket.
    #[prost(message, optional, tag = "2")]
    #[schema(required = true, value_type = String, examples("1m"))]
    pub bucket: Option<Duration>,
    /// Due already: claimable at `now`.
    #[prost(uint64, tag = "3")]
    pub overdue: u64,
    /// Under a lease.
    #[prost(uint64, tag = "4")]
    pub in_flight: u64,
    /// The buckets, one after the other; `now` lies in the first.
    #[prost(message, repeated, tag = "5")]
    pub buckets: Vec<Bucket>,
    /// Due when the last bucket ends, or after it.
    #[prost(uint64, tag = "6")]
    pub later: u64,
    /// The sum of all.
    #[prost(uint64, tag = "7")]
    pub pending: u64,
    /// Shards that were unavailable: their timers are not counted. Absent: all shards are counted.
    #[prost(uint32, repeated, tag = "8")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub unavailable_shards: Vec<u32>,
}

/// One bucket of a forecast.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct Bucket {
    /// Its beginning: a multiple of its length since 1970-01-01T00:00:00Z.
    #[prost(message, optional, tag = "1")]
    #[schema(required = true, value_type = Time)]
    pub from: Option<Time>,
    /// Timers that become claimable in it.
    #[prost(uint64, tag = "2")]
    pub due: u64,
}
