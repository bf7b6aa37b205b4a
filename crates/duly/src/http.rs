//! Calls of a server over HTTP. All commands use this one protocol, and print the server's response.
//!
//! One call is one request and one response; every failure becomes a message. Names and ids are
//! percent-encoded in the path. No call with an unknown outcome is repeated: the outcome is reported as
//! such.

mod advice;
mod certificate;
mod failed_call;
mod lines;
mod missing_namespace;
mod patience;
mod tls;

pub(crate) use self::{
    failed_call::{Hint, sentence, shown},
    patience::{Patience, passing},
};

use std::{collections::HashMap, fmt::Display, path::Path, time::Duration};

use duly_core::NamespaceName;
use reqwest::{
    Method, StatusCode, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::{
    Outcome,
    failure::Failure,
    output::{Printer, note},
    place::Place,
};

/// Time limit for connecting.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit of a whole exchange, besides the wait that the server was asked for.
pub(crate) const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest response in bytes: enough for a page of 1000 timers with large payloads.
const REPLY_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Hints after a refusal of any call, unless the call has a more specific one.
const HINTS: &[Hint] = &[
    (
        "not_found",
        "`duly namespace list` shows the namespaces, `duly list NAMESPACE` the timers; `duly \
         namespace put NAMESPACE` creates a namespace",
    ),
    ("dead", "`duly dead redrive` delivers it again, `duly dead purge` removes it"),
];

/// A client of one server.
pub(crate) struct Http {
    http: reqwest::Client,
    server: Url,
    /// The context that named the server.
    context: Option<String>,
    /// The address that the paths of calls follow.
    base: Url,
}

/// A call that is being prepared.
#[derive(Clone)]
pub(crate) struct Call<'a> {
    client: &'a Http,
    method: Method,
    url: Url,
    body: Option<Vec<u8>>,
    wait: Duration,
    hints: &'static [Hint],
    accepted: Option<StatusCode>,
    bytes_max: usize,
}

/// The response to an accepted call.
pub(crate) struct HttpResponse {
    /// The body, unchanged.
    pub(crate) text: String,
    server: Url,
}

impl Http {
    /// Returns a client of `server`, which trusts the system's authorities and those of the first file, shows
    /// the certificate of the second one, and sends this key.
    pub(crate) fn new(
        server: Url,
        [ca_file, cert_file]: [Option<&Path>; 2],
        authorization: Option<HeaderValue>,
    ) -> Result<Self, Failure> {
        let headers = authorization.map(|value| (AUTHORIZATION, value)).into_iter().collect();
        let mut builder = reqwest::Client::builder()
            .default_headers(headers)
            .user_agent(concat!("duly-cli/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT);
        let tls = tls::Files::read(ca_file, cert_file)?;
        builder = match server.scheme() {
            "https" => builder.tls_backend_preconfigured(tls.client_config()?),
            // The system may have no authorities, and none are needed.
            _ => builder.tls_certs_only([]),
        };
        let mut base = server.clone();
        if let ("unix", Ok(path)) = (server.scheme(), server.to_file_path()) {
            builder = builder.unix_socket(path);
            base = Url::parse("http://localhost").expect("a URL");
        } else if is_loopback(&server) {
            // A proxy would look for the server on the proxy's own machine.
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| Failure::new(format_args!("cannot start the HTTP client: {error}")))?;
        Ok(Self { http, server, context: None, base })
    }

    /// Sets the context that named the server.
    pub(crate) fn of_context(self, context: Option<String>) -> Self {
        Self { context, ..self }
    }

    /// Returns the server and its context, for messages.
    pub(crate) fn place(&self) -> Place {
        Place::new(self.shown(), self.context.clone())
    }

    /// Returns the server's address without user name and password.
    pub(crate) fn shown(&self) -> String {
        failed_call::shown(&self.server)
    }

    /// Returns a GET of any path, from the root.
    pub(crate) fn root(&self, segments: &[&str]) -> Call<'_> {
        self.call(Method::GET, segments)
    }

    /// Returns a call below `/v1` that is about no namespace.
    pub(crate) fn service(&self, method: Method, segments: &[&str]) -> Call<'_> {
        self.call(method, &[&["v1"], segments].concat())
    }

    fn call(&self, method: Method, segments: &[&str]) -> Call<'_> {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        Call {
            client: self,
            method,
            url,
            body: None,
            wait: Duration::ZERO,
            hints: &[],
            accepted: None,
            bytes_max: REPLY_BYTES_MAX,
        }
    }

    /// Returns a call of a namespace, or of `below` it.
    pub(crate) fn namespace(
        &self,
        method: Method,
        namespace: &NamespaceName,
        below: &[&str],
    ) -> Call<'_> {
        self.service(method, &[&["namespaces", namespace.as_str()], below].concat())
    }

    /// Returns a GET of a namespace, or of `below` it.
    pub(crate) fn get(&self, namespace: &NamespaceName, below: &[&str]) -> Call<'_> {
        self.namespace(Method::GET, namespace, below)
    }

    /// Returns a POST to a namespace, or to `below` it.
    pub(crate) fn post(&self, namespace: &NamespaceName, below: &[&str]) -> Call<'_> {
        self.namespace(Method::POST, namespace, below)
    }
}

impl Call<'_> {
    /// Sets the query parameters.
    pub(crate) fn query(mut self, parameters: &[(&str, String)]) -> Self {
        if !parameters.is_empty() {
            self.url.query_pairs_mut().extend_pairs(parameters);
        }
        self
    }

    /// Sets the JSON body.
    pub(crate) fn body(mut self, body: &impl Serialize) -> Self {
        self.body = Some(serde_json::to_vec(body).expect("messages are JSON"));
        self
    }

    /// Extends the time limit: the server may wait this long before it responds.
    pub(crate) fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the hints for refusals, by their code.
    pub(crate) fn hints(mut self, hints: &'static [Hint]) -> Self {
        self.hints = hints;
        self
    }

    /// Accepts this status as a response too, not as a refusal.
    pub(crate) fn accepting(mut self, status: StatusCode) -> Self {
        self.accepted = Some(status);
        self
    }

    /// Sets the largest response in bytes. A longer one does not come from a Duly server.
    pub(crate) fn at_most(mut self, bytes_max: usize) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Makes the call.
    pub(crate) async fn send(self) -> Result<HttpResponse, Failure> {
        let client = self.client;
        match self.exchange().await {
            Err(failure) => Err(missing_namespace::with_similar(client, failure).await),
            done => done,
        }
    }

    /// Makes the call, and repeats it while a limit of the server refuses it: for commands of many calls.
    pub(crate) async fn send_patiently(self, printer: Printer) -> Result<HttpResponse, Failure> {
        let mut patience = Patience::default();
        loop {
            let failure = match self.clone().send().await {
                Err(failure) => failure,
                done => return done,
            };
            let Some((problem, wait)) = passing(&failure) else { return Err(failure) };
            if !patience.wait(&problem, wait, printer.is_quiet).await {
                return Err(failure);
            }
        }
    }

    async fn exchange(self) -> Result<HttpResponse, Failure> {
        let server = &self.client.server;
        let limit = EXCHANGE_TIMEOUT + self.wait;
        let method = self.method.clone();
        let unreachable = |error| failed_call::no_response_failure(server, &error, limit, &method);
        let mut request = self.client.http.request(self.method, self.url);
        if let Some(body) = self.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let sent = request.timeout(limit).send().await;
        let mut response = sent.map_err(unreachable)?;
        let status = response.status();
        if let Some(notice) = response.headers().get("duly-notice").and_then(|it| it.to_str().ok())
        {
            note(&advice::for_note(notice));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > self.bytes_max {
                return Err(not_duly_failure(format_args!(
                    "the response of {} is longer than {} bytes",
                    self.client.shown(),
                    self.bytes_max
                )));
            }
            body.extend_from_slice(&chunk);
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        if status.is_success() || self.accepted == Some(status) {
            Ok(HttpResponse { text, server: server.clone() })
        } else {
            Err(failed_call::refusal(server, status, &text, &[self.hints, HINTS].concat()))
        }
    }
}

impl HttpResponse {
    /// Parses the body.
    pub(crate) fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Failure> {
        serde_json::from_str(&self.text).map_err(|error| unparsed_failure(&self.server, &error))
    }

    /// Checks that the call changed something.
    ///
    /// # Errors
    /// [`Failure::Unchanged`], if the response says so: by `unchanged`, by `already`, or because nothing was left to
    /// forget.
    pub(crate) fn check_change(&self) -> Outcome {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Said {
            unchanged: Option<IgnoredAny>,
            already: bool,
            tombstones: Option<u64>,
            dead_letters: Option<u64>,
        }
        let said: Said = serde_json::from_str(&self.text).unwrap_or_default();
        let forgot_nothing = (said.tombstones, said.dead_letters) == (Some(0), Some(0));
        let is_unchanged = said.unchanged.is_some() || said.already || forgot_nothing;
        if is_unchanged { Err(Failure::Unchanged) } else { Ok(()) }
    }

    /// Returns the JSON texts of the items of a list in the body.
    pub(crate) fn items(&self, list: &str) -> Result<Vec<&RawValue>, Failure> {
        let mut fields: HashMap<&str, &RawValue> = self.parse()?;
        let items = fields.remove(list).map_or("[]", RawValue::get);
        serde_json::from_str(items).map_err(|error| unparsed_failure(&self.server, &error))
    }
}

/// Returns the failure for a response that cannot be parsed.
fn unparsed_failure(server: &Url, error: &serde_json::Error) -> Failure {
    let server = failed_call::shown(server);
    not_duly_failure(format_args!("the response of {server} cannot be parsed ({error})"))
}

/// Returns the failure for a response that does not come from a Duly server of this version.
fn not_duly_failure(what: impl Display) -> Failure {
    Failure::coded(
        "not_duly",
        format_args!("{what}: check that it is a Duly server of the same version as this command"),
    )
}

/// Returns `true` if the server runs on this machine.
fn is_loopback(server: &Url) -> bool {
    let host = server.host_str().unwrap_or("");
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
