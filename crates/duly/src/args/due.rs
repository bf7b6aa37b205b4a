//! When: `--in` or `--at`.

use duly_core::{Millis, Timestamp};

use super::{fields::RequestFields, values};

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

impl Due {
    /// The arguments, for a group.
    pub(crate) const ARGS: [&str; 2] = ["delay", "at"];

    /// Sets the time, if one is given.
    pub(crate) fn set(&self, fields: &mut RequestFields) {
        fields.set_some("delay", self.delay.map(|delay| delay.to_string()));
        fields.set_some("due_at", self.at.map(|at| at.to_string()));
    }
}
