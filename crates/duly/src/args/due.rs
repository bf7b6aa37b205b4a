//! When: `--in` or `--at`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duly_client::{Change, Schedule};
use duly_core::{Millis, Timestamp};

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

impl Due {
    /// The arguments, for a group.
    pub(crate) const ARGS: [&str; 2] = ["delay", "at"];

    /// Whether a time is given.
    pub(crate) fn is_given(&self) -> bool {
        self.delay.is_some() || self.at.is_some()
    }

    /// A timer that is due then, of a command that needs a time.
    pub(crate) fn schedule(&self) -> Schedule {
        match (self.delay, self.at) {
            (Some(delay), _) => Schedule::after(delay.to_std()),
            (None, Some(at)) => Schedule::at(time(at)),
            (None, None) => unreachable!("clap asks for one of them"),
        }
    }

    /// A change of a timer to then, or of other things alone.
    pub(crate) fn change(&self) -> Change {
        match (self.delay, self.at) {
            (Some(delay), _) => Change::after(delay.to_std()),
            (None, Some(at)) => Change::at(time(at)),
            (None, None) => Change::new(),
        }
    }
}

/// A time for `duly-client`.
pub(crate) fn time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.unix_ms())
}
