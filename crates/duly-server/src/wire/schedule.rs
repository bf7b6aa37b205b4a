//! The body of a schedule, and the time words that it shares with a change.

use std::fmt;

use duly_core::{
    Invalid, Payload, Schedule, TimerId,
    headers::Headers,
    schedule::{IfExists, SlotKey, Tags, When},
};
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny},
};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{DestinationIn, Duration, Headers as HeadersIn, RetryIn, Time, payload};

/// A request to deliver a payload at a time.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Schedule)]
pub struct ScheduleIn<'a> {
    /// The caller's id: 1 to 256 bytes of UTF-8 without control characters, not `.` or `..`.
    /// Absent: the server makes a UUIDv7.
    pub(super) id: Option<String>,
    /// When it is due. Exactly one of `due_at` and `delay`.
    pub(super) due_at: Option<Time>,
    /// How long from now it is due; 0 is allowed.
    pub(super) delay: Option<Duration>,
    /// Payload: any JSON value nested at most 64 levels deep, `null` too; its exact text is kept. At
    /// most one of the three.
    #[serde(borrow, default, deserialize_with = "payload::present")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(super) payload: Option<&'a RawValue>,
    /// Payload: text.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    pub(super) payload_text: Option<payload::TextIn<'a>>,
    /// Payload: bytes in standard, padded base64.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    pub(super) payload_base64: Option<payload::TextIn<'a>>,
    /// Payload: as it is, where the caller has no need to write it as text.
    #[serde(skip)]
    #[schema(ignore)]
    pub(super) payload_given: Option<Payload>,
    /// Headers that travel with it: at most 64, 8 KiB in all.
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    pub(super) headers: Option<HeadersIn>,
    /// Tags to find it by: at most 16 of at most 64 bytes.
    pub(super) tags: Option<Vec<String>>,
    /// Key by which a broker partitions.
    pub(super) slot_key: Option<String>,
    /// Where it goes; the namespace's destination when absent.
    pub(super) destination: Option<DestinationIn>,
    /// Its retry policy; the namespace's when absent.
    pub(super) retry: Option<RetryIn>,
    /// Later than this after due it becomes a dead letter.
    pub(super) expire_after: Option<Duration>,
    /// Reserved.
    #[schema(ignore)]
    pub(super) repeat: Option<IgnoredAny>,
    /// What an existing timer with this id means.
    pub(super) if_exists: Option<IfExistsIn>,
}

/// What a schedule of an id that is taken by another request does.
#[derive(Debug, Clone, Copy, ToSchema)]
#[schema(as = IfExists, rename_all = "snake_case")]
pub enum IfExistsIn {
    /// Refuse it (the default).
    Fail,
    /// Answer the existing timer.
    Keep,
    /// Put the new timer in its place.
    Replace,
}

impl<'de> Deserialize<'de> for IfExistsIn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = IfExistsIn;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one of fail, keep, replace")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<IfExistsIn, E> {
                match text {
                    "fail" => Ok(IfExistsIn::Fail),
                    "keep" => Ok(IfExistsIn::Keep),
                    "replace" => Ok(IfExistsIn::Replace),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl From<IfExistsIn> for IfExists {
    fn from(value: IfExistsIn) -> Self {
        match value {
            IfExistsIn::Fail => Self::Fail,
            IfExistsIn::Keep => Self::Keep,
            IfExistsIn::Replace => Self::Replace,
        }
    }
}

impl ScheduleIn<'_> {
    /// Checks every field. `make_id` names a timer whose caller chose no id.
    ///
    /// # Errors
    /// When a value is not allowed; the error names the field.
    pub fn check(self, make_id: impl FnOnce() -> TimerId) -> Result<(Schedule, IfExists), Invalid> {
        if self.repeat.is_some() {
            return Err(Invalid::unseen(
                "repeat",
                "left out: repeating timers are not supported yet",
            ));
        }
        let id = match &self.id {
            Some(id) => TimerId::new(id)?,
            None => make_id(),
        };
        let when = when(self.due_at.as_ref(), self.delay.as_ref())?
            .ok_or_else(|| Invalid::unseen("due_at", "given, or delay: exactly one of the two"))?;
        let forms = payload::Forms {
            json: self.payload,
            text: self.payload_text,
            base64: self.payload_base64,
            given: self.payload_given,
        };
        let schedule = Schedule {
            id,
            when,
            payload: forms.check()?,
            headers: match self.headers {
                Some(headers) => headers.check("headers")?,
                None => Headers::default(),
            },
            tags: check_tags(self.tags.unwrap_or_default())?,
            slot_key: match self.slot_key {
                Some(key) => Some(SlotKey::new(key).map_err(|e| e.within("slot_key"))?),
                None => None,
            },
            destination: match self.destination {
                Some(destination) => Some(destination.check("destination")?),
                None => None,
            },
            retry: match self.retry {
                Some(retry) => Some(retry.check("retry")?),
                None => None,
            },
            expire_after: match &self.expire_after {
                Some(after) => Some(after.check("expire_after")?),
                None => None,
            },
            trace_parent: None,
        };
        Ok((schedule, self.if_exists.map(Into::into).unwrap_or_default()))
    }
}

/// The one time that is given, if one is.
///
/// # Errors
/// When both are given, or the one is not allowed.
pub(super) fn when(
    due_at: Option<&Time>,
    delay: Option<&Duration>,
) -> Result<Option<When>, Invalid> {
    match (due_at, delay) {
        (Some(due_at), None) => due_at.check("due_at").map(|at| Some(When::At(at))),
        (None, Some(delay)) => delay.check("delay").map(|delay| Some(When::After(delay))),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(Invalid::unseen("delay", "left out where due_at is given: exactly one of the two"))
        }
    }
}

/// Checks tags.
///
/// # Errors
/// When they are too many, or one is not allowed.
pub(super) fn check_tags(tags: Vec<String>) -> Result<Tags, Invalid> {
    Tags::new(tags).map_err(|invalid| invalid.within("tags"))
}
