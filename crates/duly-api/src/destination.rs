//! Destinations: an object with exactly one of `pull` and `http`.

use duly_core::{
    Destination as Checked, Invalid,
    destination::{HTTP_TIMEOUT_MAX, HTTP_TIMEOUT_MIN, HttpDestination as CheckedHttp, Method},
    headers::{Headers, is_shown},
};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{
    Duration,
    headers::{self, CredentialsForm, Header, HeaderList, REDACTED},
};

/// The allowed destinations, for messages.
pub(crate) const THIS_BUILD: &str =
    "exactly one of pull, http: this build delivers to pull and http";

/// The place that a firing goes to: exactly one of these.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct Destination {
    /// Consumers lease and settle it.
    #[prost(message, optional, tag = "1")]
    pub pull: Option<PullDestination>,
    /// Duly sends it to a webhook.
    #[prost(message, optional, tag = "2")]
    pub http: Option<HttpDestination>,
}

/// The pull destination, which has no settings.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an empty JSON object")]
pub struct PullDestination {}

/// A webhook receiver.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct HttpDestination {
    /// Absolute `http://` or `https://` URL without credentials and fragment. A host that is an
    /// address must be one that this server may reach; names are checked when it connects. Responses show
    /// `***` in place of its query.
    #[prost(string, tag = "1")]
    #[schema(max_length = 2048, example = "https://shop.example/timers")]
    pub url: String,
    /// `POST` (default), `PUT` or `PATCH`.
    #[prost(string, optional, tag = "2")]
    #[schema(pattern = "^(POST|PUT|PATCH)$", example = "POST")]
    pub method: Option<String>,
    /// Headers of every delivery; the timer's own win over them. Responses show `***` for all values but
    /// those of common headers without secrets, such as `content-type`, `accept` and `user-agent`.
    #[prost(message, repeated, tag = "3")]
    #[serde(default, with = "headers", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = HeaderList, required = false)]
    pub headers: Vec<Header>,
    /// Time for the whole exchange, 100ms to 10m, default 30s.
    #[prost(message, optional, tag = "4")]
    pub timeout: Option<Duration>,
}

impl Destination {
    /// Returns the destination that consumers pull from.
    pub fn pull() -> Self {
        Self { pull: Some(PullDestination {}), http: None }
    }

    /// Returns a webhook receiver at an absolute URL, with `POST` and the default timeout of 30 s.
    pub fn http(url: impl Into<String>) -> Self {
        let http = HttpDestination { url: url.into(), ..HttpDestination::default() };
        Self { pull: None, http: Some(http) }
    }

    /// Returns the destination, checked; an error names the field below `field`.
    ///
    /// # Errors
    /// When it is not exactly one destination of this build, or a field of it is not allowed.
    pub fn check(self, field: &str) -> Result<Checked, Invalid> {
        match (self.pull, self.http) {
            (Some(PullDestination {}), None) => Ok(Checked::Pull),
            (None, Some(http)) => http
                .check()
                .map(Checked::Http)
                .map_err(|invalid| invalid.within("http").within(field)),
            (None, None) => Err(Invalid::new(field, "none", THIS_BUILD)),
            (Some(_), Some(_)) => Err(Invalid::new(field, "pull and http", THIS_BUILD)),
        }
    }

    /// Returns a destination as a response shows it.
    pub fn shown(destination: &Checked, credentials: CredentialsForm) -> Self {
        match destination {
            Checked::Pull => Self::pull(),
            Checked::Http(http) => Self::shown_http(http, credentials),
        }
    }

    fn shown_http(http: &CheckedHttp, credentials: CredentialsForm) -> Self {
        let is_whole = credentials == CredentialsForm::Whole;
        let url = http.url().as_str();
        let url = match url.split_once('?') {
            Some((base, _)) if !is_whole => format!("{base}?{REDACTED}"),
            _ => url.to_owned(),
        };
        let header = |(name, value)| {
            Header::from((name, if is_whole || is_shown(name) { value } else { REDACTED }))
        };
        let http = HttpDestination {
            url,
            method: Some(http.method.as_str().to_owned()),
            headers: http.headers.iter().map(header).collect(),
            timeout: Some(http.timeout.into()),
        };
        Self { pull: None, http: Some(http) }
    }

    pub(crate) fn remove_forwarded(&mut self) {
        if let Some(http) = &mut self.http {
            headers::remove_forwarded(&mut http.headers);
        }
    }
}

impl HttpDestination {
    fn check(self) -> Result<CheckedHttp, Invalid> {
        let mut http = CheckedHttp::new(&self.url)?;
        if http.url().query() == Some(REDACTED) {
            let allowed = "the URL with its query: responses show *** in its place";
            return Err(Invalid::new("url", &self.url, allowed));
        }
        if let Some(method) = &self.method {
            http.method = Method::parse(method)?;
        }
        http.headers = headers::check(self.headers)?;
        refuse_redacted(&http.headers)?;
        if let Some(timeout) = &self.timeout {
            http.timeout = timeout.check_within("timeout", HTTP_TIMEOUT_MIN, HTTP_TIMEOUT_MAX)?;
        }
        Ok(http)
    }
}

/// Refuses the text that a response shows in place of a credential. Otherwise a response that is sent
/// back would overwrite the credential.
fn refuse_redacted(given: &Headers) -> Result<(), Invalid> {
    match given.iter().find(|(name, value)| *value == REDACTED && !is_shown(name)) {
        Some((name, value)) => {
            let allowed = "the credential itself: responses show *** in its place";
            Err(Invalid::new(name, value, allowed).within("headers"))
        }
        None => Ok(()),
    }
}
