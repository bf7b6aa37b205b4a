//! Calls of a server over HTTP: every command speaks this one protocol, and prints what the server returned.
//!
//! One request, one reply, every failure in words. Names and ids are percent-encoded into the path. Nothing is
//! retried here: a change of unknown outcome is reported as such.

mod lines;
mod problem;
mod unreachable;

pub(crate) use self::problem::{Hint, sentence};

use std::{collections::HashMap, time::Duration};

use duly_core::NamespaceName;
use reqwest::{Method, StatusCode, Url, header::CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{failure::Failure, output::note};

/// Time to connect.
pub(crate) const CONNECT: Duration = Duration::from_secs(5);
/// Time for a whole exchange, on top of what the server was asked to wait.
pub(crate) const EXCHANGE: Duration = Duration::from_secs(60);
/// Most bytes of a reply: a page of 1000 timers with large payloads, and no more.
const REPLY_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// What to type next after any call, unless the call has a better hint.
const HINTS: &[Hint] = &[
    (
        "not_found",
        "`duly namespace list` shows the namespaces, `duly list NAMESPACE` the timers; \
         `duly namespace put NAMESPACE` makes a namespace",
    ),
    ("dead", "`duly dead redrive` has it delivered again, `duly dead purge` drops it"),
];

/// Calls one server.
pub(crate) struct Http {
    http: reqwest::Client,
    server: Url,
}

/// One call to be made.
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

/// What the server answered to a call that it accepted.
pub(crate) struct Answer {
    /// The body as it came.
    pub(crate) text: String,
    server: Url,
}

impl Http {
    /// A client of `server`.
    pub(crate) fn new(server: Url) -> Result<Self, Failure> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("duly-cli/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT);
        if is_loopback(&server) {
            // A proxy would look for the server on its own machine.
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| Failure::new(format_args!("cannot start the HTTP client: {error}")))?;
        Ok(Self { http, server })
    }

    /// The server's address without what is secret in it.
    pub(crate) fn shown(&self) -> String {
        unreachable::shown(&self.server)
    }

    /// A call to what is about the service and no namespace, below `/v1`.
    pub(crate) fn service(&self, method: Method, segments: &[&str]) -> Call<'_> {
        self.root(method, &[&["v1"], segments].concat())
    }

    /// A call to anything, from the root.
    pub(crate) fn root(&self, method: Method, segments: &[&str]) -> Call<'_> {
        let mut url = self.server.clone();
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

    /// A call to a namespace, or to `below` it.
    pub(crate) fn namespace(
        &self,
        method: Method,
        namespace: &NamespaceName,
        below: &[&str],
    ) -> Call<'_> {
        self.service(method, &[&["namespaces", namespace.as_str()], below].concat())
    }
}

impl Call<'_> {
    /// With these query parameters.
    pub(crate) fn query(mut self, parameters: &[(&str, String)]) -> Self {
        if !parameters.is_empty() {
            self.url.query_pairs_mut().extend_pairs(parameters);
        }
        self
    }

    /// With this JSON body.
    pub(crate) fn body(mut self, body: &impl Serialize) -> Self {
        self.body = Some(serde_json::to_vec(body).expect("messages are JSON"));
        self
    }

    /// The server may take this long before it answers.
    pub(crate) fn waiting(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// What to type next, by the code of a refusal.
    pub(crate) fn hints(mut self, hints: &'static [Hint]) -> Self {
        self.hints = hints;
        self
    }

    /// An answer of this status is one as well, and no refusal.
    pub(crate) fn accepting(mut self, status: StatusCode) -> Self {
        self.accepted = Some(status);
        self
    }

    /// No more than this is read of the answer: a longer one is none of a Duly server.
    pub(crate) fn at_most(mut self, bytes_max: usize) -> Self {
        self.bytes_max = bytes_max;
        self
    }

    /// Makes the call.
    pub(crate) async fn send(self) -> Result<Answer, Failure> {
        let server = &self.client.server;
        let limit = EXCHANGE + self.wait;
        let method = self.method.clone();
        let unreachable = |error| unreachable::failure(server, &error, limit, &method);
        let mut request = self.client.http.request(self.method, self.url);
        if let Some(body) = self.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        let sent = request.timeout(limit).send().await;
        let mut response = sent.map_err(unreachable)?;
        let status = response.status();
        if let Some(notice) = response.headers().get("duly-notice").and_then(|it| it.to_str().ok())
        {
            note(notice);
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > self.bytes_max {
                return Err(too_long(server, self.bytes_max));
            }
            body.extend_from_slice(&chunk);
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        if status.is_success() || self.accepted == Some(status) {
            Ok(Answer { text, server: server.clone() })
        } else {
            Err(problem::failure(server, status, &text, &[self.hints, HINTS].concat()))
        }
    }
}

impl Answer {
    /// Returns the body as a value.
    pub(crate) fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Failure> {
        serde_json::from_str(&self.text).map_err(|error| not_duly(&self.server, &error))
    }

    /// Returns the texts of the items of a list in the body.
    pub(crate) fn items(&self, list: &str) -> Result<Vec<&RawValue>, Failure> {
        let mut fields: HashMap<&str, &RawValue> = self.parse()?;
        let items = fields.remove(list).map_or("[]", RawValue::get);
        serde_json::from_str(items).map_err(|error| not_duly(&self.server, &error))
    }
}

/// An answer that cannot be read.
fn not_duly(server: &Url, error: &serde_json::Error) -> Failure {
    Failure::coded(
        "not_duly",
        format_args!(
            "{server} answered what a Duly server of this version does not ({error}): \
             is it one, and of the same version as this command?"
        ),
    )
}

/// An answer that is longer than any of a Duly server.
fn too_long(server: &Url, bytes_max: usize) -> Failure {
    let server = unreachable::shown(server);
    Failure::coded(
        "not_duly",
        format_args!(
            "{server} answered more than {bytes_max} bytes, which is more than is read: is it a \
             Duly server, and of the same version as this command?"
        ),
    )
}

/// Whether the server runs on this machine.
fn is_loopback(server: &Url) -> bool {
    let host = server.host_str().unwrap_or("");
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
