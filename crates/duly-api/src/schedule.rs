//! Requests to schedule a timer, and to change a pending one.
//!
//! In a change an absent field stays, and a given one replaces the old one completely. A field that is
//! named in `reset` (`null` in JSON) goes back to its default.

use bytes::Bytes;
use duly_core::{
    Invalid, Millis, Schedule as Checked, TimerId, TimerSpec,
    operate::Operation,
    schedule::{Change, EXPIRE_AFTER_MIN, IfExists as CheckedIfExists, Patch, SlotKey, Tags, When},
};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{
    Destination, Duration, IfExists, MessageFormat, Retry, Time, TimerField,
    headers::{self, Header, HeaderList},
    json::{BODY, Nulls},
    number::{check_revision, ranged},
    payload::{self, PayloadFields},
    words::{Word, Words, is_unspecified},
};

/// A request to deliver a payload at a time.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = ScheduleRequest)]
pub struct Schedule {
    /// The caller's id: 1 to 256 bytes of UTF-8 without control characters, not `.` or `..`, without white
    /// space at its beginning and end. Absent: the server makes a UUIDv7.
    #[prost(string, optional, tag = "1")]
    #[schema(min_length = 1, max_length = 256)]
    pub id: Option<String>,
    /// The time at which it is due. Exactly one of `due_at` and `delay`.
    #[prost(message, optional, tag = "2")]
    pub due_at: Option<Time>,
    /// The time from now until it is due; 0 is allowed.
    #[prost(message, optional, tag = "3")]
    pub delay: Option<Duration>,
    /// Payload: any JSON value nested at most 64 levels deep; its exact text is kept. `null` is a
    /// payload, too; a timer without a payload has none of the three fields. At most one of the three.
    #[prost(bytes = "bytes", optional, tag = "4")]
    #[serde(default, with = "payload::json")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Bytes>,
    /// Payload: text.
    #[prost(bytes = "bytes", optional, tag = "5")]
    #[serde(default, with = "payload::text")]
    #[schema(value_type = Option<String>)]
    pub payload_text: Option<Bytes>,
    /// Payload: bytes in standard, padded base64.
    #[prost(bytes = "bytes", optional, tag = "14")]
    #[serde(default, with = "payload::base64_text")]
    #[schema(value_type = Option<String>, content_encoding = "base64")]
    pub payload_base64: Option<Bytes>,
    /// Headers that travel with it: at most 64, 8 KiB in all. A `content-type` of your own wins over that
    /// of the payload's form.
    #[prost(message, repeated, tag = "6")]
    #[serde(default, with = "headers", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<HeaderList>)]
    pub headers: Vec<Header>,
    /// Tags to find it by: at most 16 of at most 64 bytes.
    #[prost(string, repeated, tag = "7")]
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<String>>, max_items = 16)]
    pub tags: Vec<String>,
    /// Key by which a broker partitions.
    #[prost(string, optional, tag = "8")]
    #[schema(min_length = 1, max_length = 256)]
    pub slot_key: Option<String>,
    /// Its destination; the namespace's when absent.
    #[prost(message, optional, tag = "9")]
    pub destination: Option<Destination>,
    /// Its retry policy; the namespace's when absent.
    #[prost(message, optional, tag = "10")]
    pub retry: Option<Retry>,
    /// Longest time after the due time, from 1s; past it the timer becomes a dead letter. Absent: it never
    /// expires.
    #[prost(message, optional, tag = "11")]
    pub expire_after: Option<Duration>,
    /// The effect if the id is taken by another request: `fail` (the default), `keep` or `replace`; or
    /// by any request: `restart`.
    #[prost(enumeration = "IfExists", tag = "12")]
    #[serde(default, with = "Word::<IfExists>", skip_serializing_if = "is_unspecified")]
    #[schema(value_type = Option<IfExists>)]
    pub if_exists: i32,
}

/// A change of a pending timer. At least one field; `if_revision` alone changes nothing and is
/// refused.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = TimerPatch)]
pub struct Reschedule {
    /// The timer; in a batch only.
    #[prost(string, tag = "1")]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(min_length = 1, max_length = 256)]
    pub id: String,
    /// A new due time. At most one of `due_at` and `delay`; neither can be reset.
    #[prost(message, optional, tag = "2")]
    #[serde(default, deserialize_with = "set_only")]
    #[schema(nullable = false)]
    pub due_at: Option<Time>,
    /// A new due time, from now.
    #[prost(message, optional, tag = "3")]
    #[serde(default, deserialize_with = "set_only")]
    #[schema(nullable = false)]
    pub delay: Option<Duration>,
    /// A new payload: any JSON value nested at most 64 levels deep. `null` removes the payload, so a change
    /// cannot make the payload `null`.
    #[prost(bytes = "bytes", optional, tag = "4")]
    #[serde(default, with = "payload::json_or_null")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Bytes>,
    /// A new payload: text. `null` removes the payload.
    #[prost(bytes = "bytes", optional, tag = "5")]
    #[serde(default, with = "payload::text")]
    #[schema(value_type = Option<String>)]
    pub payload_text: Option<Bytes>,
    /// A new payload: bytes in base64. `null` removes the payload.
    #[prost(bytes = "bytes", optional, tag = "12")]
    #[serde(default, with = "payload::base64_text")]
    #[schema(value_type = Option<String>, content_encoding = "base64")]
    pub payload_base64: Option<Bytes>,
    /// New headers, whole.
    #[prost(message, optional, tag = "6")]
    pub headers: Option<HeaderList>,
    /// New tags, whole.
    #[prost(message, optional, tag = "7")]
    #[schema(value_type = Option<Vec<String>>, max_items = 16)]
    pub tags: Option<TagList>,
    /// A new destination; `null`: the namespace's.
    #[prost(message, optional, tag = "8")]
    pub destination: Option<Destination>,
    /// A new retry policy; `null`: the namespace's.
    #[prost(message, optional, tag = "9")]
    pub retry: Option<Retry>,
    /// Fields that are reset, which JSON gives as `null`.
    #[prost(enumeration = "TimerField", repeated, tag = "10")]
    #[serde(skip)]
    pub reset: Vec<i32>,
    /// The revision that the timer must have; checked before its state.
    #[prost(uint32, optional, tag = "11")]
    #[schema(minimum = 1, nullable = false)]
    #[serde(default, deserialize_with = "ranged::<1, { u32::MAX as u64 }, _, _>")]
    pub if_revision: Option<u32>,
}

/// Tags that replace all present ones.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TagList {
    /// The tags.
    #[prost(string, repeated, tag = "1")]
    pub tags: Vec<String>,
}

fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads a field that may be left out but must not be `null`.
fn set_only<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let allowed = "left out or a value: a due time cannot be reset";
    let value = Option::<T>::deserialize(deserializer)?;
    value.map(Some).ok_or_else(|| de::Error::invalid_type(de::Unexpected::Unit, &allowed))
}

impl Schedule {
    /// Returns the due time or delay as its caller wrote it, if it is text.
    pub fn when_text(&self) -> Option<&str> {
        when_text(self.due_at.as_ref(), self.delay.as_ref())
    }

    /// Returns the schedule, checked. `make_id` makes the id of a timer whose caller chose none.
    ///
    /// # Errors
    /// When a value is not allowed; the error names the field.
    pub fn check(
        self,
        source: MessageFormat,
        make_id: impl FnOnce() -> TimerId,
    ) -> Result<(Checked, CheckedIfExists), Invalid> {
        let id = match &self.id {
            Some(id) => check_new_id(id)?,
            None => make_id(),
        };
        let when = when(self.due_at.as_ref(), self.delay.as_ref())?
            .ok_or_else(|| Invalid::unseen("due_at", "given, or delay: exactly one of the two"))?;
        let forms = PayloadFields {
            json: self.payload,
            text: self.payload_text,
            base64: self.payload_base64,
        };
        let if_exists = IfExists::known("if_exists", self.if_exists)?;
        let slot_key = self.slot_key.map(SlotKey::new).transpose();
        let spec = TimerSpec {
            payload: forms.check(source)?,
            headers: headers::check(self.headers)?,
            tags: check_tags(self.tags)?,
            slot_key: slot_key.map_err(|invalid| invalid.within("slot_key"))?,
            destination: self.destination.map(|it| it.check("destination")).transpose()?,
            retry: self.retry.map(|it| it.check("retry")).transpose()?,
            expire_after: self.expire_after.map(check_expire_after).transpose()?,
            trace_parent: None,
        };
        let schedule = Checked { id, when, spec };
        Ok((schedule, if_exists.and_then(IfExists::to_core).unwrap_or_default()))
    }
}

impl Reschedule {
    /// Returns the new due time or delay as its caller wrote it, if it is text.
    pub fn when_text(&self) -> Option<&str> {
        when_text(self.due_at.as_ref(), self.delay.as_ref())
    }

    /// Returns the change, checked. Where the path names the timer, `path_id`, the body must not name one.
    ///
    /// # Errors
    /// When a value is not allowed, or nothing would change.
    pub fn check(
        self,
        source: MessageFormat,
        path_id: Option<TimerId>,
    ) -> Result<Operation, Invalid> {
        let (id, whole) = match (path_id, &*self.id) {
            (Some(id), "") => (id, BODY),
            (Some(_), id) => {
                let allowed = "left out: the path names the timer, and an id never changes";
                return Err(Invalid::new("id", id, allowed));
            }
            (None, "") => return Err(Invalid::unseen("id", "given")),
            (None, id) => (TimerId::new(id)?, ""),
        };
        let when = when(self.due_at.as_ref(), self.delay.as_ref())?;
        let forms = PayloadFields {
            json: self.payload,
            text: self.payload_text,
            base64: self.payload_base64,
        };
        let headers = self.headers.map(|list| headers::check(list.headers)).transpose()?;
        let tags = self.tags.map(|list| check_tags(list.tags)).transpose()?;
        let destination = self.destination.map(|it| it.check("destination")).transpose()?;
        let mut patch = Patch {
            when,
            payload: set(forms.check(source)?),
            headers: set(headers),
            tags: set(tags),
            destination: set(destination),
            retry: set(self.retry.map(|retry| retry.check("retry")).transpose()?),
        };
        for (i, number) in self.reset.into_iter().enumerate() {
            let at = format!("reset[{i}]");
            match TimerField::known(&at, number)? {
                None | Some(TimerField::Unspecified) => {
                    return Err(Invalid::unseen(at, "the name of a field"));
                }
                // In JSON one form may be given while another is `null`: the three are one field.
                Some(TimerField::Payload) if source == MessageFormat::Json => {
                    if patch.payload == Change::Keep {
                        patch.payload = Change::Reset;
                    }
                }
                Some(TimerField::Payload) => reset(&mut patch.payload, at, "payload")?,
                Some(TimerField::Headers) => reset(&mut patch.headers, at, "headers")?,
                Some(TimerField::Tags) => reset(&mut patch.tags, at, "tags")?,
                Some(TimerField::Destination) => reset(&mut patch.destination, at, "destination")?,
                Some(TimerField::Retry) => reset(&mut patch.retry, at, "retry")?,
            }
        }
        if patch.is_empty() {
            let allowed = "an object with a field to change: due_at, delay, payload, payload_text, \
                           payload_base64, headers, tags, destination or retry";
            return Err(Invalid::unseen(whole, allowed));
        }
        let (patch, if_revision) = (Box::new(patch), check_revision(self.if_revision)?);
        Ok(Operation::Reschedule { id, patch, if_revision })
    }
}

/// Resets the fields that a JSON body gave as `null`.
impl From<Nulls<Self>> for Reschedule {
    fn from(Nulls { mut value, names }: Nulls<Self>) -> Self {
        let fields = names.iter().filter_map(|name| match &**name {
            "payload_text" | "payload_base64" => Some(TimerField::Payload),
            name => TimerField::parse(name),
        });
        value.reset.extend(fields.map(i32::from));
        value
    }
}

fn when_text<'a>(due_at: Option<&'a Time>, delay: Option<&'a Duration>) -> Option<&'a str> {
    match (due_at, delay) {
        (Some(Time::Text(text)), _) | (_, Some(Duration::Text(text))) => Some(text),
        _ => None,
    }
}

fn set<T>(value: Option<T>) -> Change<T> {
    value.map_or(Change::Keep, Change::Set)
}

fn reset<T: PartialEq>(change: &mut Change<T>, at: String, name: &str) -> Result<(), Invalid> {
    if matches!(change, Change::Set(_)) {
        return Err(Invalid::new(at, name, format!("left out where {name} is given")));
    }
    *change = Change::Reset;
    Ok(())
}

/// Returns the due time or delay, if one is given.
///
/// # Errors
/// When both are given, or the given one is not allowed.
fn when(due_at: Option<&Time>, delay: Option<&Duration>) -> Result<Option<When>, Invalid> {
    match (due_at, delay) {
        (Some(due_at), None) => due_at.check("due_at").map(|at| Some(When::At(at))),
        (None, Some(delay)) => delay.check("delay").map(|delay| Some(When::After(delay))),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(Invalid::unseen("delay", "left out where due_at is given: exactly one of the two"))
        }
    }
}

/// Checks the id of a timer that is made. Timers that were made with other ids can still be read and cancelled.
fn check_new_id(id: &str) -> Result<TimerId, Invalid> {
    if id.trim().len() < id.len() {
        return Err(Invalid::new("id", id, "without white space at its beginning and end"));
    }
    TimerId::new(id)
}

/// Checks the time from the due time to the end of a timer. An attempt begins some milliseconds after the due time, later
/// under load: with less than a second, chance would decide whether it is delivered.
fn check_expire_after(expire_after: Duration) -> Result<Millis, Invalid> {
    let field = "expire_after";
    match expire_after.check(field)? {
        checked if checked < EXPIRE_AFTER_MIN => {
            let allowed = format!(
                "a duration from {EXPIRE_AFTER_MIN} on, since no firing is exact to the millisecond, or left out for a \
                 timer that never expires"
            );
            Err(Invalid::new(field, expire_after, allowed))
        }
        checked => Ok(checked),
    }
}

fn check_tags(tags: Vec<String>) -> Result<Tags, Invalid> {
    Tags::new(tags).map_err(|invalid| invalid.within("tags"))
}
