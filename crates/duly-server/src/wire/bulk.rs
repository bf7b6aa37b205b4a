//! Bulk cancel on the wire: a filter that has to say something, and what a call came to.

use duly_core::{Invalid, NamespaceName, State, Timestamp};
use duly_store::query::{ListRequest, ListState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Integer, Time, TimeOut};

/// Most timers of one call.
pub const CANCELS_MAX: u64 = 10_000;
/// What a selection must be.
const ONE_SELECTION: &str = "given with at least one of tag, id_prefix, due_from, due_to, state; \
                             to cancel every pending timer of the namespace send \"all\": true \
                             instead of a filter";

/// Which pending timers to cancel: exactly one of `filter` and `all`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = BulkCancel)]
pub struct BulkCancelIn {
    /// Those that fit every condition of this.
    pub(super) filter: Option<FilterIn>,
    /// `true`: every pending timer of the namespace.
    pub(super) all: Option<bool>,
    /// Most timers to cancel in this call, 1 to 10000, default 10000.
    pub(super) limit: Option<Integer>,
    /// Where to go on, with the same filter.
    pub(super) cursor: Option<String>,
    /// `true`: count what would be cancelled, and change nothing.
    pub(super) dry_run: Option<bool>,
}

/// Conditions; at least one, and all of them are met.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = CancelFilter)]
pub struct FilterIn {
    /// Has this tag.
    pub(super) tag: Option<String>,
    /// Id begins with this; not empty.
    pub(super) id_prefix: Option<String>,
    /// Due at or after this.
    pub(super) due_from: Option<Time>,
    /// Due before this.
    pub(super) due_to: Option<Time>,
    /// In this state: `scheduled`, `due` or `retrying`.
    pub(super) state: Option<String>,
}

/// A checked call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkCancel {
    /// The timers.
    pub which: ListRequest,
    /// Most of them.
    pub limit: usize,
    /// Where to go on.
    pub cursor: Option<String>,
    /// Whether they are cancelled or only counted.
    pub mode: Mode,
}

/// What a bulk cancel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Cancels.
    Cancel,
    /// Counts what would be cancelled.
    DryRun,
}

impl BulkCancelIn {
    /// Checks every field.
    ///
    /// # Errors
    /// When a value is not allowed, or nothing says which timers are meant.
    pub fn check(self, namespace: NamespaceName) -> Result<BulkCancel, Invalid> {
        let mut which = ListRequest::new(namespace, ListState::Pending);
        match (self.filter, self.all) {
            (Some(filter), None | Some(false)) => {
                filter.narrow(&mut which).map_err(|invalid| invalid.within("filter"))?;
            }
            (None, Some(true)) => {}
            (Some(_), Some(true)) => {
                return Err(Invalid::unseen("all", "left out where a filter is given"));
            }
            (None, None | Some(false)) => return Err(Invalid::unseen("filter", ONE_SELECTION)),
        }
        let limit = match self.limit {
            Some(limit) => limit.within("limit", 1, CANCELS_MAX)?,
            None => CANCELS_MAX,
        };
        Ok(BulkCancel {
            which,
            limit: usize::try_from(limit).expect("ten thousand fits"),
            cursor: self.cursor,
            mode: if self.dry_run == Some(true) { Mode::DryRun } else { Mode::Cancel },
        })
    }
}

impl FilterIn {
    fn narrow(self, which: &mut ListRequest) -> Result<(), Invalid> {
        // An empty text would fit everything, which is never what a typing mistake should do.
        for (field, text) in [("tag", &self.tag), ("id_prefix", &self.id_prefix)] {
            if text.as_deref() == Some("") {
                return Err(Invalid::new(field, "", "left out, or not empty"));
            }
        }
        which.due_from = time("due_from", self.due_from)?;
        which.due_to = time("due_to", self.due_to)?;
        if let (Some(from), Some(to)) = (which.due_from, which.due_to)
            && from >= to
        {
            return Err(Invalid::new(
                "due_to",
                to,
                format!("later than due_from, which is {from}"),
            ));
        }
        if let Some(text) = self.state {
            which.state = state(&text)?;
        }
        which.tag = self.tag;
        which.id_prefix = self.id_prefix;
        let says_something = which.tag.is_some()
            || which.id_prefix.is_some()
            || which.due_from.is_some()
            || which.due_to.is_some()
            || which.state != ListState::Pending;
        if says_something { Ok(()) } else { Err(Invalid::unseen("", ONE_SELECTION)) }
    }
}

fn time(field: &str, time: Option<Time>) -> Result<Option<Timestamp>, Invalid> {
    time.map(|time| time.check(field)).transpose()
}

fn state(text: &str) -> Result<ListState, Invalid> {
    match State::parse(text) {
        Some(state @ (State::Scheduled | State::Due | State::Retrying)) => {
            Ok(ListState::Only(state))
        }
        _ => Err(Invalid::new("state", text, "one of scheduled, due, retrying")),
    }
}

/// What a call cancelled.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = BulkCancelled)]
pub struct BulkCancelledOut {
    /// Timers that were cancelled; in a dry run those that would be.
    pub cancelled: u64,
    /// Of these, such as may have been delivered: the outcome of an attempt is not known.
    pub maybe_delivered: u64,
    /// Timers that fit and were left as they are: an attempt was under way, or they were changed
    /// while the call ran.
    pub skipped: u64,
    /// `true`: nothing was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// With `tag` or `id_prefix`: timers that were looked at in this call, about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub examined: Option<u64>,
    /// With `tag` or `id_prefix`: the due time up to which the pending timers were looked through;
    /// absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub up_to: Option<TimeOut>,
}
