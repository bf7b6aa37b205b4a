//! Destinations on the wire: an object with exactly one of `pull`, `http`.

use std::borrow::Cow;

use duly_core::{
    Destination, Invalid,
    destination::{HTTP_TIMEOUT_MAX, HTTP_TIMEOUT_MIN, HttpDestination, Method},
    headers,
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use utoipa::ToSchema;

use super::{
    Duration, DurationOut, Headers,
    headers::{Credentials, DestinationHeadersOut, REDACTED},
};

/// What an object of another kind is told.
const THIS_BUILD: &str = "exactly one of pull, http: this build delivers to pull and http";

/// Where a firing goes: exactly one of these.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Destination)]
pub struct DestinationIn {
    /// Consumers lease it and settle it.
    pub(super) pull: Option<PullIn>,
    /// Duly sends it to a webhook.
    pub(super) http: Option<HttpIn>,
    #[schema(ignore)]
    pub(super) kafka: Option<IgnoredAny>,
    #[schema(ignore)]
    pub(super) nats: Option<IgnoredAny>,
    #[schema(ignore)]
    pub(super) amqp: Option<IgnoredAny>,
    #[schema(ignore)]
    pub(super) redis_stream: Option<IgnoredAny>,
}

/// Nothing to set.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an empty JSON object")]
#[schema(as = PullDestination)]
pub struct PullIn {}

/// A webhook receiver.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = HttpDestination)]
pub struct HttpIn {
    /// Absolute `http://` or `https://` URL without credentials and fragment. A host that is an
    /// address must be one that this server may reach; names are checked when it connects. Answers show `***`
    /// in place of its query.
    pub(super) url: String,
    /// `POST` (default), `PUT` or `PATCH`.
    #[schema(example = "POST")]
    pub(super) method: Option<String>,
    /// Headers of every delivery; the timer's own win over them. Answers show `***` for all values but those
    /// of common headers without secrets, such as `content-type`, `accept` and `user-agent`.
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    pub(super) headers: Option<Headers>,
    /// Time for the whole exchange, 100ms to 10m, default 30s.
    pub(super) timeout: Option<Duration>,
}

impl DestinationIn {
    /// Removes the same as [`Headers::without_forwarded`].
    pub(super) fn without_forwarded(mut self) -> Self {
        if let Some(http) = &mut self.http {
            http.headers = http.headers.take().map(Headers::without_forwarded);
        }
        self
    }

    /// Checks it; the error names the field below `field`.
    ///
    /// # Errors
    /// When it is not exactly one destination of this build, or a field of it is not allowed.
    pub fn check(self, field: &str) -> Result<Destination, Invalid> {
        let brokers = [
            ("kafka", self.kafka.is_some()),
            ("nats", self.nats.is_some()),
            ("amqp", self.amqp.is_some()),
            ("redis_stream", self.redis_stream.is_some()),
        ];
        if let Some((name, _)) = brokers.iter().find(|(_, is_given)| *is_given) {
            return Err(Invalid::new(format!("{field}.{name}"), name, THIS_BUILD));
        }
        match (self.pull, self.http) {
            (Some(PullIn {}), None) => Ok(Destination::Pull),
            (None, Some(http)) => http
                .check()
                .map(Destination::Http)
                .map_err(|invalid| invalid.within("http").within(field)),
            (None, None) => Err(Invalid::new(field, "none", THIS_BUILD)),
            (Some(_), Some(_)) => Err(Invalid::new(field, "pull and http", THIS_BUILD)),
        }
    }
}

impl HttpIn {
    fn check(self) -> Result<HttpDestination, Invalid> {
        let mut http = HttpDestination::new(&self.url)?;
        if http.url().query() == Some(REDACTED) {
            let allowed = "the URL with its query: answers show *** in its place";
            return Err(Invalid::new("url", &self.url, allowed));
        }
        if let Some(method) = &self.method {
            http.method = Method::parse(method)?;
        }
        if let Some(given) = self.headers {
            http.headers = given.check("headers")?;
            refuse_redacted(&http.headers)?;
        }
        if let Some(timeout) = &self.timeout {
            http.timeout = timeout.check_within("timeout", HTTP_TIMEOUT_MIN, HTTP_TIMEOUT_MAX)?;
        }
        Ok(http)
    }
}

/// Refuses what an answer shows in the place of a credential, so that an answer that is sent back
/// does not overwrite it.
fn refuse_redacted(given: &headers::Headers) -> Result<(), Invalid> {
    match given.iter().find(|(name, value)| *value == REDACTED && !headers::is_shown(name)) {
        Some((name, value)) => {
            let allowed = "the credential itself: answers show *** in its place";
            Err(Invalid::new(name, value, allowed).within("headers"))
        }
        None => Ok(()),
    }
}

/// A destination in an answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DestinationOut<'a> {
    /// Consumers lease it.
    Pull {},
    /// Duly sends it.
    Http {
        /// Where to.
        url: Cow<'a, str>,
        /// Request method.
        method: &'static str,
        /// Headers of every delivery, credentials as `***` unless it is an export.
        #[serde(skip_serializing_if = "Option::is_none")]
        headers: Option<DestinationHeadersOut<'a>>,
        /// Time for the whole exchange.
        timeout: DurationOut,
    },
}

impl<'a> From<&'a Destination> for DestinationOut<'a> {
    fn from(destination: &'a Destination) -> Self {
        Self::of(destination, Credentials::Redacted)
    }
}

impl<'a> DestinationOut<'a> {
    /// A destination with or without its credentials.
    pub fn of(destination: &'a Destination, credentials: Credentials) -> Self {
        match destination {
            Destination::Pull => Self::Pull {},
            Destination::Http(http) => http_out(http, credentials),
        }
    }
}

/// The URL of a receiver in an answer: its query may hold a credential.
pub(super) fn shown_url(http: &HttpDestination, credentials: Credentials) -> Cow<'_, str> {
    let url = http.url();
    match (credentials, url.query()) {
        (Credentials::Whole, _) | (_, None) => url.as_str().into(),
        (Credentials::Redacted, Some(_)) => {
            let (base, _) = url.as_str().split_once('?').unwrap_or((url.as_str(), ""));
            format!("{base}?{REDACTED}").into()
        }
    }
}

/// A webhook receiver in an answer.
pub(super) fn http_out(http: &HttpDestination, credentials: Credentials) -> DestinationOut<'_> {
    DestinationOut::Http {
        url: shown_url(http, credentials),
        method: http.method.as_str(),
        headers: (!http.headers.is_empty())
            .then_some(DestinationHeadersOut(&http.headers, credentials)),
        timeout: http.timeout.into(),
    }
}
