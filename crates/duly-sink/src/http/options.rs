//! The options of the webhook sink. The defaults are those of the server's configuration.

use std::{fmt, path::PathBuf, time::Duration};

use duly_core::{NamespaceName, access::NamespacePattern};

use super::address::AddressPolicy;

/// The options of the webhook sink.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Addresses and ports that may be reached.
    pub addresses: AddressPolicy,
    /// Time-outs for the parts of an exchange.
    pub timeouts: Timeouts,
    /// Limits for connections and replies.
    pub bounds: Bounds,
    /// Trusted authorities, and the client certificate.
    pub tls: TlsFiles,
    /// Proxy for all connections, if there is one.
    pub proxy: Option<Proxy>,
}

/// Time-outs for the parts of an exchange. The whole exchange ends at the destination's time-out or at
/// the sender's deadline, regardless of these.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// Time to make a connection: name look-up, TCP, proxy and TLS together.
    pub connect: Duration,
    /// Time from the first byte of the request to the end of the reply's head.
    pub header: Duration,
    /// Time to read the body of a reply whose status is known.
    pub body: Duration,
    /// Time for which an idle connection is kept for the next delivery.
    pub idle: Duration,
    /// Age from which a connection gets no further delivery.
    pub connection_age: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            header: Duration::from_secs(600),
            body: Duration::from_millis(500),
            idle: Duration::from_secs(60),
            connection_age: Duration::from_secs(120),
        }
    }
}

/// Limits for connections and replies.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Most bytes read of one reply, head and body together. The connection of a longer reply is closed.
    pub response_bytes_max: usize,
    /// Most idle connections kept for one origin.
    pub idle_per_origin_max: usize,
    /// Most idle connections kept in all; the one that was idle longest is closed first. Connections
    /// beyond that are in use, so their number is bounded by the number of deliveries at once.
    pub idle_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { response_bytes_max: 64 * 1024, idle_per_origin_max: 256, idle_max: 1024 }
    }
}

/// TLS files in PEM format.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// Certificates of authorities to trust in addition to those of the system.
    pub ca: Option<PathBuf>,
    /// Certificate for receivers that require a client certificate.
    pub client: Option<ClientFiles>,
}

impl TlsFiles {
    /// Returns `true` if no file is named.
    pub const fn is_empty(&self) -> bool {
        self.ca.is_none() && self.client.is_none()
    }

    /// Returns `true` if deliveries of a namespace show the client certificate.
    pub(super) fn is_shown_by(&self, namespace: &NamespaceName) -> bool {
        let client = self.client.as_ref();
        client.is_some_and(|it| it.namespaces.iter().any(|own| own.matches(namespace.as_str())))
    }
}

/// A client certificate with its key.
#[derive(Debug, Clone)]
pub struct ClientFiles {
    /// File with the certificate, followed by the intermediate certificates.
    pub certificate: PathBuf,
    /// File with its private key.
    pub key: PathBuf,
    /// Namespaces whose deliveries show the certificate. Others show none, also to a receiver that asks for one: a
    /// caller who chooses URL and body must not speak for the owner of the certificate.
    pub namespaces: Vec<NamespacePattern>,
}

/// An HTTP proxy that tunnels by `CONNECT`, for `http://` receivers as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Host name or address of the proxy. The operator chooses it, so the address filter does not apply.
    pub host: String,
    /// Port of the proxy.
    pub port: u16,
    /// User name and password, if the proxy requires them.
    pub credentials: Option<Credentials>,
    /// The side that resolves the receivers' names.
    pub resolves: Resolves,
}

/// The side that resolves the receivers' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resolves {
    /// This server: the proxy gets an address that was checked, so the address filter applies.
    #[default]
    Here,
    /// The proxy: it gets the name, and must itself block receivers in the internal network. Hosts
    /// written as addresses are still checked here.
    Proxy,
}

/// User name and password as `user:password`. `Debug` does not show them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials(String);

impl Credentials {
    /// Creates credentials from `user:password`; white space around the text is removed.
    ///
    /// Returns `None` if the text has no colon or has a control character. No part of the text is shown.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let fits = text.contains(':') && !text.chars().any(char::is_control);
        fits.then(|| Self(text.to_owned()))
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}
