//! Dead letters: the ones to redrive or purge, and overdue timers that become dead letters.

use duly_core::{DeliveryId, Invalid, Millis, TimerId, retry::BACKOFF_MAX, timer::DeadLetterId};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{Duration, Problem, Time, json::BODY};

/// Most dead letters of one call.
pub const DEAD_LETTERS_MAX: usize = 10_000;
/// The allowed selections, for messages.
const ONE_SELECTION: &str = "given with exactly one of ids, delivery_ids, all";

/// Ids or delivery ids, at most 10,000.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeadLetterNames {
    /// The names.
    #[prost(string, repeated, tag = "1")]
    pub names: Vec<String>,
}

/// The dead letters to send again: exactly one of `ids`, `delivery_ids`, `all`.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct RedriveRequest {
    /// The namespace, which HTTP has in the path.
    #[prost(string, tag = "1")]
    #[serde(skip)]
    pub namespace: String,
    /// Timer ids, at most 10000; each names its latest dead letter.
    #[prost(message, optional, tag = "2")]
    #[schema(value_type = Option<Vec<String>>, max_items = 10000)]
    pub ids: Option<DeadLetterNames>,
    /// Delivery ids, at most 10000.
    #[prost(message, optional, tag = "3")]
    #[schema(value_type = Option<Vec<String>>, max_items = 10000)]
    pub delivery_ids: Option<DeadLetterNames>,
    /// `true`: every dead letter of the namespace, at most 10000 a call.
    #[prost(bool, optional, tag = "4")]
    pub all: Option<bool>,
    /// The place to continue from, with `all`.
    #[prost(string, optional, tag = "5")]
    pub cursor: Option<String>,
    /// Time to wait first, at most 30d.
    #[prost(message, optional, tag = "6")]
    pub delay: Option<Duration>,
    /// Spaces the due times: the i-th letter waits i/per_second longer.
    #[prost(double, optional, tag = "7")]
    #[schema(minimum = 0.001, maximum = 1_000_000)]
    pub per_second: Option<f64>,
}

/// The dead letters to remove for good: exactly one of `ids`, `delivery_ids`, `all`.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct PurgeRequest {
    /// The namespace, which HTTP has in the path.
    #[prost(string, tag = "1")]
    #[serde(skip)]
    pub namespace: String,
    /// Timer ids, at most 10000; each names its latest dead letter.
    #[prost(message, optional, tag = "2")]
    #[schema(value_type = Option<Vec<String>>, max_items = 10000)]
    pub ids: Option<DeadLetterNames>,
    /// Delivery ids, at most 10000.
    #[prost(message, optional, tag = "3")]
    #[schema(value_type = Option<Vec<String>>, max_items = 10000)]
    pub delivery_ids: Option<DeadLetterNames>,
    /// `true`: every dead letter of the namespace, at most 10000 a call.
    #[prost(bool, optional, tag = "4")]
    pub all: Option<bool>,
    /// The place to continue from, with `all`.
    #[prost(string, optional, tag = "5")]
    pub cursor: Option<String>,
}

/// Dead letters that are selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeadLetterSelection {
    /// The named dead letters. An invalid name is an error of its item only.
    Named(Vec<Result<DeadLetterId, Invalid>>),
    /// All dead letters of the namespace, after a cursor.
    All(Option<String>),
}

/// The distances between the due times of redriven letters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RedriveSpacing {
    delay: Millis,
    per_second: Option<f64>,
}

impl RedriveSpacing {
    /// Returns the wait of the letter with this number, from 0.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn delay(&self, number: u64) -> Millis {
        let spaced_ms = self.per_second.map_or(0.0, |rate| number as f64 * 1_000.0 / rate);
        Millis::from_ms(self.delay.ms().saturating_add(spaced_ms as u64))
    }
}

impl RedriveRequest {
    /// Returns the call, checked.
    ///
    /// # Errors
    /// When a value is not allowed, or there is not exactly one selection.
    pub fn check(self) -> Result<(DeadLetterSelection, RedriveSpacing), Invalid> {
        let delay = self.delay.map(|it| it.check_within("delay", Millis::ZERO, BACKOFF_MAX));
        let delay = delay.transpose()?.unwrap_or(Millis::ZERO);
        if let Some(rate) = self.per_second
            && !(0.001..=1_000_000.0).contains(&rate)
        {
            let allowed = "a number from 0.001 to 1000000";
            return Err(Invalid::plain("per_second", rate.to_string(), allowed));
        }
        let spacing = RedriveSpacing { delay, per_second: self.per_second };
        Ok((select(self.ids, self.delivery_ids, self.all, self.cursor)?, spacing))
    }
}

impl PurgeRequest {
    /// Returns the call, checked.
    ///
    /// # Errors
    /// When a value is not allowed, or there is not exactly one selection.
    pub fn check(self) -> Result<DeadLetterSelection, Invalid> {
        select(self.ids, self.delivery_ids, self.all, self.cursor)
    }
}

fn select(
    ids: Option<DeadLetterNames>,
    delivery_ids: Option<DeadLetterNames>,
    all: Option<bool>,
    cursor: Option<String>,
) -> Result<DeadLetterSelection, Invalid> {
    if all == Some(false) {
        return Err(Invalid::plain("all", "false", "true or left out"));
    }
    if cursor.is_some() && all.is_none() {
        return Err(Invalid::unseen("cursor", "left out except with all"));
    }
    match (ids, delivery_ids, all) {
        (Some(ids), None, None) => {
            named("ids", &ids.names, |id| TimerId::new(id).map(DeadLetterId::Timer))
        }
        (None, Some(ids), None) => named("delivery_ids", &ids.names, |id| {
            DeliveryId::parse(id).map(DeadLetterId::Delivery)
        }),
        (None, None, Some(_)) => Ok(DeadLetterSelection::All(cursor)),
        _ => Err(Invalid::unseen(BODY, ONE_SELECTION)),
    }
}

fn named(
    field: &str,
    texts: &[String],
    parse: impl Fn(&str) -> Result<DeadLetterId, Invalid>,
) -> Result<DeadLetterSelection, Invalid> {
    if texts.len() > DEAD_LETTERS_MAX {
        let allowed = format!("at most {DEAD_LETTERS_MAX} entries");
        return Err(Invalid::plain(field, format!("{} entries", texts.len()), allowed));
    }
    let letters = texts.iter().enumerate().map(|(i, text)| {
        parse(text).map_err(|mut invalid| {
            invalid.field = format!("{field}[{i}]");
            invalid
        })
    });
    Ok(DeadLetterSelection::Named(letters.collect()))
}

/// Result of a redrive.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = Redriven)]
pub struct RedriveResponse {
    /// Dead letters that were sent again.
    #[prost(uint64, tag = "1")]
    pub redriven: u64,
    /// With `all`: the place to continue from; absent at the end.
    #[prost(string, optional, tag = "2")]
    pub cursor: Option<String>,
    /// Dead letters that were named and not redriven.
    #[prost(message, repeated, tag = "3")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<DeadLetterError>,
}

/// Result of a purge.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = Purged)]
pub struct PurgeResponse {
    /// Dead letters that were removed.
    #[prost(uint64, tag = "1")]
    pub purged: u64,
    /// With `all`: the place to continue from; absent at the end.
    #[prost(string, optional, tag = "2")]
    pub cursor: Option<String>,
    /// Dead letters that were named and not removed.
    #[prost(message, repeated, tag = "3")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<DeadLetterError>,
}

/// Counts of the removed records of an ended timer.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = Forgotten)]
pub struct ForgetResponse {
    /// Tombstones that were removed: 0 or 1.
    #[prost(uint64, tag = "1")]
    pub tombstones: u64,
    /// Dead letters that were removed.
    #[prost(uint64, tag = "2")]
    pub dead_letters: u64,
}

/// A dead letter that was named and is refused.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct DeadLetterError {
    /// Its place in the request, from 0.
    #[prost(uint32, tag = "1")]
    pub index: u32,
    /// The reason.
    #[prost(message, optional, tag = "2")]
    #[schema(required = true, value_type = Problem)]
    pub error: Option<Problem>,
}

/// Timers that become dead letters instead of being delivered late.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct DeadLetterOverdueRequest {
    /// The namespace, which HTTP has in the path.
    #[prost(string, tag = "1")]
    #[serde(skip)]
    pub namespace: String,
    /// Latest due time of the timers; not in the future, default now.
    #[prost(message, optional, tag = "2")]
    pub due_by: Option<Time>,
    /// The place to continue from, with the `due_by` that was returned.
    #[prost(string, optional, tag = "3")]
    pub cursor: Option<String>,
}

/// Result of a call that dead-letters overdue timers.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = DeadLettered)]
pub struct DeadLetterOverdueResponse {
    /// Timers that became dead letters.
    #[prost(uint64, tag = "1")]
    pub dead_lettered: u64,
    /// The time by which they were due.
    #[prost(message, optional, tag = "2")]
    #[schema(required = true, value_type = Time)]
    pub due_by: Option<Time>,
    /// The place to continue from; absent at the end.
    #[prost(string, optional, tag = "3")]
    pub cursor: Option<String>,
}
