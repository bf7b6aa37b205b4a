//! Cancelling by filter: a filter that names at least one condition.

use duly_core::{Invalid, State as CoreState, Timestamp as Checked};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{
    State, Time,
    number::{ranged, within},
    words::{Word, Words, is_unspecified},
};

/// Most timers of one call.
pub const CANCELS_MAX: u32 = 10_000;
/// The allowed selections, for messages.
const ONE_SELECTION: &str = "given with at least one of tag, id_prefix, due_from, due_to, state; \
                             to cancel every pending timer of the namespace send \"all\": true \
                             instead of a filter";

/// The pending timers to cancel: exactly one of `filter` and `all`.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct CancelManyRequest {
    /// The namespace, which HTTP has in the path.
    #[prost(string, tag = "1")]
    #[serde(skip)]
    pub namespace: String,
    /// The conditions of the timers.
    #[prost(message, optional, tag = "2")]
    pub filter: Option<CancelFilter>,
    /// `true`: every pending timer of the namespace.
    #[prost(bool, optional, tag = "3")]
    pub all: Option<bool>,
    /// Most timers to cancel in this call, 1 to 10000, default 10000.
    #[prost(uint32, optional, tag = "4")]
    #[schema(minimum = 1, maximum = 10000)]
    #[serde(default, deserialize_with = "ranged::<1, { CANCELS_MAX as u64 }, _, _>")]
    pub limit: Option<u32>,
    /// The place to continue from, with the same filter.
    #[prost(string, optional, tag = "5")]
    pub cursor: Option<String>,
    /// `true`: count the timers that would be cancelled, and change nothing.
    #[prost(bool, optional, tag = "6")]
    pub dry_run: Option<bool>,
    /// `true`: no further attempt of the timers with an attempt under way follows. Absent: they are skipped.
    #[prost(bool, optional, tag = "7")]
    pub no_further_attempt: Option<bool>,
}

/// Conditions; at least one, and all of them are met.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(min_properties = 1)]
pub struct CancelFilter {
    /// Has this tag.
    #[prost(string, optional, tag = "1")]
    #[schema(min_length = 1)]
    pub tag: Option<String>,
    /// Id begins with this.
    #[prost(string, optional, tag = "2")]
    #[schema(min_length = 1)]
    pub id_prefix: Option<String>,
    /// Due at or after this.
    #[prost(message, optional, tag = "3")]
    pub due_from: Option<Time>,
    /// Due before this.
    #[prost(message, optional, tag = "4")]
    pub due_to: Option<Time>,
    /// In this state: `scheduled`, `due` or `retrying`.
    #[prost(enumeration = "State", tag = "5")]
    #[serde(default, with = "Word::<State>", skip_serializing_if = "is_unspecified")]
    #[schema(value_type = Option<String>, pattern = "^(scheduled|due|retrying)$")]
    pub state: i32,
}

/// A checked call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkCancel {
    /// The conditions; without any, every pending timer.
    pub filter: CheckedFilter,
    /// Most timers.
    pub limit: usize,
    /// The place to continue from.
    pub cursor: Option<String>,
    /// The effect: cancels the timers, or only counts them.
    pub mode: BulkCancelMode,
    /// The effect on timers in flight.
    pub in_flight: InFlight,
}

/// The effect of a cancel on a timer in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFlight {
    /// The timer stays as it is.
    Skip,
    /// No attempt follows the one under way.
    Stop,
}

/// Checked conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedFilter {
    /// Has this tag.
    pub tag: Option<String>,
    /// Id begins with this.
    pub id_prefix: Option<String>,
    /// Due at or after this.
    pub due_from: Option<Checked>,
    /// Due before this.
    pub due_to: Option<Checked>,
    /// In this state.
    pub state: Option<CoreState>,
}

/// The effect of a bulk cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkCancelMode {
    /// Cancels.
    Cancel,
    /// Counts the timers that would be cancelled.
    DryRun,
}

impl CancelManyRequest {
    /// Returns the call, checked.
    ///
    /// # Errors
    /// When a value is not allowed, or no timers are selected.
    pub fn check(self) -> Result<BulkCancel, Invalid> {
        let filter = match (self.filter, self.all) {
            (Some(filter), None | Some(false)) => {
                filter.check().map_err(|invalid| invalid.within("filter"))?
            }
            (None, Some(true)) => CheckedFilter::default(),
            (Some(_), Some(true)) => {
                return Err(Invalid::unseen("all", "left out where a filter is given"));
            }
            (None, None | Some(false)) => return Err(Invalid::unseen("filter", ONE_SELECTION)),
        };
        let limit = within("limit", self.limit.unwrap_or(CANCELS_MAX), 1, CANCELS_MAX)?;
        Ok(BulkCancel {
            filter,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            cursor: self.cursor,
            mode: if self.dry_run == Some(true) {
                BulkCancelMode::DryRun
            } else {
                BulkCancelMode::Cancel
            },
            in_flight: match self.no_further_attempt {
                Some(true) => InFlight::Stop,
                Some(false) | None => InFlight::Skip,
            },
        })
    }
}

impl CancelFilter {
    fn check(self) -> Result<CheckedFilter, Invalid> {
        // An empty text would match everything, which is never what a typing mistake should do.
        for (field, text) in [("tag", &self.tag), ("id_prefix", &self.id_prefix)] {
            if text.as_deref() == Some("") {
                return Err(Invalid::new(field, "", "left out, or not empty"));
            }
        }
        let due_from = self.due_from.map(|time| time.check("due_from")).transpose()?;
        let due_to = self.due_to.map(|time| time.check("due_to")).transpose()?;
        if let (Some(from), Some(to)) = (due_from, due_to)
            && from >= to
        {
            let allowed = format!("later than due_from, which is {from}");
            return Err(Invalid::new("due_to", to, allowed));
        }
        let state = match State::known("state", self.state)? {
            None => None,
            Some(state @ (State::Scheduled | State::Due | State::Retrying)) => state.to_core(),
            Some(state) => {
                return Err(Invalid::new("state", state, "one of scheduled, due, retrying"));
            }
        };
        let filter =
            CheckedFilter { tag: self.tag, id_prefix: self.id_prefix, due_from, due_to, state };
        if filter == CheckedFilter::default() {
            return Err(Invalid::unseen("", ONE_SELECTION));
        }
        Ok(filter)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Result of a bulk cancel.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = BulkCancelled)]
pub struct CancelManyResponse {
    /// Timers that were cancelled; in a dry run those that would be.
    #[prost(uint64, tag = "1")]
    pub cancelled: u64,
    /// Those of them that may have been delivered: the outcome of an attempt is not known.
    #[prost(uint64, tag = "2")]
    pub maybe_delivered: u64,
    /// Timers that matched and were left as they are: an attempt was under way, or they were changed
    /// while the call ran.
    #[prost(uint64, tag = "3")]
    pub skipped: u64,
    /// Timers with an attempt under way that no further one follows; in a dry run those that would be. They count
    /// for `limit`, too.
    #[prost(uint64, tag = "8")]
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stopped: u64,
    /// `true`: nothing was changed.
    #[prost(bool, tag = "7")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The place to continue from; absent at the end.
    #[prost(string, optional, tag = "4")]
    pub cursor: Option<String>,
    /// With `tag` or `id_prefix`: approximate number of timers that this call has read.
    #[prost(uint64, optional, tag = "5")]
    pub examined: Option<u64>,
    /// With `tag` or `id_prefix`: the due time up to which the call has read the pending timers; absent
    /// at the end.
    #[prost(message, optional, tag = "6")]
    pub up_to: Option<Time>,
}
