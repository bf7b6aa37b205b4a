//! The builder of a client: an address and options. It checks everything before it connects.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Uri, uri::Scheme};
use tonic::transport::Endpoint;

use crate::{
    batch::{Batches, Batching},
    client::{Client, Inner, TIMEOUT_MAX},
    connection::{AuthorizedChannel, Connection},
    error::{Invalid, Result, check_runtime, within},
    retry::Retries,
};

/// Time of a call with its repetitions, unless set.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// Time to connect, unless set.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest limit for bytes in memory.
const BYTES_MAX: usize = 1024 * 1024 * 1024;
const MIB: usize = 1024 * 1024;
/// Silence on a connection with calls after which it is pinged, and the time for the reply. So a dead
/// connection is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The addresses that are allowed.
const URLS_ALLOWED: &str = "http://host:port or https://host:port, such as http://127.0.0.1:3859, with a \
                       path only where a proxy serves Duly below it";

/// Builds a [`Client`]; see [`Client::builder`].
#[derive(Clone)]
#[must_use = "a client is made by build()"]
pub struct Builder {
    url: String,
    credentials: Option<Credentials>,
    user_agent: Option<String>,
    timeout: Duration,
    connect_timeout: Duration,
    retries: Retries,
    batching: Batching,
    message_bytes_max: usize,
    on_notice: Option<fn(&str)>,
    #[cfg(feature = "tls")]
    tls: crate::tls::Tls,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Shows neither the token nor the key of a certificate.
        f.debug_struct("Builder").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Client {
    /// Returns a client with default settings. It connects with its first call, so this fails only if
    /// the address is invalid, or outside of a Tokio runtime.
    pub fn new(url: impl Into<String>) -> Result<Self> {
        Self::builder(url).build()
    }

    /// Returns a builder of a client for the server at this address: `http://host:port` or
    /// `https://host:port`.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::new(url.into())
    }
}

impl Builder {
    fn new(url: String) -> Self {
        Self {
            url,
            credentials: None,
            user_agent: None,
            timeout: TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            retries: Retries::default(),
            batching: Batching::default(),
            message_bytes_max: 64 * MIB,
            on_notice: None,
            #[cfg(feature = "tls")]
            tls: crate::tls::Tls::default(),
        }
    }

    /// Sets the key that each call sends as `authorization: Bearer …`: one of the server's, or the token of
    /// a proxy in front of it.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.credentials = Some(Credentials::Bearer(token.into()));
        self
    }

    /// Sets the name and password that each call sends as `authorization: Basic …`, in place of a token:
    /// for a proxy that asks for them. On a connection without TLS everyone on the network path can read
    /// them.
    pub fn basic(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.credentials = Some(Credentials::Basic(name.into(), password.into()));
        self
    }

    /// Sets the name and version of your program, which precede the client's own `user-agent`.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = Some(name.into());
        self
    }

    /// Sets the time of a call as a whole, including its repetitions: 1 ms to 1 h, default 30 s.
    /// [`Client::with_timeout`] changes it for some calls.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the time to connect: 1 ms to 1 h, default 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the repetition of failed calls.
    pub fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the batching of operations.
    pub fn batching(mut self, batching: Batching) -> Self {
        self.batching = batching;
        self
    }

    /// Sets the largest size of a response in bytes: 1 MiB to 1 GiB, default 64 MiB.
    pub fn message_bytes_max(mut self, bytes: usize) -> Self {
        self.message_bytes_max = bytes;
        self
    }

    /// Calls `on_notice` with each notice of a response, a sentence for people. An example: a schedule
    /// created its namespace, and a namespace with a similar name exists.
    pub fn on_notice(mut self, on_notice: fn(&str)) -> Self {
        self.on_notice = Some(on_notice);
        self
    }

    /// Trusts these certificate authorities (PEM) instead of those of the system.
    #[cfg(feature = "tls")]
    pub fn ca_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.authorities = Some(pem.into());
        self
    }

    /// Presents this client certificate (PEM) with its private key (PEM).
    #[cfg(feature = "tls")]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.tls.identity = Some((certificate.into(), key.into()));
        self
    }

    /// Checks everything, and returns the client. It connects with its first call.
    ///
    /// Must be called within a Tokio runtime. The connection then lives on that runtime.
    pub fn build(self) -> Result<Client> {
        self.check()?;
        let authorization = self.credentials.as_ref().map(Credentials::header).transpose()?;
        check_runtime("build", "called within a Tokio runtime")?;
        let (endpoint, path_prefix) = endpoint(&self.url)?;
        let mut endpoint = endpoint
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        let own = concat!("duly-client/", env!("CARGO_PKG_VERSION"));
        let agent = self.user_agent.map_or_else(|| own.to_owned(), |name| format!("{name} {own}"));
        endpoint = endpoint.user_agent(agent.clone()).map_err(|_error| {
            Invalid::new("user_agent", agent, "visible ASCII characters and spaces")
        })?;
        #[cfg(feature = "tls")]
        if endpoint.uri().scheme() == Some(&Scheme::HTTPS) {
            endpoint = self.tls.apply(endpoint)?;
        }
        let channel =
            AuthorizedChannel { channel: endpoint.connect_lazy(), authorization, path_prefix };
        let (server, message_bytes_max) = (Arc::from(self.url), self.message_bytes_max);
        let connection =
            Connection { channel, server, message_bytes_max, on_notice: self.on_notice };
        let batches = Arc::new(Batches::new(connection.clone(), self.batching));
        Ok(Client {
            inner: Arc::new(Inner { connection, batches, retries: self.retries }),
            timeout: self.timeout,
            is_batched: true,
        })
    }

    fn check(&self) -> Result<(), Invalid> {
        let ms = Duration::from_millis;
        within("timeout", self.timeout, ms(1), TIMEOUT_MAX)?;
        within("connect_timeout", self.connect_timeout, ms(1), TIMEOUT_MAX)?;
        let Retries { tries_max, first_wait, longest_wait } = self.retries;
        within("retries.tries_max", tries_max, 1, 1_000)?;
        within("retries.first_wait", first_wait, ms(1), Duration::from_secs(60))?;
        within("retries.longest_wait", longest_wait, first_wait, Duration::from_secs(600))?;
        let Batching { linger, batches_max, operations_max, bytes_max, waiting_bytes_max } =
            self.batching;
        within("batching.linger", linger, Duration::ZERO, Duration::from_secs(1))?;
        within("batching.batches_max", batches_max, 1, 64)?;
        within("batching.operations_max", operations_max, 1, 10_000)?;
        within("batching.bytes_max", bytes_max, 1, 32 * MIB)?;
        within("batching.waiting_bytes_max", waiting_bytes_max, MIB, BYTES_MAX)?;
        within("message_bytes_max", self.message_bytes_max, MIB, BYTES_MAX)
    }
}

/// Checks an address. Returns its endpoint, and the path prefix of every call.
fn endpoint(url: &str) -> Result<(Endpoint, Option<Arc<str>>), Invalid> {
    // Never shown whole: the text before the @ may be a password.
    let refuse = |why: &str| {
        Invalid::new("url", without_credentials(url), format!("{URLS_ALLOWED} ({why})"))
    };
    let uri: Uri = url.parse().map_err(|error| refuse(&format!("{error}")))?;
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => {}
        Some(scheme) if *scheme == Scheme::HTTPS && cfg!(feature = "tls") => {}
        Some(scheme) if *scheme == Scheme::HTTPS => {
            return Err(refuse("https needs the feature \"tls\" of duly-client"));
        }
        Some(scheme) => return Err(refuse(&format!("{scheme} is another protocol"))),
        None => return Err(refuse("it does not begin with http:// or https://")),
    }
    let authority = uri.authority().ok_or_else(|| refuse("it names no host"))?;
    if authority.as_str().contains('@') {
        return Err(refuse(
            "it has a name or password in it: give the builder a token, or use its basic()",
        ));
    }
    if authority.host().is_empty() {
        return Err(refuse("it names no host"));
    }
    if uri.query().is_some() {
        return Err(refuse("it has a query"));
    }
    let path = uri.path().trim_end_matches('/');
    let path_prefix = (!path.is_empty()).then(|| Arc::from(path));
    let endpoint = Endpoint::from_shared(url.to_owned());
    Ok((endpoint.map_err(|error| refuse(&error.to_string()))?, path_prefix))
}

fn without_credentials(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => url.to_owned(),
    }
}

/// The credentials that each call sends.
#[derive(Clone)]
enum Credentials {
    Bearer(String),
    Basic(String, String),
}

impl Credentials {
    fn header(&self) -> Result<HeaderValue, Invalid> {
        let text = match self {
            Self::Bearer(token) => {
                if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
                    let allowed = "visible ASCII characters without spaces, at least one";
                    return Err(Invalid::unseen("token", allowed));
                }
                format!("Bearer {token}")
            }
            Self::Basic(name, password) => {
                if name.contains(':')
                    || [name, password].iter().any(|it| it.contains(char::is_control))
                {
                    let allowed =
                        "a name without colon, and a password, both without control characters";
                    return Err(Invalid::unseen("basic", allowed));
                }
                format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
            }
        };
        let mut value = HeaderValue::try_from(text).expect("these characters are allowed");
        value.set_sensitive(true);
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
