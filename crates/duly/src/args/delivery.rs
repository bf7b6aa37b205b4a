//! The delivery of firings: the destination, the fallback of a namespace, and the retry policy.
//!
//! Headers of deliveries may contain credentials, and other users of the machine can read a command line. So
//! a value can be read from a file: `name:@FILE`. clap prints values that a parser refuses, so any text is
//! accepted first and checked afterwards.

use std::path::Path;

use duly_api::{self as api, Destination, Duration, Fallback, Header, HttpDestination};
use duly_core::{Millis, namespace::FALLBACK_ATTEMPTS_MAX, retry::ATTEMPTS_MAX};

use super::{input, values};
use crate::failure::Failure;

/// The methods of a webhook.
const METHODS: [&str; 3] = ["POST", "PUT", "PATCH"];
/// Headers whose values are always secret.
const SECRETS: [&str; 2] = ["authorization", "cookie"];

/// The destination of a firing.
#[derive(clap::Args)]
pub(crate) struct DestinationArgs {
    /// Deliver to this webhook
    #[arg(long, value_name = "URL", conflicts_with = "pull")]
    url: Option<String>,
    /// HTTP method of the webhook (default POST)
    #[arg(long, value_name = "METHOD", requires = "url", ignore_case = true, value_parser = METHODS)]
    url_method: Option<String>,
    /// A header of each delivery to the webhook, as name:value, or name:@FILE with the value in a file;
    /// repeat it for more
    #[arg(long = "url-header", value_name = "NAME:VALUE", value_parser = values::unchecked, requires = "url")]
    url_headers: Vec<values::Unchecked>,
    /// Time limit of one delivery, 100ms to 10m (default 30s)
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "url")]
    url_timeout: Option<Millis>,
    /// Let consumers lease the firing
    #[arg(long)]
    pull: bool,
}

/// A second receiver.
#[derive(clap::Args)]
#[command(next_help_heading = "Fallback: a second receiver, used when the webhook fails")]
pub(crate) struct FallbackArgs {
    /// Deliver to this webhook when the first receiver fails
    #[arg(long, value_name = "URL")]
    fallback_url: Option<String>,
    /// HTTP method of the fallback (default POST)
    #[arg(long, value_name = "METHOD", requires = "fallback_url", ignore_case = true, value_parser = METHODS)]
    fallback_method: Option<String>,
    /// A header of each delivery to the fallback, as name:value, or name:@FILE with the value in a file;
    /// repeat it for more
    #[arg(long = "fallback-header", value_name = "NAME:VALUE", value_parser = values::unchecked, requires = "fallback_url")]
    fallback_headers: Vec<values::Unchecked>,
    /// Time limit of one delivery to the fallback, 100ms to 10m (default 30s)
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "fallback_url")]
    fallback_timeout: Option<Millis>,
    /// Use the fallback for a firing after this many failed attempts (default 5)
    #[arg(long, value_name = "N", requires = "fallback_url", value_parser = values::whole::<u32, 1, { FALLBACK_ATTEMPTS_MAX as u64 }>)]
    fallback_after_attempts: Option<u32>,
    /// Use the fallback for all firings of a receiver whose breaker is open for this long, up to 1d
    /// (default 1m)
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "fallback_url")]
    fallback_after_open: Option<Millis>,
}

impl DestinationArgs {
    /// Returns the destination, if one is given.
    pub(crate) fn destination(self) -> Result<Option<Destination>, Failure> {
        let headers = receiver_headers("--url-header", self.url_headers)?;
        Ok(match self.url {
            Some(url) => Some(webhook(url, self.url_method, headers, self.url_timeout)),
            None => self.pull.then(Destination::pull),
        })
    }
}

impl FallbackArgs {
    /// Returns the fallback, if one is given.
    pub(crate) fn fallback(self) -> Result<Option<Fallback>, Failure> {
        let headers = receiver_headers("--fallback-header", self.fallback_headers)?;
        Ok(self.fallback_url.map(|url| Fallback {
            destination: Some(webhook(url, self.fallback_method, headers, self.fallback_timeout)),
            after_attempts: self.fallback_after_attempts,
            after_open: self.fallback_after_open.map(Duration::from),
        }))
    }
}

fn webhook(
    url: String,
    method: Option<String>,
    headers: Vec<Header>,
    timeout: Option<Millis>,
) -> Destination {
    let method = method.map(|method| method.to_uppercase());
    let timeout = timeout.map(Duration::from);
    Destination { pull: None, http: Some(HttpDestination { url, method, headers, timeout }) }
}

/// Returns the headers of this option, with the values that are in files.
fn receiver_headers(option: &str, texts: Vec<values::Unchecked>) -> Result<Vec<Header>, Failure> {
    texts.into_iter().map(|text| receiver_header(option, &text.0)).collect()
}

fn receiver_header(option: &str, text: &str) -> Result<Header, Failure> {
    let mut header = values::header(text).map_err(|allowed| {
        Failure::usage(format_args!("the value of {option} is not a header: {allowed}"))
    })?;
    let name = &header.name;
    if let Some(file) = header.value.strip_prefix('@') {
        let value = input::text(Path::new(file), "value of the header")?;
        header.value = value.trim_end_matches(['\r', '\n']).to_owned();
    } else if SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret)) {
        return Err(Failure::usage(format_args!(
            "{option} {name}: its value is a secret, which other users of this machine can read here: put it \
             into a file, and name that: \"{name}:@FILE\""
        )));
    }
    Ok(header)
}

/// A retry policy; an absent option has its default.
#[derive(clap::Args)]
#[command(next_help_heading = "Retry policy")]
pub(crate) struct Retry {
    /// Dead-letter the firing after this many attempts
    #[arg(long, value_name = "N", value_parser = values::whole::<u32, 1, { ATTEMPTS_MAX as u64 }>)]
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
