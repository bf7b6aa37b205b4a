//! Where a delivery goes, read from its URL once: scheme, host, port, and the key of its origin.

use duly_core::NamespaceName;
use url::{Host, Position, Url};

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// `http://`.
    Plain,
    /// `https://`.
    Tls,
}

/// The receiving end of a URL, and who wants it reached.
#[derive(Debug, Clone)]
pub(super) struct Target<'a> {
    pub(super) url: &'a Url,
    pub(super) scheme: Scheme,
    pub(super) host: Host<&'a str>,
    pub(super) port: u16,
    pub(super) namespace: &'a NamespaceName,
}

impl<'a> Target<'a> {
    /// Reads a URL; `None` where it is none of HTTP.
    pub(super) fn of(url: &'a Url, namespace: &'a NamespaceName) -> Option<Self> {
        let scheme = match url.scheme() {
            "http" => Scheme::Plain,
            "https" => Scheme::Tls,
            _ => return None,
        };
        let (host, port) = (url.host()?, url.port_or_known_default()?);
        Some(Self { url, scheme, host, port, namespace })
    }

    /// Scheme, host and port: what connections are shared by.
    pub(super) fn origin(&self) -> &'a str {
        &self.url[..Position::BeforePath]
    }

    /// Host and port as the `Host` header has them: without the scheme's own port.
    pub(super) fn authority(&self) -> &'a str {
        &self.url[Position::BeforeHost..Position::BeforePath]
    }

    /// Path and query.
    pub(super) fn path(&self) -> &'a str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }
}
