//! The target of a delivery, parsed from its URL: scheme, host, port and origin.

use duly_core::NamespaceName;
use url::{Host, Position, Url};

/// The scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// `http://`.
    Plain,
    /// `https://`.
    Tls,
}

/// The parsed target of a URL, with the namespace of the timer.
#[derive(Debug, Clone)]
pub(super) struct Target<'a> {
    pub(super) url: &'a Url,
    pub(super) scheme: Scheme,
    pub(super) host: Host<&'a str>,
    pub(super) port: u16,
    pub(super) namespace: &'a NamespaceName,
}

impl<'a> Target<'a> {
    /// Parses a URL; returns `None` if its scheme is not HTTP.
    pub(super) fn of(url: &'a Url, namespace: &'a NamespaceName) -> Option<Self> {
        let scheme = match url.scheme() {
            "http" => Scheme::Plain,
            "https" => Scheme::Tls,
            _ => return None,
        };
        let (host, port) = (url.host()?, url.port_or_known_default()?);
        Some(Self { url, scheme, host, port, namespace })
    }

    /// Returns scheme, host and port: the key by which connections are shared.
    pub(super) fn origin(&self) -> &'a str {
        &self.url[..Position::BeforePath]
    }

    /// Returns host and port as in the `Host` header: without the scheme's default port.
    pub(super) fn authority(&self) -> &'a str {
        &self.url[Position::BeforeHost..Position::BeforePath]
    }

    /// Returns path and query.
    pub(super) fn path(&self) -> &'a str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }
}
