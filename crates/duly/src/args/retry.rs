//! The retry policy of failed firings, as an argument of timers and namespaces.

use duly_api::{self as api, Duration};
use duly_core::Millis;

use super::values;

/// A retry policy; an absent option has its default.
#[derive(clap::Args)]
#[command(next_help_heading = "Retry policy")]
pub(crate) struct Retry {
    /// Dead-letter the firing after this many attempts
    #[arg(long, value_name = "N", value_parser = values::whole::<u32>)]
    max_attempts: Option<u32>,
    /// Wait before the second attempt
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    min_backoff: Option<Millis>,
    /// Longest wait before an attempt
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    max_backoff: Option<Millis>,
    /// Factor by which each wait is longer than the one before
    #[arg(long, value_name = "FACTOR", value_parser = values::decimal)]
    multiplier: Option<f64>,
    /// Random part of each wait, as a fraction of it, 0 to 1
    #[arg(long, value_name = "FRACTION", value_parser = values::decimal)]
    jitter: Option<f64>,
    /// The waits themselves, such as 10s,1m,10m, instead of the options above
    #[arg(
        long,
        value_name = "DURATIONS",
        value_delimiter = ',',
        value_parser = values::duration,
        conflicts_with_all = ["max_attempts", "min_backoff", "max_backoff", "multiplier", "jitter"]
    )]
    retry_delays: Vec<Millis>,
}

impl Retry {
    /// Returns the policy, if any option of it is given.
    pub(crate) fn policy(self) -> Option<api::Retry> {
        let policy = api::Retry {
            max_attempts: self.max_attempts,
            min_backoff: self.min_backoff.map(Duration::from),
            max_backoff: self.max_backoff.map(Duration::from),
            multiplier: self.multiplier,
            jitter: self.jitter,
            delays: self.retry_delays.into_iter().map(Duration::from).collect(),
        };
        (policy != api::Retry::default()).then_some(policy)
    }
}
