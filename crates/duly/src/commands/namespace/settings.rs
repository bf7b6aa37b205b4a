//! The settings of a namespace, on the command line and in a request.

use std::path::PathBuf;

use duly_api::{
    self as api, Duration, LaneLimits, NamespaceLimits, NamespaceSettings, namespace::IN_FLIGHT_MAX,
};
use duly_core::{Millis, namespace::WEIGHT_MAX, payload::PAYLOAD_BYTES_HARD};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    args::{
        delivery::{DestinationArgs, FallbackArgs, Retry},
        input, secret, values,
    },
    failure::Failure,
};

/// Settings.
#[derive(clap::Args)]
pub(super) struct Settings {
    /// The settings as a JSON file, `-` for stdin, instead of the options below
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    destination: DestinationArgs,
    /// Length of a consumer's lease, 1s to 12h
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    lease: Option<Millis>,
    /// Time for which tombstones of ended timers are kept
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    retention: Option<Millis>,
    /// Weight of the namespace when delivery workers are scarce, 1 to 1000
    #[arg(long, value_name = "N", value_parser = values::whole::<u32, 1, { WEIGHT_MAX as u64 }>)]
    weight: Option<u32>,
    /// Sign webhooks with the secrets of this file, whsec_…, one per line: two during a rotation; `-`
    /// for stdin
    #[arg(long, value_name = "FILE")]
    signing_secret_file: Option<PathBuf>,
    #[command(flatten)]
    retry: Retry,
    #[command(flatten)]
    fallback: FallbackArgs,
    #[command(flatten)]
    limits: Limits,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
struct Limits {
    /// Most schedules per second
    #[arg(long, value_name = "N", value_parser = values::per_second)]
    schedule_per_second: Option<u32>,
    /// Most attempts started per second, per webhook lane
    #[arg(long, value_name = "N", value_parser = values::per_second)]
    deliver_per_second: Option<u32>,
    /// Most attempts under way at once, per webhook lane
    #[arg(long, value_name = "N", value_parser = values::whole::<u32, 1, { IN_FLIGHT_MAX as u64 }>)]
    max_in_flight: Option<u32>,
    /// Most pending timers
    #[arg(long, value_name = "N", value_parser = values::any_whole)]
    max_pending: Option<u64>,
    /// Most bytes of one payload
    #[arg(long, value_name = "N", value_parser = values::whole::<u64, 0, PAYLOAD_BYTES_HARD>)]
    max_payload_bytes: Option<u64>,
    /// Longest time from now to the due time
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    max_delay: Option<Millis>,
    /// Most dead letters; at this limit the lanes stop
    #[arg(long, value_name = "N", value_parser = values::whole::<u64, 1, { u64::MAX }>)]
    max_dead: Option<u64>,
    /// Most tombstones of ended timers
    #[arg(long, value_name = "N", value_parser = values::any_whole)]
    max_retained: Option<u64>,
}

/// The settings of a request.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Given {
    /// A document, sent unchanged.
    File(Box<RawValue>),
    /// The typed options.
    Options(Box<NamespaceSettings>),
}

impl Settings {
    /// Returns the given settings.
    pub(super) fn read(self) -> Result<Given, Failure> {
        let secrets = self.signing_secret_file.as_deref().map(secret::from_file).transpose()?;
        let settings = NamespaceSettings {
            destination: self.destination.destination()?,
            fallback: self.fallback.fallback()?,
            retry: self.retry.policy(),
            lease: self.lease.map(Duration::from),
            retention: self.retention.map(Duration::from),
            weight: self.weight,
            signing_secrets: secrets.as_deref().map(secret::revealed),
            limits: self.limits.limits(),
        };
        match self.file {
            Some(path) if settings == NamespaceSettings::default() => {
                let text = input::text(&path, "settings")?;
                let document = serde_json::from_str(&text).map_err(|error| {
                    let name = input::name(&path);
                    Failure::new(format_args!("the settings in {name} are not JSON: {error}"))
                })?;
                Ok(Given::File(document))
            }
            Some(_) => Err(Failure::usage(
                "--file contains the settings: it cannot be combined with another one",
            )),
            None => Ok(Given::Options(Box::new(settings))),
        }
    }
}

impl Limits {
    fn limits(self) -> Option<api::Limits> {
        let lane = LaneLimits {
            deliver_per_second: self.deliver_per_second,
            max_in_flight: self.max_in_flight,
        };
        let namespace = NamespaceLimits {
            schedule_per_second: self.schedule_per_second,
            max_pending: self.max_pending,
            max_payload_bytes: self.max_payload_bytes,
            max_delay: self.max_delay.map(Duration::from),
            max_dead: self.max_dead,
            max_retained: self.max_retained,
        };
        let limits = api::Limits {
            lane: (lane != LaneLimits::default()).then_some(lane),
            namespace: (namespace != NamespaceLimits::default()).then_some(namespace),
        };
        (limits != api::Limits::default()).then_some(limits)
    }
}
