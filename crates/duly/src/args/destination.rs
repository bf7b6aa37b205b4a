//! The destination of a firing: `--url` with its options, or `--pull`; and the fallback of a namespace.

use duly_api::{Destination, Duration, Fallback, HttpDestination};
use duly_core::Millis;

use super::{receiver_header, timer::headers, values};
use crate::failure::Failure;

/// The methods of a webhook.
const METHODS: [&str; 3] = ["POST", "PUT", "PATCH"];

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
    #[arg(long, value_name = "N", requires = "fallback_url", value_parser = values::whole::<u32>)]
    fallback_after_attempts: Option<u32>,
    /// Use the fallback for all firings of a receiver whose breaker is open for this long, up to 1d
    /// (default 1m)
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "fallback_url")]
    fallback_after_open: Option<Millis>,
}

impl DestinationArgs {
    /// Returns the destination, if one is given.
    pub(crate) fn destination(self) -> Result<Option<Destination>, Failure> {
        let headers = receiver_header::checked("--url-header", self.url_headers)?;
        Ok(match self.url {
            Some(url) => Some(webhook(url, self.url_method, headers, self.url_timeout)),
            None => self.pull.then(Destination::pull),
        })
    }
}

impl FallbackArgs {
    /// Returns the fallback, if one is given.
    pub(crate) fn fallback(self) -> Result<Option<Fallback>, Failure> {
        let headers = receiver_header::checked("--fallback-header", self.fallback_headers)?;
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
    given: Vec<(String, String)>,
    timeout: Option<Millis>,
) -> Destination {
    let method = method.map(|method| method.to_uppercase());
    let (headers, timeout) = (headers(given), timeout.map(Duration::from));
    Destination { pull: None, http: Some(HttpDestination { url, method, headers, timeout }) }
}
