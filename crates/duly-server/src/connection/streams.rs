//! Admits the streams of HTTP/2 connections: everything that a stream holds counts, for every caller (P10).
//!
//! A stream holds its head, its task, its structures in the library and the head of its response, until the last
//! byte of the response is written. Its caller may make it wait: by a body that does not come, or by a window that
//! stays closed.
//!
//! 1. The streams of a caller with a valid key count against the request memory, or the part of its tenant.
//! 2. Other callers have a small budget of their own, and few streams on each connection. Past either, the server
//!    looks at the key before anything else: a caller with one is admitted by the first rule. A preflight request of a browser, which has no key, needs space in this budget alone.
//! 3. Probes need no space in a budget: they respond while others use it up.
//! 4. A stream that is not admitted gets a head without a body, which no window holds back. A connection without a
//!    key that has too many of them ends.
//!    So does one whose key was revoked.
//! 5. A proxy stands for many callers: each of its streams has a caller of its own.
//! 6. A connection that resets streams faster than the server can drop them ends.
//! 7. The library keeps the structures of streams for later ones, until the connection ends. They count by the most
//!    streams that the connection has had at once. A connection of which most calls find no memory ends.
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
use parking_lot::Mutex;

use super::Connection;
use crate::{
    auth::Caller,
    cors::Cors,
    memory::budget::{Budget, Reservation, over_budget},
    operations::is_probe,
    problem::Problem,
    service::App,
    telemetry::UNMATCHED,
};

/// Concurrent HTTP/2 requests on one connection.
pub(crate) const STREAMS_MAX: u32 = 256;
/// Bytes that a stream holds besides its head: its task, its structures and the head of its response.
pub(crate) const STREAM_BYTES: usize = 4 * 1024;
/// Bytes that the library keeps for each of the most streams that a connection has had at once (measured: 390 KB for
/// 250 streams).
const KEPT_BYTES: usize = 1_600;
/// Streams whose kept bytes are part of what each connection may hold.
const KEPT_FREE: u32 = 40;
/// Calls that find no memory, less those that do, after which a connection ends.
const OVER_BUDGET_MAX: u32 = 64;
/// Bytes of a field in the map of a head, besides its text.
const FIELD_BYTES: usize = 112;
/// Streams of a connection that has not shown a key.
pub(crate) const STREAMS_WITHOUT_KEY_MAX: u32 = 8;
/// Refused streams after which such a connection ends.
pub(crate) const REFUSED_MAX: u32 = 16;
/// Streams that are being dropped after a reset, beside those that are open.
const DROPPING_MAX: u32 = 4 * STREAMS_MAX;
/// Probes of a connection at once that need no space in a budget.
const PROBES_MAX: u32 = 8;
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
    /// Open probes without space in a budget.
    probes: AtomicU32,
    refused: AtomicU32,
    /// Calls that found no memory, less those that did.
    over_budget: AtomicU32,
    kept: Mutex<Kept>,
    is_proxy: bool,
}

/// The memory of structures that the library keeps.
#[derive(Debug, Default)]
struct Kept {
    /// The most streams at once, beyond those that are free.
    streams: usize,
    reservations: Vec<Reservation>,
}

impl Streams {
    /// Creates it without streams. A proxy stands for many callers.
    pub(super) fn new(strangers: Budget, is_proxy: bool) -> Self {
        Self {
            strangers,
            caller: OnceLock::new(),
            open: AtomicU32::new(0),
            probes: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            over_budget: AtomicU32::new(0),
            kept: Mutex::default(),
            is_proxy,
        }
    }

    /// Reserves what the library keeps of this many streams at once, in the budget of the caller that has the last of
    /// them. Returns `false` without space.
    fn keep(&self, open: u32, budget: &Budget) -> bool {
        let open = open.saturating_sub(KEPT_FREE) as usize;
        if open == 0 {
            return true;
        }
        let mut kept = self.kept.lock();
        let more = open.saturating_sub(kept.streams);
        let reserved = budget.reserve_stream(more * KEPT_BYTES, 0);
        let has_space = reserved.is_some();
        if let Some(reservation) = reserved.filter(|_| more > 0) {
            kept.streams = open;
            kept.reservations.push(reservation);
        }
        has_space
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
    is_exempt: bool,
}

impl OpenStream {
    /// Exempts a probe from the budgets, unless there are too many of them.
    fn exempt(&mut self) -> bool {
        let probes = &self.connection.streams.probes;
        self.is_exempt = true;
        probes.fetch_add(1, Ordering::Relaxed) < PROBES_MAX
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let streams = &self.connection.streams;
        if self.is_exempt {
            streams.probes.fetch_sub(1, Ordering::Relaxed);
        }
        streams.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The reason why a stream is not admitted.
#[derive(Debug)]
pub(super) enum Refused {
    /// The caller has no valid key, and others without one use up their part.
    WithoutKey,
    /// The budget of the caller is full.
    OverBudget,
    /// This node cannot look at keys.
    KeysUnavailable(Box<Problem>),
}

impl Refused {
    /// Returns the response: a head alone.
    pub(super) fn response(self, is_grpc: bool) -> Response {
        let status = self.status();
        let problem = match self {
            Self::WithoutKey => without_key(),
            Self::OverBudget => over_budget(),
            Self::KeysUnavailable(problem) => *problem,
        };
        if is_grpc {
            return tonic::Status::from(problem).into_http();
        }
        let wait = problem.into_body().retry_after_ms.unwrap_or(0).div_ceil(1_000).max(1);
        (status, [(RETRY_AFTER, HeaderValue::from(wait))]).into_response()
    }

    const fn status(&self) -> StatusCode {
        match self {
            Self::WithoutKey | Self::OverBudget => StatusCode::TOO_MANY_REQUESTS,
            Self::KeysUnavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
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
        self.signals.note_stream();
        let streams = &self.streams;
        let head_bytes = head_bytes(request);
        let open = streams.open.fetch_add(1, Ordering::Relaxed) + 1;
        let mut stream = OpenStream {
            connection: self.clone(),
            reservation: streams.strangers.empty_reservation(),
            is_exempt: false,
        };
        if open > DROPPING_MAX {
            self.signals.request_at_once();
            return Err(self.refuse(Refused::OverBudget, app));
        }
        let mut admitted = |budget: &Budget| {
            let mut reserved = budget.reserve_stream(STREAM_BYTES, head_bytes)?;
            let head = reserved.split(head_bytes);
            // While the store opens, no caller is known who could have it in a budget.
            if app.is_some() && !streams.keep(open, budget) {
                return None;
            }
            let one_less = |count: u32| count.checked_sub(1);
            streams.over_budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).ok();
            stream.reservation = reserved;
            Some(head)
        };
        let look = || app.map(|app| app.caller_of(&self.peer, request.headers()));
        let (mut caller, mut head) = (None, None);
        let is_preflight = app.is_some_and(|app| Cors::of_preflight(&app.guard, request).is_some());
        if streams.is_proxy && !is_preflight {
            caller = look();
        } else if let (Some(known), Some(app)) = (streams.caller.get(), app)
            && known.check_still_valid(app.now()).is_ok()
        {
            caller = Some(Ok(known.clone()));
        }
        // While the store opens, no caller can show a key.
        let are_many = streams.is_proxy || app.is_none() || is_preflight;
        let are_few = open <= if are_many { STREAMS_MAX } else { STREAMS_WITHOUT_KEY_MAX };
        if !matches!(caller, Some(Ok(_))) {
            if are_few {
                head = admitted(&streams.strangers);
            }
            if head.is_none() && caller.is_none() && !is_preflight {
                caller = look();
            }
        }
        if let (None, Some(Ok(caller)), Some(app)) = (&head, &caller, app) {
            self.note_caller(caller);
            head = admitted(&app.budget_of(caller));
        }
        if let Some(head) = head {
            return Ok((stream, head));
        }
        let is_known = matches!(caller, Some(Ok(_)));
        if (is_known || are_few) && is_probe(request.uri().path()) && stream.exempt() {
            stream.reservation = streams.strangers.reserve_unchecked(STREAM_BYTES);
            return Ok((stream, streams.strangers.empty_reservation()));
        }
        drop(stream);
        Err(self.refuse(
            match caller {
                None | Some(Ok(_)) => Refused::OverBudget,
                Some(Err(problem)) if problem.code() == Code::Unauthenticated => {
                    Refused::WithoutKey
                }
                Some(Err(problem)) => Refused::KeysUnavailable(Box::new(problem)),
            },
            app,
        ))
    }

    /// Counts a refused stream, and ends a connection that goes on without a key.
    fn refuse(&self, refused: Refused, app: Option<&App>) -> Refused {
        if let Some(app) = app {
            app.routes().record(UNMATCHED, refused.status(), Duration::ZERO);
        }
        let streams = &self.streams;
        if matches!(refused, Refused::WithoutKey)
            && !streams.is_proxy
            && streams.refused.fetch_add(1, Ordering::Relaxed) >= REFUSED_MAX
        {
            tracing::debug!("connection closed: it has too many streams without a valid key");
            self.signals.request_at_once();
        }
        if matches!(refused, Refused::OverBudget)
            && !streams.is_proxy
            && streams.over_budget.fetch_add(1, Ordering::Relaxed) >= OVER_BUDGET_MAX
        {
            tracing::debug!("connection closed: too many of its calls found no memory");
            match streams.open.load(Ordering::Relaxed) {
                0 => self.signals.request_at_once(),
                // Its calls under way get their responses.
                _ => self.tenant_slot.refuse(),
            }
        }
        refused
    }
}

/// Returns the bytes that the head of a request holds.
fn head_bytes<B>(request: &Request<B>) -> usize {
    let headers: &HeaderMap = request.headers();
    let text: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let uri = request.uri();
    // Over HTTP/2 `:authority` is part of the target, in place of the field `host`.
    let authority = uri.authority().map_or(0, |it| it.as_str().len());
    let target = authority + uri.path().len() + uri.query().map_or(0, str::len);
    text + target + headers.capacity().max(headers.len()) * FIELD_BYTES
}

#[cfg(test)]
mod tests;
