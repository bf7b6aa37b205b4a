//! When: `--in` or `--at`.

use duly_core::{Millis, Timestamp};
use serde::Serialize;

use super::values;

/// When a timer is due. A command that needs it says so with a group over [`Due::ARGS`].
#[derive(clap::Args)]
#[group(multiple = false)]
pub(crate) struct Due {
    /// Due this long from now: 250ms, 30m, 2h30m, 7d
    #[arg(
        long = "in",
        value_name = "DURATION",
        value_parser = values::duration,
        allow_hyphen_values = true
    )]
    delay: Option<Millis>,
    /// Due at this time: RFC 3339 with any offset, or Unix milliseconds
    #[arg(long, value_name = "TIME", value_parser = values::time, allow_hyphen_values = true)]
    at: Option<Timestamp>,
}

/// The fields of a request that say when.
#[derive(Serialize, Default)]
pub(crate) struct DueFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at: Option<String>,
}

impl Due {
    /// The arguments, for a group.
    pub(crate) const ARGS: [&str; 2] = ["delay", "at"];

    /// Whether a time is given.
    pub(crate) fn is_given(&self) -> bool {
        self.delay.is_some() || self.at.is_some()
    }

    /// As a request says it.
    pub(crate) fn fields(&self) -> DueFields {
        DueFields {
            delay: self.delay.map(|delay| delay.to_string()),
            due_at: self.at.map(|at| at.to_string()),
        }
    }
}
