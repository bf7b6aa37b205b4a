//! Batches of operations. Over HTTP the operations are parsed one by one, so that an invalid one refuses
//! only itself.

use duly_core::{Invalid, TimerId, operate::Operation as Checked};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{
    MessageFormat, Problem, Reschedule, Schedule, Timer,
    json::Nulls,
    number::{check_revision, ranged},
};

/// Most operations of one batch.
pub const OPERATIONS_MAX: usize = 10_000;
/// The allowed operations, for messages.
const ONE_OPERATION: &str = "one with exactly one of schedule, cancel, reschedule, fire";

/// Operations on timers of one namespace. One id's operations run in order; items are independent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = BatchRequest)]
pub struct Batch<'a> {
    /// The operations, at most 10000.
    #[serde(borrow)]
    #[schema(value_type = Vec<Operation>, max_items = 10000)]
    pub operations: Vec<&'a RawValue>,
}

/// Exactly one operation.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct Operation {
    /// Schedule a timer.
    #[prost(message, optional, boxed, tag = "1")]
    pub schedule: Option<Box<Schedule>>,
    /// Cancel a timer.
    #[prost(message, optional, tag = "2")]
    pub cancel: Option<Cancel>,
    /// Change a pending timer; `id` is required.
    #[prost(message, optional, boxed, tag = "3")]
    #[serde(default, deserialize_with = "with_nulls")]
    pub reschedule: Option<Box<Reschedule>>,
    /// Make a timer or its next attempt due now.
    #[prost(message, optional, tag = "4")]
    pub fire: Option<Fire>,
}

fn with_nulls<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<Reschedule>>, D::Error> {
    let change = Option::<Nulls<Reschedule>>::deserialize(deserializer)?;
    Ok(change.map(|change| Box::new(change.into())))
}

/// A timer to cancel.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, Hash, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = CancelOperation)]
pub struct Cancel {
    /// Its id.
    #[prost(string, tag = "1")]
    #[schema(min_length = 1, max_length = 256)]
    pub id: String,
    /// The revision that the timer must have; checked before its state.
    #[prost(uint32, optional, tag = "2")]
    #[schema(minimum = 1)]
    #[serde(default, deserialize_with = "ranged::<1, { u32::MAX as u64 }, _, _>")]
    pub if_revision: Option<u32>,
    /// `true`: if an attempt is under way, no further attempt follows. Absent: a timer in flight is refused.
    #[prost(bool, optional, tag = "3")]
    pub no_further_attempt: Option<bool>,
}

/// A timer to fire.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = FireOperation)]
pub struct Fire {
    /// Its id.
    #[prost(string, tag = "1")]
    #[schema(min_length = 1, max_length = 256)]
    pub id: String,
}

impl Operation {
    /// Returns the due time or delay as its caller wrote it, if it is text.
    pub fn when_text(&self) -> Option<&str> {
        let schedule = self.schedule.as_deref().and_then(Schedule::when_text);
        schedule.or_else(|| self.reschedule.as_deref().and_then(Reschedule::when_text))
    }

    /// Returns the operation, checked; an error names the field below the operation's name.
    ///
    /// # Errors
    /// When a value is not allowed, or there is not exactly one operation.
    pub fn check(
        self,
        source: MessageFormat,
        make_id: impl FnOnce() -> TimerId,
    ) -> Result<Checked, Invalid> {
        match (self.schedule, self.cancel, self.reschedule, self.fire) {
            (Some(schedule), None, None, None) => {
                let checked = schedule.check(source, make_id);
                let (schedule, if_exists) = checked.map_err(|it| it.within("schedule"))?;
                Ok(Checked::Schedule { schedule: Box::new(schedule), if_exists })
            }
            (None, Some(cancel), None, None) => cancel.check().map_err(|it| it.within("cancel")),
            (None, None, Some(change), None) => {
                change.check(source, None).map_err(|it| it.within("reschedule"))
            }
            (None, None, None, Some(fire)) => {
                let id = TimerId::new(&fire.id).map_err(|it| it.within("fire"))?;
                Ok(Checked::Fire { id })
            }
            _ => Err(Invalid::unseen("", ONE_OPERATION)),
        }
    }
}

impl Cancel {
    fn check(self) -> Result<Checked, Invalid> {
        let if_revision = check_revision(self.if_revision)?;
        let id = TimerId::new(&self.id)?;
        Ok(match self.no_further_attempt {
            Some(true) => Checked::CancelOrStop { id, if_revision, seen: None },
            Some(false) | None => Checked::Cancel { id, if_revision },
        })
    }
}

/// Result of one operation: exactly one of `timer`, `outcome`, `error`. `attempts`, `maybe_delivered`
/// and `already` come with `outcome`.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct OperationResult {
    /// The timer, for schedule, reschedule and fire.
    #[prost(message, optional, boxed, tag = "2")]
    pub timer: Option<Box<Timer>>,
    /// The outcome, for cancel.
    #[prost(message, optional, tag = "3")]
    #[serde(flatten)]
    pub cancelled: Option<CancelResponse>,
    /// The reason for which it was refused.
    #[prost(message, optional, boxed, tag = "4")]
    pub error: Option<Box<Problem>>,
}

/// Result of each operation, in order.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = BatchResults)]
pub struct BatchResponse {
    /// One result for each operation.
    #[prost(message, repeated, tag = "1")]
    pub results: Vec<OperationResult>,
}

/// A cancelled timer, or one in flight whose attempt under way is the last.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = Cancelled)]
pub struct CancelResponse {
    /// `cancelled`; or `in_flight`, with `no_further_attempt`.
    #[prost(string, tag = "4")]
    #[schema(pattern = "^(cancelled|in_flight)$")]
    pub outcome: String,
    /// Attempts that were begun.
    #[prost(uint32, tag = "1")]
    pub attempts: u32,
    /// `true`: one of them may have arrived.
    #[prost(bool, tag = "2")]
    pub maybe_delivered: bool,
    /// `true`: the same cancel had been accepted before.
    #[prost(bool, tag = "3")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already: bool,
    /// `true`: no attempt follows the one under way. If that attempt succeeds, the timer is `finished`; otherwise
    /// the timer is `cancelled` when the attempt ends.
    #[prost(bool, tag = "5")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_further_attempt: bool,
}

impl CancelResponse {
    /// Returns the response to a cancel of a timer that was not in flight.
    pub fn cancelled(attempts: u32, maybe_delivered: bool, already: bool) -> Self {
        let (outcome, no_further_attempt) = ("cancelled".to_owned(), false);
        Self { outcome, attempts, maybe_delivered, already, no_further_attempt }
    }

    /// Returns the response to a cancel of a timer in flight: no further attempt follows.
    pub fn stopped(attempts: u32, maybe_delivered: bool, already: bool) -> Self {
        let (outcome, no_further_attempt) = ("in_flight".to_owned(), true);
        Self { outcome, attempts, maybe_delivered, already, no_further_attempt }
    }
}

/// The results of a stream that are returned. The default is `all`.
///
/// - `all`: One result for each line.
/// - `errors`: The results of refused lines, and a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum Results {
    /// One for each line.
    All,
    /// The results of refused lines, and a summary.
    Errors,
}

impl Results {
    /// Reads the query parameter.
    ///
    /// # Errors
    /// When the text is another word.
    pub fn parse(text: Option<&str>) -> Result<Option<Self>, Invalid> {
        match text {
            None => Ok(None),
            Some("all") => Ok(Some(Self::All)),
            Some("errors") => Ok(Some(Self::Errors)),
            Some(other) => Err(Invalid::new("results", other, "all or errors")),
        }
    }
}

/// A line of the response to a stream.
#[derive(Debug, Serialize)]
pub struct ResultLine<T> {
    /// The line of the request, from 1.
    pub line: u64,
    /// Its result.
    #[serde(flatten)]
    pub result: T,
}

/// The last line of a response.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastLine {
    /// Every line was read.
    Summary {
        /// Lines that held an operation.
        lines: u64,
        /// Lines that were carried out.
        accepted: u64,
        /// Lines that were refused.
        refused: u64,
    },
    /// The lines after `after_line` were not read.
    Stopped {
        /// The last line that was read.
        after_line: u64,
        /// The reason.
        error: Box<Problem>,
    },
}
