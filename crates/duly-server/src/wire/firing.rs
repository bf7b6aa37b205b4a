//! Leasing on the wire: the request, and the firings that are handed out.

use std::time;

use duly_core::{
    Invalid, Millis,
    namespace::{LEASE_MAX, LEASE_MIN},
};
use duly_store::Firing;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Duration, HeadersOut, Integer, TimeOut,
    payload::{self, Base64Out, JsonOut, TextOut},
};

/// Most firings of one lease call.
pub const LEASE_COUNT_MAX: u64 = 10_000;
/// Bytes of payloads and headers of one lease call, unless it says otherwise.
pub const LEASE_BYTES_DEFAULT: u64 = 4 * 1024 * 1024;
/// Most bytes of payloads and headers of one lease call.
pub const LEASE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Longest time that a lease call waits for a firing.
pub const LEASE_WAIT_MAX: Millis = Millis::from_secs(60);

/// What to lease.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Lease)]
pub struct LeaseIn {
    /// Most firings, 1 to 10000, default 1.
    pub(super) max: Option<Integer>,
    /// Most bytes of payloads and headers, default 4 MiB, at most 32 MiB. The first firing is
    /// granted whatever its size.
    pub(super) max_bytes: Option<Integer>,
    /// How long the lease is, 1s to 12h; default the namespace's.
    pub(super) lease: Option<Duration>,
    /// How long to wait for a firing, at most 60s, default 0s.
    pub(super) wait: Option<Duration>,
}

/// A checked lease call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseCall {
    /// Most firings.
    pub max: usize,
    /// Most bytes.
    pub bytes_max: u64,
    /// How long the lease is.
    pub lease: Option<Millis>,
    /// How long to wait.
    pub wait: time::Duration,
}

impl LeaseIn {
    /// Checks every field.
    ///
    /// # Errors
    /// When a value is not allowed.
    pub fn check(self) -> Result<LeaseCall, Invalid> {
        let max = match self.max {
            Some(max) => max.within("max", 1, LEASE_COUNT_MAX)?,
            None => 1,
        };
        Ok(LeaseCall {
            max: usize::try_from(max).unwrap_or(usize::MAX),
            bytes_max: match self.max_bytes {
                Some(bytes) => bytes.within("max_bytes", 1, LEASE_BYTES_MAX)?,
                None => LEASE_BYTES_DEFAULT,
            },
            lease: match &self.lease {
                Some(lease) => Some(lease.check_within("lease", LEASE_MIN, LEASE_MAX)?),
                None => None,
            },
            wait: match &self.wait {
                Some(wait) => wait.check_within("wait", Millis::ZERO, LEASE_WAIT_MAX)?.to_std(),
                None => time::Duration::ZERO,
            },
        })
    }
}

/// The firings that were granted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Leased)]
pub struct LeasedOut<'a> {
    /// The firings, in due order.
    pub firings: Vec<FiringOut<'a>>,
    /// `true`: the namespace is paused, so there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// A due occurrence under a lease.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Firing)]
pub struct FiringOut<'a> {
    /// Names the lease: who holds it may settle.
    token: String,
    /// The idempotency key, the same in every attempt.
    delivery_id: String,
    /// The timer.
    id: &'a str,
    /// Which firing of the timer.
    occurrence: u32,
    /// Which attempt, from 1.
    attempt: u32,
    /// When it was due.
    #[schema(value_type = String, format = DateTime)]
    due_at: TimeOut,
    /// When the lease ends.
    #[schema(value_type = String, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    leased_until: Option<TimeOut>,
    /// Headers that travel with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    headers: Option<HeadersOut<'a>>,
    /// Key by which a broker partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    slot_key: Option<&'a str>,
    /// The payload, if it was given as JSON: its exact text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<JsonOut<'a>>,
    /// The payload, if it was given as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    payload_text: Option<TextOut<'a>>,
    /// The payload, if it was given as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    payload_base64: Option<Base64Out<'a>>,
}

impl<'a> From<&'a Firing> for FiringOut<'a> {
    fn from(firing: &'a Firing) -> Self {
        let payload = firing.payload.as_ref();
        Self {
            token: firing.token.to_string(),
            delivery_id: firing.delivery_id.to_string(),
            id: firing.id.as_str(),
            occurrence: firing.occurrence,
            attempt: firing.attempt,
            due_at: firing.due_at.into(),
            leased_until: firing.leased_until.map(Into::into),
            headers: (!firing.headers.is_empty()).then_some(HeadersOut(&firing.headers)),
            slot_key: firing.slot_key.as_ref().map(|key| key.as_str()),
            payload: payload::json_of(payload),
            payload_text: payload::text_of(payload),
            payload_base64: payload::base64_of(payload),
        }
    }
}
