//! How often and when a failed firing is tried again, as timers and namespaces take it.

use duly_core::Millis;
use serde_json::{Map, Value, json};

use super::values;

/// A retry policy; what is left out has its default.
#[derive(clap::Args)]
#[command(next_help_heading = "Retry policy")]
pub(crate) struct Retry {
    /// Give up after this many attempts
    #[arg(long, value_name = "N", value_parser = values::whole::<u32>)]
    max_attempts: Option<u32>,
    /// Wait before the second attempt
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    min_backoff: Option<Millis>,
    /// Longest wait before an attempt
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    max_backoff: Option<Millis>,
    /// How much longer each wait is than the one before
    #[arg(long, value_name = "FACTOR", value_parser = values::decimal)]
    multiplier: Option<f64>,
    /// How much each wait varies, as a part of it, 0 to 1
    #[arg(long, value_name = "PART", value_parser = values::decimal)]
    jitter: Option<f64>,
    /// The waits themselves, such as 10s,1m,10m; instead of the others
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
    /// The policy as a request says it, where any of it is given.
    pub(crate) fn field(&self) -> Option<Map<String, Value>> {
        let text = |duration: Option<Millis>| duration.map(|duration| json!(duration.to_string()));
        let waits: Vec<_> = self.retry_delays.iter().map(Millis::to_string).collect();
        let fields = [
            ("max_attempts", self.max_attempts.map(|n| json!(n))),
            ("min_backoff", text(self.min_backoff)),
            ("max_backoff", text(self.max_backoff)),
            ("multiplier", self.multiplier.map(|factor| json!(factor))),
            ("jitter", self.jitter.map(|part| json!(part))),
            ("delays", (!waits.is_empty()).then(|| json!(waits))),
        ];
        let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let given: Map<_, _> = given.collect();
        (!given.is_empty()).then_some(given)
    }
}
