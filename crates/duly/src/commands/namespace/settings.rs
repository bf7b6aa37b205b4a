//! The settings of a namespace on the command line, and as a request says them.

use std::{fs, io, io::Read as _, path::Path, path::PathBuf};

use duly_core::{Millis, namespace::SigningSecret};
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    args::{place::Place, values},
    failure::Failure,
};

/// Settings; what is left out has its default.
#[derive(clap::Args)]
pub(super) struct Settings {
    /// All settings as a JSON file, `-` for stdin, instead of the options below
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    retry: Retry,
    /// How long a leased firing belongs to its consumer, 1s to 12h
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    lease: Option<Millis>,
    /// How long ended timers can still be looked up
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    retention: Option<Millis>,
    /// Share of the workers when they are scarce, 1 to 1000
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// Sign webhooks with this secret, whsec_…; give two during a rotation
    #[arg(
        long = "signing-secret",
        value_name = "SECRET",
        value_parser = values::signing_secret
    )]
    signing_secrets: Vec<SigningSecret>,
    #[command(flatten)]
    limits: Limits,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Retry policy")]
struct Retry {
    /// Give up after this many attempts
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Wait before the second attempt
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    min_backoff: Option<Millis>,
    /// Longest wait before an attempt
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    max_backoff: Option<Millis>,
    /// How much longer each wait is than the one before
    #[arg(long, value_name = "FACTOR")]
    multiplier: Option<f64>,
    /// How much each wait varies, as a part of it
    #[arg(long, value_name = "PART")]
    jitter: Option<f64>,
    /// The waits themselves, such as 10s,1m,10m; instead of the others
    #[arg(
        long,
        value_name = "DURATIONS",
        value_delimiter = ',',
        value_parser = values::duration,
        conflicts_with_all = ["max_attempts", "min_backoff", "max_backoff", "multiplier", "jitter"]
    )]
    retry_schedule: Vec<Millis>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
struct Limits {
    /// Schedules taken a second
    #[arg(long, value_name = "N")]
    schedule_per_second: Option<u32>,
    /// Attempts begun a second, per webhook lane
    #[arg(long, value_name = "N")]
    deliver_per_second: Option<u32>,
    /// Attempts under way at once, per webhook lane
    #[arg(long, value_name = "N")]
    max_in_flight: Option<u32>,
    /// Pending timers
    #[arg(long, value_name = "N")]
    max_pending: Option<u64>,
    /// Bytes of one payload
    #[arg(long, value_name = "N")]
    max_payload_bytes: Option<u64>,
    /// Longest time from now to due
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    max_delay: Option<Millis>,
    /// Dead letters; at the limit the lanes stop
    #[arg(long, value_name = "N")]
    max_dead: Option<u64>,
    /// Ended timers that can still be looked up
    #[arg(long, value_name = "N")]
    max_retained: Option<u64>,
}

/// The fields that are set, in one object.
struct Object(Map<String, Value>);

impl Object {
    fn new() -> Self {
        Self(Map::new())
    }

    fn put(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
    }

    fn into_option(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Object(self.0))
    }
}

fn shown(duration: Option<Millis>) -> Option<String> {
    duration.map(|duration| duration.to_string())
}

impl Settings {
    /// The request's body.
    pub(super) fn body(self) -> Result<Box<RawValue>, Failure> {
        let mut body = Object::new();
        let destination = self.place.field().map(|place| json!(place));
        body.put("destination", destination);
        body.put("retry", self.retry.body());
        body.put("lease", shown(self.lease));
        body.put("retention", shown(self.retention));
        body.put("weight", self.weight);
        let secrets: Vec<_> = self.signing_secrets.iter().map(SigningSecret::reveal).collect();
        body.put("signing_secrets", (!secrets.is_empty()).then(|| json!(secrets)));
        body.put("limits", self.limits.body());
        match self.file {
            Some(path) if body.0.is_empty() => read(&path),
            Some(_) => Err(Failure::usage(
                "--file holds all settings: it cannot be combined with another one",
            )),
            None => RawValue::from_string(Value::Object(body.0).to_string())
                .map_err(|error| Failure::new(format_args!("cannot write the request: {error}"))),
        }
    }
}

impl Retry {
    fn body(self) -> Option<Value> {
        let mut retry = Object::new();
        retry.put("max_attempts", self.max_attempts);
        retry.put("min_backoff", shown(self.min_backoff));
        retry.put("max_backoff", shown(self.max_backoff));
        retry.put("multiplier", self.multiplier);
        retry.put("jitter", self.jitter);
        let waits: Vec<_> = self.retry_schedule.iter().map(Millis::to_string).collect();
        retry.put("schedule", (!waits.is_empty()).then(|| json!(waits)));
        retry.into_option()
    }
}

impl Limits {
    fn body(self) -> Option<Value> {
        let mut limits = Object::new();
        limits.put("schedule_per_second", self.schedule_per_second);
        limits.put("deliver_per_second", self.deliver_per_second);
        limits.put("max_in_flight", self.max_in_flight);
        limits.put("max_pending", self.max_pending);
        limits.put("max_payload_bytes", self.max_payload_bytes);
        limits.put("max_delay", shown(self.max_delay));
        limits.put("max_dead", self.max_dead);
        limits.put("max_retained", self.max_retained);
        limits.into_option()
    }
}

/// A JSON file, or stdin.
fn read(path: &Path) -> Result<Box<RawValue>, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        fs::read_to_string(path).map(|read| text = read)
    };
    let name = path.display();
    read.map_err(|error| {
        Failure::new(format_args!(
            "cannot read the settings from {name}: {error}; name a file, or `-` for stdin"
        ))
    })?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::new(format_args!("the settings in {name} are not JSON: {error}")))
}
