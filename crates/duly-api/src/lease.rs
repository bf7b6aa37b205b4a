//! Leases: the request, and the leased firings.

use std::time;

use bytes::Bytes;
use duly_core::{
    Invalid, Millis, TimerSpec,
    namespace::{LEASE_MAX, LEASE_MIN},
};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{
    Duration, Time,
    headers::{self, Header, HeaderList},
    number::{ranged, within},
    payload::{self, PayloadFields},
};

/// Most firings of one lease call.
pub const LEASE_COUNT_MAX: u32 = 10_000;
/// Bytes of payloads and headers of one lease call, unless the call sets them.
pub const LEASE_BYTES_DEFAULT: u64 = 4 * 1024 * 1024;
/// Most bytes of payloads and headers of one lease call.
pub const LEASE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Longest time that a lease call waits for a firing.
pub const LEASE_WAIT_MAX: Millis = Millis::from_secs(60);

/// A request to lease firings.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct LeaseRequest {
    /// The namespace, which HTTP has in the path.
    #[prost(string, tag = "1")]
    #[serde(skip)]
    pub namespace: String,
    /// Most firings, 1 to 10000, default 1.
    #[prost(uint32, optional, tag = "2")]
    #[schema(minimum = 1, maximum = 10000)]
    #[serde(default, deserialize_with = "ranged::<1, { LEASE_COUNT_MAX as u64 }, _, _>")]
    pub max: Option<u32>,
    /// Most bytes of payloads and headers, default 4 MiB, at most 32 MiB. The first firing may have any
    /// size.
    #[prost(uint64, optional, tag = "3")]
    #[schema(minimum = 1, maximum = 33_554_432)]
    #[serde(default, deserialize_with = "ranged::<1, LEASE_BYTES_MAX, _, _>")]
    pub max_bytes: Option<u64>,
    /// Length of the lease, 1s to 12h; default the namespace's.
    #[prost(message, optional, tag = "4")]
    pub lease: Option<Duration>,
    /// Time to wait for a firing, at most 60s, default 0s.
    #[prost(message, optional, tag = "5")]
    pub wait: Option<Duration>,
}

/// A checked lease call. Only [`LeaseRequest::check`] makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseCall {
    /// Most firings.
    pub max: usize,
    /// Most bytes.
    pub bytes_max: u64,
    /// Length of the lease.
    pub lease: Option<Millis>,
    /// Time to wait.
    pub wait: time::Duration,
}

impl LeaseRequest {
    /// Returns the call, checked.
    ///
    /// # Errors
    /// When a value is not allowed.
    pub fn check(self) -> Result<LeaseCall, Invalid> {
        let max = within("max", self.max.unwrap_or(1), 1, LEASE_COUNT_MAX)?;
        let bytes = self.max_bytes.unwrap_or(LEASE_BYTES_DEFAULT);
        let lease = self.lease.map(|it| it.check_within("lease", LEASE_MIN, LEASE_MAX));
        let wait = self.wait.map(|it| it.check_within("wait", Millis::ZERO, LEASE_WAIT_MAX));
        Ok(LeaseCall {
            max: usize::try_from(max).unwrap_or(usize::MAX),
            bytes_max: within("max_bytes", bytes, 1, LEASE_BYTES_MAX)?,
            lease: lease.transpose()?,
            wait: wait.transpose()?.unwrap_or(Millis::ZERO).to_std(),
        })
    }
}

/// The firings that were granted, in due order.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = Leased)]
pub struct LeaseResponse {
    /// The firings.
    #[prost(message, repeated, tag = "1")]
    pub firings: Vec<Firing>,
    /// `true`: the namespace is paused, so there are none.
    #[prost(bool, tag = "2")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

/// A firing under a lease.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct Firing {
    /// Proves the lease when the firing is settled.
    #[prost(string, tag = "1")]
    pub token: String,
    /// The idempotency key, the same in every attempt.
    #[prost(string, tag = "2")]
    pub delivery_id: String,
    /// The id of the timer.
    #[prost(string, tag = "3")]
    pub id: String,
    /// The number of this firing of the timer: 0 for a timer that fires once.
    #[prost(uint32, tag = "4")]
    pub occurrence: u32,
    /// The number of this attempt, from 1.
    #[prost(uint32, tag = "5")]
    pub attempt: u32,
    /// The time at which it was due.
    #[prost(message, optional, tag = "6")]
    #[schema(required = true, value_type = Time)]
    pub due_at: Option<Time>,
    /// The end of the lease.
    #[prost(message, optional, tag = "7")]
    pub leased_until: Option<Time>,
    /// Headers that travel with it.
    #[prost(message, repeated, tag = "8")]
    #[serde(default, with = "headers", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<HeaderList>)]
    pub headers: Vec<Header>,
    /// Key by which a broker partitions.
    #[prost(string, optional, tag = "9")]
    pub slot_key: Option<String>,
    /// The payload, if it was given as JSON: its exact text, `null` too.
    #[prost(bytes = "bytes", optional, tag = "10")]
    #[serde(default, with = "payload::json")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Bytes>,
    /// The payload, if it was given as text.
    #[prost(bytes = "bytes", optional, tag = "11")]
    #[serde(default, with = "payload::text")]
    #[schema(value_type = Option<String>)]
    pub payload_text: Option<Bytes>,
    /// The payload, if it was given as bytes.
    #[prost(bytes = "bytes", optional, tag = "12")]
    #[serde(default, with = "payload::base64_text")]
    #[schema(value_type = Option<String>)]
    pub payload_base64: Option<Bytes>,
    /// The W3C trace context of this attempt, or of the call that scheduled the timer if the attempt is not
    /// traced.
    #[prost(string, optional, tag = "13")]
    pub trace_parent: Option<String>,
}

impl Firing {
    /// Returns a firing with the fields of the timer that travel, and no others.
    pub fn of_spec(spec: &TimerSpec) -> Self {
        let TimerSpec {
            payload,
            headers,
            tags: _,
            slot_key,
            destination: _,
            retry: _,
            expire_after: _,
            trace_parent,
        } = spec;
        let PayloadFields { json, text, base64 } = PayloadFields::of(payload.as_ref());
        Self {
            headers: headers::shown(headers),
            slot_key: slot_key.as_ref().map(|key| key.as_str().to_owned()),
            payload: json,
            payload_text: text,
            payload_base64: base64,
            trace_parent: trace_parent.clone(),
            ..Self::default()
        }
    }
}
