//! The body of a change: absent keeps, `null` resets, a value replaces whole.

use duly_core::{Invalid, Payload, TimerId, schedule::Patch};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    DestinationIn, Duration, Field, Headers, Integer, RetryIn, Time, payload,
    schedule::{check_tags, when},
};

/// A change of a pending timer. At least one field; `if_revision` alone changes nothing and is
/// refused.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Patch)]
pub struct PatchIn<'a> {
    /// Which timer; in a batch only.
    pub(super) id: Option<String>,
    /// A new due time. At most one of `due_at` and `delay`; neither can be reset.
    #[schema(value_type = Option<Time>)]
    #[serde(default)]
    pub(super) due_at: Field<Time>,
    /// A new due time, from now.
    #[schema(value_type = Option<Duration>)]
    #[serde(default)]
    pub(super) delay: Field<Duration>,
    /// A new payload: any JSON value nested at most 64 levels deep. `null` takes the payload away.
    #[serde(borrow, default)]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(super) payload: Field<&'a RawValue>,
    /// A new payload: text. `null` takes the payload away.
    #[schema(value_type = Option<String>)]
    #[serde(borrow, default)]
    pub(super) payload_text: Field<payload::TextIn<'a>>,
    /// A new payload: bytes in base64. `null` takes the payload away.
    #[schema(value_type = Option<String>)]
    #[serde(borrow, default)]
    pub(super) payload_base64: Field<payload::TextIn<'a>>,
    /// A new payload: as it is, where the caller has no need to write it as text.
    #[serde(skip)]
    #[schema(ignore)]
    pub(super) payload_given: Option<Payload>,
    /// New headers, whole.
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    #[serde(default)]
    pub(super) headers: Field<Headers>,
    /// New tags, whole.
    #[schema(value_type = Option<Vec<String>>)]
    #[serde(default)]
    pub(super) tags: Field<Vec<String>>,
    /// A new destination; `null`: the namespace's.
    #[schema(value_type = Option<DestinationIn>)]
    #[serde(default)]
    pub(super) destination: Field<DestinationIn>,
    /// A new retry policy; `null`: the namespace's.
    #[schema(value_type = Option<RetryIn>)]
    #[serde(default)]
    pub(super) retry: Field<RetryIn>,
    /// Only if the timer has this revision; checked before its state.
    pub(super) if_revision: Option<Integer>,
}

/// Where the id of the timer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdIn {
    /// In the path; the body must not have one.
    Path,
    /// In the body.
    Body,
}

/// A checked change.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Which timer, where the body says so.
    pub id: Option<TimerId>,
    /// How.
    pub patch: Patch,
    /// Only at this revision.
    pub if_revision: Option<u32>,
}

impl PatchIn<'_> {
    /// Checks every field.
    ///
    /// # Errors
    /// When a value is not allowed, or nothing would change.
    pub fn check(self, id_in: IdIn) -> Result<Change, Invalid> {
        let id = match (id_in, &self.id) {
            (IdIn::Path, None) => None,
            (IdIn::Path, Some(id)) => {
                return Err(Invalid::new(
                    "id",
                    id,
                    "left out: the path names the timer, and an id never changes",
                ));
            }
            (IdIn::Body, Some(id)) => Some(TimerId::new(id)?),
            (IdIn::Body, None) => return Err(Invalid::unseen("id", "given")),
        };
        let patch = Patch {
            when: when(
                settable(self.due_at, "due_at")?.as_ref(),
                settable(self.delay, "delay")?.as_ref(),
            )?,
            payload: match self.payload_given {
                Some(payload) => duly_core::schedule::Change::Set(payload),
                None => payload_change(self.payload, self.payload_text, self.payload_base64)?,
            },
            headers: self.headers.into_change(|h| h.check("headers"))?,
            tags: self.tags.into_change(check_tags)?,
            destination: self.destination.into_change(|d| d.check("destination"))?,
            retry: self.retry.into_change(|r| r.check("retry"))?,
        };
        if patch.is_empty() {
            return Err(Invalid::unseen(
                "body",
                "an object with a field to change: due_at, delay, payload, payload_text, \
                 payload_base64, headers, tags, destination or retry",
            ));
        }
        Ok(Change { id, patch, if_revision: check_revision(self.if_revision)? })
    }
}

/// Checks a revision that a caller expects.
///
/// # Errors
/// When no timer can have it.
pub(crate) fn check_revision(revision: Option<Integer>) -> Result<Option<u32>, Invalid> {
    revision.map(|revision| revision.within_u32("if_revision", 1, u32::MAX)).transpose()
}

fn settable<T>(field: Field<T>, name: &str) -> Result<Option<T>, Invalid> {
    match field {
        Field::Absent => Ok(None),
        Field::Value(value) => Ok(Some(value)),
        Field::Null => {
            Err(Invalid::new(name, "null", "left out or a value: a due time cannot be reset"))
        }
    }
}

/// The three forms are one field: a value in one sets it, `null` in any resets it.
fn payload_change(
    json: Field<&RawValue>,
    text: Field<payload::TextIn<'_>>,
    base64: Field<payload::TextIn<'_>>,
) -> Result<duly_core::schedule::Change<duly_core::Payload>, Invalid> {
    use duly_core::schedule::Change;
    let null =
        [matches!(json, Field::Null), matches!(text, Field::Null), matches!(base64, Field::Null)];
    let forms =
        payload::Forms { json: value(json), text: value(text), base64: value(base64), given: None };
    Ok(match forms.check()? {
        Some(payload) => Change::Set(payload),
        None if null.contains(&true) => Change::Reset,
        None => Change::Keep,
    })
}

fn value<T>(field: Field<T>) -> Option<T> {
    match field {
        Field::Value(value) => Some(value),
        Field::Absent | Field::Null => None,
    }
}
