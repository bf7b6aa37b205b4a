//! Admits the streams of HTTP/2 connections: everything that a stream holds counts, for every caller (P10).
//!
//! A stream holds its head, its task, its structures in the library and the head of its response, until the last
//! byte of the response is written. Its caller may make it wait: by a body that does not come, or by a window that
//! stays closed.
//!
//! 1. The streams of a caller with a valid key count against the request memory, or the part of its tenant.
//! 2. Other callers have a small budget of their own, and few streams on each connection. Past either, or past the
//!    failures of their address, the server looks at the key before anything else: a caller with one is admitted by
//!    the first rule.
//! 3. A stream that is not admitted gets a head without a body, which no window holds back. A connection without a
//!    key that has too many of them ends.
//! 4. A connection that resets streams faster than the server can drop them ends.
//!
//! HTTP/1.1 has one call at a time on a connection, whose head the connection itself may hold.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::response::{IntoResponse, Response};
use duly_core::Code;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header::RETRY_AFTER};

use super::Connection;
use crate::{
    auth::Caller,
    http::{
        App, PROBES, Problem,
        budget::{Budget, Reservation, over_budget},
    },
    serve::STREAMS_MAX,
    telemetry::UNMATCHED,
};

/// Bytes that a stream holds besides its head: its task, its structures and the head of its response.
pub(crate) const STREAM_BYTES: usize = 4 * 1024;
/// Bytes of a field in the map of a head, besides its text.
const FIELD_BYTES: usize = 112;
/// Streams of a connection that has not shown a key.
pub(crate) const STREAMS_WITHOUT_KEY_MAX: u32 = 8;
/// Refused streams after which such a connection ends.
pub(crate) const REFUSED_MAX: u32 = 16;
/// Streams that are being dropped after a reset, beside those that are open.
const DROPPING_MAX: u32 = 4 * STREAMS_MAX;
/// Parts of the request memory, of which all callers without a key have one.
pub(crate) const STRANGERS_SHARE: usize = 16;

/// The streams of one connection.
#[derive(Debug)]
pub(super) struct Streams {
    /// The budget of callers that have not shown a key.
    strangers: Budget,
    /// The first caller with a valid key.
    caller: OnceLock<Caller>,
    open: AtomicU32,
    refused: AtomicU32,
    without_key_max: u32,
}

impl Streams {
    /// Creates it without streams. A proxy stands for many callers.
    pub(super) fn new(strangers: Budget, is_proxy: bool) -> Self {
        Self {
            strangers,
            caller: OnceLock::new(),
            open: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            without_key_max: if is_proxy { STREAMS_MAX } else { STREAMS_WITHOUT_KEY_MAX },
        }
    }

    /// Notes a caller with a valid key. Returns `true` for the first.
    pub(super) fn note_caller(&self, caller: &Caller) -> bool {
        self.caller.get().is_none() && self.caller.set(caller.clone()).is_ok()
    }
}

/// A stream, which counts until this value is dropped.
#[derive(Debug)]
pub(crate) struct OpenStream {
    connection: Connection,
    reservation: Reservation,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.connection.streams().open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream that is not admitted.
#[derive(Debug)]
pub(super) struct Refused {
    is_known: bool,
}

impl Refused {
    /// Returns the response: a head alone.
    pub(super) fn response(self, is_grpc: bool) -> Response {
        if !is_grpc {
            let retry_after = [(RETRY_AFTER, HeaderValue::from_static("1"))];
            return (StatusCode::TOO_MANY_REQUESTS, retry_after).into_response();
        }
        let problem = if self.is_known { over_budget() } else { without_key() };
        tonic::Status::from(problem).into_http()
    }
}

fn without_key() -> Problem {
    let detail =
        "too many calls without a valid key: send a valid key with the first call of a connection";
    Problem::temporary(Code::ResourceExhausted, detail)
}

impl Connection {
    /// Admits a stream by the head of its request. Returns the reservation of the head too, which ends before
    /// that of the stream. `app` is missing while the store opens: then no key can be looked at.
    pub(super) fn admit<B>(
        &self,
        request: &Request<B>,
        app: Option<&App>,
    ) -> Result<(OpenStream, Reservation), Refused> {
        let streams = self.streams();
        let head_bytes = head_bytes(request);
        let open = streams.open.fetch_add(1, Ordering::Relaxed) + 1;
        let mut stream = OpenStream {
            connection: self.clone(),
            reservation: streams.strangers.empty_reservation(),
        };
        let mut admitted = |budget: &Budget| {
            let mut reserved = budget.reserve_stream(STREAM_BYTES, head_bytes)?;
            let head = reserved.split(head_bytes);
            stream.reservation = reserved;
            Some(head)
        };
        let head = if open > DROPPING_MAX {
            self.end();
            None
        } else if let (Some(caller), Some(app)) = (streams.caller.get(), app) {
            admitted(&app.budget_of(caller))
        } else {
            let are_few = open <= streams.without_key_max;
            let may_wait = are_few && !app.is_some_and(|it| it.is_limited(&self.peer, request));
            let head = match may_wait {
                true => admitted(&streams.strangers),
                false => None,
            };
            let caller = head.is_none().then(|| app?.caller_of(&self.peer, request.headers()));
            match (head, caller.flatten(), app) {
                (Some(head), ..) => Some(head),
                (None, Some(caller), Some(app)) => {
                    self.note_caller(&caller);
                    admitted(&app.budget_of(&caller))
                }
                // Probes must respond while others use up the budget.
                _ if are_few && is_probe(request) => {
                    stream.reservation = streams.strangers.reserve_unchecked(STREAM_BYTES);
                    Some(streams.strangers.empty_reservation())
                }
                _ => None,
            }
        };
        match head {
            Some(head) => Ok((stream, head)),
            None => {
                drop(stream);
                self.note_refused(app);
                Err(Refused { is_known: streams.caller.get().is_some() })
            }
        }
    }

    fn note_refused(&self, app: Option<&App>) {
        // While the store opens, the keys are not known yet.
        let Some(app) = app else { return };
        app.routes().record(UNMATCHED, StatusCode::TOO_MANY_REQUESTS, Duration::ZERO);
        let streams = self.streams();
        if streams.caller.get().is_none()
            && streams.refused.fetch_add(1, Ordering::Relaxed) >= REFUSED_MAX
        {
            tracing::debug!("connection closed: it has too many streams without a valid key");
            self.end();
        }
    }
}

/// Returns the bytes that the head of a request holds.
fn head_bytes<B>(request: &Request<B>) -> usize {
    let headers: &HeaderMap = request.headers();
    let text: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let target = request.uri().path().len() + request.uri().query().map_or(0, str::len);
    text + target + headers.capacity().max(headers.len()) * FIELD_BYTES
}

/// Returns `true` for health, readiness and metrics.
fn is_probe<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    PROBES.contains(&path) || path.starts_with("/grpc.health.v1.Health/")
}
