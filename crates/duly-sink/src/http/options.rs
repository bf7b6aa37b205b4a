//! What the webhook sink can be told. The defaults are those of the server's configuration.

use std::{fmt, path::PathBuf, time::Duration};

use super::address::AddressPolicy;

/// What the webhook sink can be told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Which addresses and ports may be reached.
    pub addresses: AddressPolicy,
    /// How long the parts of an exchange may take.
    pub timeouts: Timeouts,
    /// How much is kept and read.
    pub bounds: Bounds,
    /// Whom to trust, and how to show who we are.
    pub tls: TlsFiles,
    /// What all connections go through, if anything.
    pub proxy: Option<Proxy>,
}

/// How long the parts of an exchange may take. The whole of it ends at the destination's time-out
/// or the sender's deadline, whatever these say.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// From nothing to a connection: name look-up, TCP, proxy and TLS together.
    pub connect: Duration,
    /// From the first byte of the request to the end of the answer's head.
    pub header: Duration,
    /// The body of an answer whose status is known.
    pub body: Duration,
    /// How long an idle connection is kept for the next delivery.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            header: Duration::from_secs(600),
            body: Duration::from_millis(500),
            idle: Duration::from_secs(60),
        }
    }
}

/// How much is kept and read.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes read of one answer, head and body together. Past it the connection is closed.
    pub response_bytes_max: usize,
    /// Idle connections kept for one origin.
    pub idle_per_origin_max: usize,
    /// Idle connections kept in all; the one that was idle longest goes first. What is open beyond
    /// them is in use, so the number of deliveries at once bounds it.
    pub idle_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { response_bytes_max: 64 * 1024, idle_per_origin_max: 256, idle_max: 1024 }
    }
}

/// Files in PEM.
#[derive(Debug, Clone, Default)]
pub struct TlsFiles {
    /// Certificates of authorities to trust besides those of the system.
    pub ca: Option<PathBuf>,
    /// What is shown to a receiver that asks for a client certificate.
    pub client: Option<ClientFiles>,
}

/// A client certificate.
#[derive(Debug, Clone)]
pub struct ClientFiles {
    /// The certificate, then those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// An HTTP proxy that tunnels by `CONNECT`, for `http://` receivers as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// Its name or address. It is the operator's choice, so the address rule is not asked.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// User name and password, if it wants them.
    pub credentials: Option<Credentials>,
    /// Who finds the address of a receiver's name.
    pub resolves: Resolves,
}

/// Who finds the address of a receiver's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resolves {
    /// This server: the proxy is given an address that was checked, so the address rule holds.
    #[default]
    Here,
    /// The proxy: it is given the name, and has to keep receivers out of the inner network itself.
    /// Hosts written as addresses are still checked here.
    Proxy,
}

/// User name and password as `user:password`. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials(String);

impl Credentials {
    /// Takes `user:password`; white space around it is dropped.
    ///
    /// `None` where there is no colon or a control character: nothing of the text is shown.
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
