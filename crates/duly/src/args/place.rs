//! Where to: `--url` with what belongs to it, or `--pull`; and the fallback of a namespace.

use clap::ValueEnum;
use duly_core::Millis;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{fields::pairs, receiver_header, values};
use crate::failure::Failure;

/// The destination of a firing.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// Deliver to this webhook
    #[arg(long, value_name = "URL", conflicts_with = "pull")]
    url: Option<String>,
    /// Deliver with this method (POST unless given)
    #[arg(long, value_name = "METHOD", requires = "url", ignore_case = true)]
    url_method: Option<WebhookMethod>,
    /// A header of every delivery to the webhook, as name:value, or
    /// name:@FILE with the value in a file; repeat it for more
    #[arg(long = "url-header", value_name = "NAME:VALUE", value_parser = receiver_header::typed, requires = "url")]
    url_headers: Vec<receiver_header::Typed>,
    /// Time for one delivery, 100ms to 10m (30s unless given)
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "url")]
    url_timeout: Option<Millis>,
    /// Let consumers lease it
    #[arg(long)]
    pull: bool,
}

/// A second receiver.
#[derive(clap::Args)]
#[command(next_help_heading = "Fallback: a second receiver, for when the webhook stays away")]
pub(crate) struct FallbackArgs {
    /// Deliver to this webhook when the first receiver does not take it
    #[arg(long, value_name = "URL")]
    fallback_url: Option<String>,
    /// Deliver to it with this method (POST unless given)
    #[arg(long, value_name = "METHOD", requires = "fallback_url", ignore_case = true)]
    fallback_method: Option<WebhookMethod>,
    /// A header of every delivery to it, as name:value, or
    /// name:@FILE with the value in a file; repeat it for more
    #[arg(long = "fallback-header", value_name = "NAME:VALUE", value_parser = receiver_header::typed, requires = "fallback_url")]
    fallback_headers: Vec<receiver_header::Typed>,
    /// Time for one delivery to it, 100ms to 10m (30s unless given)
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "fallback_url")]
    fallback_timeout: Option<Millis>,
    /// It gets a firing after this many failed attempts (5 unless given)
    #[arg(long, value_name = "N", requires = "fallback_url", value_parser = values::whole::<u32>)]
    fallback_after_attempts: Option<u32>,
    /// It gets every firing of a receiver left alone for this long, up to 1d (1m unless given)
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "fallback_url")]
    fallback_after_open: Option<Millis>,
}

/// The methods of a delivery.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[value(rename_all = "UPPER")]
#[serde(rename_all = "UPPERCASE")]
enum WebhookMethod {
    Post,
    Put,
    Patch,
}

/// A destination as a request says it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DestinationField {
    Pull {},
    Http(Webhook),
}

/// A webhook as a request says it.
#[derive(Serialize)]
pub(crate) struct Webhook {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<WebhookMethod>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
}

/// A fallback as a request says it.
#[derive(Serialize)]
pub(crate) struct FallbackField {
    destination: DestinationField,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_open: Option<String>,
}

impl Place {
    /// The destination as a request says it, where one is given.
    pub(crate) fn field(self) -> Result<Option<DestinationField>, Failure> {
        let url_headers = receiver_header::checked("--url-header", self.url_headers)?;
        Ok(match (self.url, self.pull) {
            (Some(url), _) => Some(webhook(url, self.url_method, url_headers, self.url_timeout)),
            (None, true) => Some(DestinationField::Pull {}),
            (None, false) => None,
        })
    }
}

impl FallbackArgs {
    /// The fallback, where one is given.
    pub(crate) fn field(self) -> Result<Option<FallbackField>, Failure> {
        let headers = receiver_header::checked("--fallback-header", self.fallback_headers)?;
        let Some(url) = self.fallback_url else { return Ok(None) };
        let destination = webhook(url, self.fallback_method, headers, self.fallback_timeout);
        Ok(Some(FallbackField {
            destination,
            after_attempts: self.fallback_after_attempts,
            after_open: self.fallback_after_open.map(|open| open.to_string()),
        }))
    }
}

fn webhook(
    url: String,
    method: Option<WebhookMethod>,
    headers: Vec<(String, String)>,
    timeout: Option<Millis>,
) -> DestinationField {
    DestinationField::Http(Webhook {
        url,
        method,
        headers: (!headers.is_empty()).then(|| pairs(&headers)),
        timeout: timeout.map(|timeout| timeout.to_string()),
    })
}
