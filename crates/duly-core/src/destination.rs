//! Destinations: the target of a firing, and the lane that the firing belongs to.

mod stored_origin;

use std::sync::Arc;

use url::Url;

use crate::{
    Millis, hash_feed::Feed, headers::Headers, invalid::Invalid, similar_name::with_similar,
};

/// Longest URL, in bytes.
pub const URL_BYTES_MAX: usize = 2048;
/// Default time for the whole response of a receiver.
pub const HTTP_TIMEOUT_DEFAULT: Millis = Millis::from_secs(30);
/// Shortest time-out of a destination.
pub const HTTP_TIMEOUT_MIN: Millis = Millis::from_ms(100);
/// Longest time-out of a destination.
pub const HTTP_TIMEOUT_MAX: Millis = Millis::from_secs(600);

/// The target of a firing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Destination {
    /// Consumers lease it and settle it.
    #[default]
    Pull,
    /// Duly sends it to a webhook.
    Http(HttpDestination),
}

/// A webhook receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpDestination {
    url: Url,
    /// Request method.
    pub method: Method,
    /// Headers of every delivery. A header of the timer replaces the one with the same name here.
    pub headers: Headers,
    /// Time for the whole exchange, including the connection.
    pub timeout: Millis,
}

crate::named_enum! {
    /// Request methods a webhook can use, with their names on the wire.
    #[derive(Default)]
    pub enum Method {
        /// POST, the default.
        #[default]
        Post = "POST",
        /// PUT.
        Put = "PUT",
        /// PATCH.
        Patch = "PATCH",
    }
}

impl Method {
    /// Parses the upper-case name.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|method| method.as_str() == text);
        let methods = Self::ALL.iter().map(|method| method.as_str());
        known.ok_or_else(|| {
            let allowed = with_similar("POST, PUT or PATCH".to_owned(), text, methods);
            Invalid::new("method", text, allowed)
        })
    }
}

impl HttpDestination {
    /// Creates a receiver at `url` with the default method, no headers and the default time-out.
    pub fn new(url: &str) -> Result<Self, Invalid> {
        let refuse = |allowed: &str| refused(url, allowed);
        if url.len() > URL_BYTES_MAX {
            return Err(refuse("at most 2048 bytes long"));
        }
        let parsed = Url::parse(url).map_err(|_| refuse("an absolute http:// or https:// URL"))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return Err(refuse("an absolute http:// or https:// URL"));
        }
        if parsed.domain().is_some_and(has_empty_label) {
            return Err(refuse("with a host without empty labels, such as hooks.example.com"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            let allowed = "without user name and password: put credentials into a header";
            return Err(Invalid::unseen("url", allowed));
        }
        if parsed.port() == Some(0) {
            return Err(refuse("with a port from 1 to 65535"));
        }
        if parsed.fragment().is_some() {
            return Err(refuse("without a fragment (#…)"));
        }
        // Percent-encoding makes characters that are not ASCII three times as long.
        if parsed.as_str().len() > URL_BYTES_MAX {
            return Err(refuse("at most 2048 bytes long, percent-encoded"));
        }
        Ok(Self::at(parsed))
    }

    /// Creates a receiver from a URL that was checked when it was accepted. An accepted URL stays valid,
    /// even if the rules of [`Self::new`] have become stricter since.
    pub fn from_stored(url: &str) -> Result<Self, Invalid> {
        Url::parse(url).map(Self::at).map_err(|_| refused(url, "an absolute URL"))
    }

    fn at(url: Url) -> Self {
        Self {
            url,
            method: Method::Post,
            headers: Headers::default(),
            timeout: HTTP_TIMEOUT_DEFAULT,
        }
    }

    /// Returns an example in which every field is set.
    pub(crate) fn every_field(url: &str, method: Method) -> Result<Self, Invalid> {
        let headers = [("x-shop", "eu"), ("x-twice", "a, b")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (url, timeout) = (Self::new(url)?.url, Millis::from_ms(2_500));
        Ok(Self { url, method, headers: Headers::new(headers)?, timeout })
    }

    /// Returns the URL of the receiver.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the lane of the receiver at a URL that was checked when it was accepted.
    pub fn lane_key_of_stored(url: &str) -> Result<LaneKey, Invalid> {
        stored_origin::origin_of(url).map(|origin| LaneKey::Receiver(Arc::from(origin)))
    }

    /// Returns scheme, host and port: the unit of isolation between receivers.
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }
}

/// Returns the error for a refused URL. It shows the URL without its query, and not at all if the URL may
/// hold a password.
fn refused(url: &str, allowed: &str) -> Invalid {
    match url.split_once('?') {
        _ if url.contains('@') => Invalid::unseen("url", allowed),
        Some((before, _)) => Invalid::new("url", format_args!("{before}?…"), allowed),
        None => Invalid::new("url", url, allowed),
    }
}

/// Returns `true` for a host name that has nothing between two dots, or before the first one. One dot at the end is
/// the root of all names.
pub fn has_empty_label(host: &str) -> bool {
    host.strip_suffix('.').unwrap_or(host).split('.').any(str::is_empty)
}

impl Destination {
    /// Returns the lane that firings to this destination belong to.
    pub fn lane_key(&self) -> LaneKey {
        match self {
            Self::Pull => LaneKey::Pull,
            Self::Http(http) => LaneKey::Receiver(Arc::from(http.origin())),
        }
    }

    /// Returns the webhook receiver, if it is one.
    pub fn into_http(self) -> Option<HttpDestination> {
        match self {
            Self::Pull => None,
            Self::Http(http) => Some(http),
        }
    }

    /// Returns `true` if consumers lease the firings, and nothing is sent.
    pub fn is_pull(&self) -> bool {
        *self == Self::Pull
    }

    /// Returns `true` if both give firings to the same receiver, in any form.
    pub fn has_receiver_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pull, Self::Pull) => true,
            (Self::Http(one), Self::Http(other)) => one.url == other.url,
            _ => false,
        }
    }

    /// Checks that it reaches only what the rules allow: `check_url` refuses a URL. An error names the field of
    /// the destination.
    pub fn allowed_by(
        &self,
        check_url: impl FnOnce(&Url) -> Result<(), Invalid>,
    ) -> Result<(), Invalid> {
        match self {
            Self::Pull => Ok(()),
            Self::Http(http) => check_url(http.url()).map_err(|refused| refused.within("http.url")),
        }
    }

    /// Returns the headers of every delivery.
    pub fn headers(&self) -> Option<&Headers> {
        match self {
            Self::Pull => None,
            Self::Http(http) => Some(&http.headers),
        }
    }

    /// Returns the approximate memory that it takes besides its own size, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.target_bytes() + self.headers().map_or(0, Headers::heap_bytes)
    }

    /// Returns the size of its texts without the headers, in bytes.
    pub(crate) fn target_bytes(&self) -> usize {
        match self {
            Self::Pull => 0,
            Self::Http(http) => http.url.as_str().len(),
        }
    }

    /// Adds each field to the hash of a request. The form is frozen.
    pub(crate) fn hash_into(&self, feed: &mut Feed) {
        match self {
            Self::Pull => feed.bytes(b'P', &[]),
            Self::Http(HttpDestination { url, method, headers, timeout }) => {
                feed.bytes(b'U', url.as_str().as_bytes());
                feed.bytes(b'M', method.as_str().as_bytes());
                feed.headers(headers);
                feed.number(b'T', timeout.ms());
            }
        }
    }
}

/// The key of a lane within its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKey {
    /// Firings that consumers lease.
    Pull,
    /// Firings to one receiver: an HTTP origin.
    Receiver(Arc<str>),
    /// Firings to all receivers beyond the maximum number of lanes of a namespace.
    Overflow,
}

impl LaneKey {
    /// Returns its name in stats, metrics and logs.
    pub fn label(&self) -> &str {
        match self {
            Self::Pull => "pull",
            Self::Receiver(receiver) => receiver,
            Self::Overflow => "overflow",
        }
    }
}

#[cfg(test)]
mod tests;
