//! The error body: a problem of RFC 9457, with additional members of Duly.

use duly_core::{Code, error_code::Retry};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{
    State, Time, schema,
    words::{Word, is_unspecified},
};

/// The reason for which a request, or an item of one, was refused.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:duly:problem:` and the code.
    #[prost(string, tag = "13")]
    #[serde(default, rename = "type")]
    #[schema(required = true, example = "urn:duly:problem:invalid_argument")]
    pub kind: String,
    /// One per code, for people.
    #[prost(string, tag = "14")]
    #[serde(default)]
    #[schema(required = true)]
    pub title: String,
    /// The HTTP status.
    #[prost(uint32, tag = "15")]
    #[serde(default)]
    #[schema(required = true, minimum = 400, maximum = 599)]
    pub status: u32,
    /// The stable code, of an open list.
    #[prost(string, tag = "1")]
    #[schema(schema_with = schema::code)]
    pub code: String,
    /// The fault, and the remedy.
    #[prost(string, tag = "2")]
    #[serde(default)]
    #[schema(required = true)]
    pub detail: String,
    /// Path of the field at fault: `operations[3].schedule.due_at`, a query parameter, a header.
    #[prost(string, optional, tag = "3")]
    pub field: Option<String>,
    /// The value that was seen, shortened.
    #[prost(string, optional, tag = "4")]
    pub seen: Option<String>,
    /// The values that are allowed.
    #[prost(string, optional, tag = "5")]
    pub allowed: Option<String>,
    /// Time after which a retry can help; absent if none can.
    #[prost(uint64, optional, tag = "6")]
    pub retry_after_ms: Option<u64>,
    /// The state of the timer, if it is the reason.
    #[prost(enumeration = "State", tag = "7")]
    #[serde(default, with = "Word::<State>", skip_serializing_if = "is_unspecified")]
    #[schema(value_type = Option<State>)]
    pub state: i32,
    /// The definite result of a cancel: `in_flight`, `finished`, `dead` or `not_found`.
    #[prost(string, optional, tag = "16")]
    pub outcome: Option<String>,
    /// The end of the lease of a firing in flight.
    #[prost(message, optional, tag = "8")]
    pub leased_until: Option<Time>,
    /// Attempts so far.
    #[prost(uint32, optional, tag = "9")]
    pub attempts: Option<u32>,
    /// `true`: one of them may have arrived.
    #[prost(bool, optional, tag = "10")]
    pub maybe_delivered: Option<bool>,
    /// The revision that the request expected.
    #[prost(uint32, optional, tag = "11")]
    pub expected_revision: Option<u32>,
    /// The revision that the timer has.
    #[prost(uint32, optional, tag = "12")]
    pub actual_revision: Option<u32>,
}

impl Problem {
    /// Returns a problem with only its code and a sentence.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:duly:problem:{}", code.as_str()),
            title: code.title().to_owned(),
            status: u32::from(code.http_status()),
            code: code.as_str().to_owned(),
            detail: detail.into(),
            ..Self::default()
        }
    }

    /// Sets the time after which a retry can help.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry_after_ms = match retry {
            Retry::Never => None,
            Retry::Now => Some(0),
            Retry::After(wait) => Some(wait.ms()),
        };
        self
    }
}
