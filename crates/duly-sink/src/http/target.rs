//! The target of a delivery, parsed from its URL: scheme, host, port and origin.

use std::borrow::Cow;

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
    /// `true`: connections show the client certificate.
    pub(super) is_certified: bool,
    pool_key: Cow<'a, str>,
}

impl<'a> Target<'a> {
    /// Parses a URL; returns `None` if its scheme is not HTTP. With `is_certified`, TLS connections show the client
    /// certificate.
    pub(super) fn of(
        url: &'a Url,
        namespace: &'a NamespaceName,
        is_certified: bool,
    ) -> Option<Self> {
        let scheme = match url.scheme() {
            "http" => Scheme::Plain,
            "https" => Scheme::Tls,
            _ => return None,
        };
        let (host, port) = (url.host()?, url.port_or_known_default()?);
        let is_certified = is_certified && scheme == Scheme::Tls;
        let origin = &url[..Position::BeforePath];
        let pool_key = match is_certified {
            true => format!("certified {origin}").into(),
            false => origin.into(),
        };
        Some(Self { url, scheme, host, port, namespace, is_certified, pool_key })
    }

    /// Returns the key by which connections are shared: scheme, host and port, and whether they show the client
    /// certificate.
    pub(super) fn pool_key(&self) -> &str {
        &self.pool_key
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
