//! Dead letters on the wire: which to redrive or purge.

use duly_core::{DeliveryId, Invalid, Millis, TimerId, retry::BACKOFF_MAX};
use duly_store::command::DeadLetterId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Duration, problem::ProblemOut};

/// Most dead letters of one call.
pub const LETTERS_MAX: usize = 10_000;
/// What a selection must be.
const ONE_SELECTION: &str = "given with exactly one of ids, delivery_ids, all";

/// Which dead letters to send again: exactly one of `ids`, `delivery_ids`, `all`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Redrive)]
pub struct RedriveIn {
    /// Timer ids, at most 10000; each names its latest dead letter.
    pub(super) ids: Option<Vec<String>>,
    /// Delivery ids, at most 10000.
    pub(super) delivery_ids: Option<Vec<String>>,
    /// `true`: every dead letter of the namespace, at most 10000 a call.
    pub(super) all: Option<bool>,
    /// Where to go on, with `all`.
    pub(super) cursor: Option<String>,
    /// How long to wait first.
    pub(super) delay: Option<Duration>,
    /// Spaces the due times: the i-th letter waits i/per_second longer.
    #[serde(default, deserialize_with = "super::number::real")]
    pub(super) per_second: Option<f64>,
}

/// Which dead letters to drop for good: exactly one of `ids`, `delivery_ids`, `all`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Purge)]
pub struct PurgeIn {
    /// Timer ids, at most 10000; each names its latest dead letter.
    pub(super) ids: Option<Vec<String>>,
    /// Delivery ids, at most 10000.
    pub(super) delivery_ids: Option<Vec<String>>,
    /// `true`: every dead letter of the namespace, at most 10000 a call.
    pub(super) all: Option<bool>,
    /// Where to go on, with `all`.
    pub(super) cursor: Option<String>,
}

/// Dead letters that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// These. A name that is not one is an error of that item.
    Named(Vec<Result<DeadLetterId, Invalid>>),
    /// Every one of the namespace, from a cursor on.
    All(Option<String>),
}

/// How the due times of redriven letters are spaced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spacing {
    delay: Millis,
    per_second: Option<f64>,
}

impl Spacing {
    /// How long the letter with this number, from 0, waits.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn delay(&self, number: u64) -> Millis {
        let spaced_ms = self.per_second.map_or(0.0, |rate| number as f64 * 1_000.0 / rate);
        Millis::from_ms(self.delay.ms().saturating_add(spaced_ms as u64))
    }
}

impl RedriveIn {
    /// Checks every field.
    ///
    /// # Errors
    /// When a value is not allowed, or there is not exactly one selection.
    pub fn check(self) -> Result<(Selection, Spacing), Invalid> {
        let delay = match &self.delay {
            Some(delay) => delay.check_within("delay", Millis::ZERO, BACKOFF_MAX)?,
            None => Millis::ZERO,
        };
        if let Some(rate) = self.per_second
            && !(0.001..=1_000_000.0).contains(&rate)
        {
            return Err(Invalid {
                field: "per_second".to_owned(),
                seen: Some(rate.to_string()),
                allowed: "a number from 0.001 to 1000000".to_owned(),
            });
        }
        let spacing = Spacing { delay, per_second: self.per_second };
        let selection = select(self.ids, self.delivery_ids, self.all, self.cursor)?;
        Ok((selection, spacing))
    }
}

impl PurgeIn {
    /// Checks every field.
    ///
    /// # Errors
    /// When a value is not allowed, or there is not exactly one selection.
    pub fn check(self) -> Result<Selection, Invalid> {
        select(self.ids, self.delivery_ids, self.all, self.cursor)
    }
}

fn select(
    ids: Option<Vec<String>>,
    delivery_ids: Option<Vec<String>>,
    all: Option<bool>,
    cursor: Option<String>,
) -> Result<Selection, Invalid> {
    if all == Some(false) {
        return Err(Invalid {
            field: "all".to_owned(),
            seen: Some("false".to_owned()),
            allowed: "true or left out".to_owned(),
        });
    }
    if cursor.is_some() && all.is_none() {
        return Err(Invalid::unseen("cursor", "left out except with all"));
    }
    match (ids, delivery_ids, all) {
        (Some(ids), None, None) => {
            named("ids", &ids, |id| TimerId::new(id).map(DeadLetterId::Timer))
        }
        (None, Some(ids), None) => {
            named("delivery_ids", &ids, |id| DeliveryId::parse(id).map(DeadLetterId::Delivery))
        }
        (None, None, Some(_)) => Ok(Selection::All(cursor)),
        _ => Err(Invalid::unseen("body", ONE_SELECTION)),
    }
}

fn named(
    field: &str,
    texts: &[String],
    parse: impl Fn(&str) -> Result<DeadLetterId, Invalid>,
) -> Result<Selection, Invalid> {
    if texts.len() > LETTERS_MAX {
        return Err(Invalid {
            field: field.to_owned(),
            seen: Some(format!("{} entries", texts.len())),
            allowed: format!("at most {LETTERS_MAX} entries"),
        });
    }
    let letters = texts.iter().enumerate().map(|(i, text)| {
        parse(text).map_err(|mut invalid| {
            invalid.field = format!("{field}[{i}]");
            invalid
        })
    });
    Ok(Selection::Named(letters.collect()))
}

/// What a redrive did.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Redriven)]
pub struct RedrivenOut {
    /// Dead letters that were sent again.
    pub redriven: u64,
    /// With `all`: where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Dead letters that were named and not redriven.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<DeadLetterErrorOut>,
}

/// What a purge did.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Purged)]
pub struct PurgedOut {
    /// Dead letters that were dropped.
    pub purged: u64,
    /// With `all`: where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Dead letters that were named and not dropped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<DeadLetterErrorOut>,
}

/// A dead letter that was named and could not be dealt with.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetterError)]
pub struct DeadLetterErrorOut {
    /// Its place in the request, from 0.
    pub index: usize,
    /// Why.
    pub error: ProblemOut,
}
