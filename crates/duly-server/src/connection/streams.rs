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
        if streams.is_proxy {
            caller = look();
        } else if let (Some(known), Some(app)) = (streams.caller.get(), app)
            && known.check_still_valid(app.now()).is_ok()
        {
            caller = Some(Ok(known.clone()));
        }
        // While the store opens, no caller can show a key.
        let are_many = streams.is_proxy || app.is_none();
        let are_few = open <= if are_many { STREAMS_MAX } else { STREAMS_WITHOUT_KEY_MAX };
        if !matches!(caller, Some(Ok(_))) {
            if are_few && !app.is_some_and(|it| it.is_limited(&self.peer, request)) {
                head = admitted(&streams.strangers);
            }
            if head.is_none() && caller.is_none() {
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
mod tests {
    use duly_core::{
        Timestamp,
        access::{Actions, ApiKey, KeyId, NamespacePattern, PresentedKey},
    };
    use duly_store::AccessRecords;
    use http::header::AUTHORIZATION;

    use super::*;
    use crate::{
        auth::{Auth, Peer},
        connection::{ConnectionKind, WriteProgress},
        operations::{HEALTHZ, METRICS, READYZ},
        tests::{REQUEST_MEMORY, TestServer},
    };

    /// Returns a connection with a budget for strangers.
    fn connection(strangers: usize, is_proxy: bool) -> Connection {
        let strangers = (Budget::new(strangers), is_proxy);
        let progress = WriteProgress::new(Duration::from_secs(30));
        Connection::new((ConnectionKind::Main, Peer::default()), progress, None, strangers)
    }

    fn get(path: &str, key: Option<&PresentedKey>) -> Request<()> {
        let mut request = Request::get(path).body(()).expect("a path");
        if let Some(key) = key {
            let value = format!("Bearer {}", key.reveal()).parse().expect("a value");
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        request
    }

    fn key() -> PresentedKey {
        PresentedKey::new(KeyId::generate([1; 10]), [1; 32])
    }

    #[tokio::test]
    async fn p10_probes_of_known_callers_pass_a_full_budget() {
        let server = TestServer::start().await;
        let connection = connection(0, false);
        connection.note_caller(&Caller::Anyone);
        let _full = server.budget().reserve_unchecked(REQUEST_MEMORY);
        let admit = |path: &str| connection.admit(&get(path, None), Some(&server.app));
        assert!(matches!(admit("/v1/namespaces"), Err(Refused::OverBudget)));
        for path in [HEALTHZ, READYZ, METRICS, "/grpc.health.v1.Health/Check"] {
            assert!(admit(path).is_ok(), "{path}");
        }
        let open: Vec<_> = (0..PROBES_MAX).map(|_| admit(HEALTHZ).expect("free")).collect();
        assert!(admit(HEALTHZ).is_err(), "they are bounded");
        drop(open);
        assert!(admit(HEALTHZ).is_ok());
    }

    #[tokio::test]
    async fn p10_the_most_streams_of_a_connection_count_until_it_ends() {
        let server = TestServer::start().await;
        let connection = connection(0, false);
        connection.note_caller(&Caller::Anyone);
        let admit = || connection.admit(&get("/v1/namespaces", None), Some(&server.app));
        for _ in 0..2 {
            let open: Vec<_> = (0..KEPT_FREE + 10).map(|_| admit().expect("free")).collect();
            drop(open);
            assert_eq!(server.budget().used(), 10 * KEPT_BYTES);
        }
        drop(connection);
        assert!(server.uses_no_memory());
    }

    #[tokio::test]
    async fn p10_a_connection_whose_calls_find_no_memory_ends() {
        let server = TestServer::start().await;
        let connection = connection(0, false);
        connection.note_caller(&Caller::Anyone);
        let admit = || connection.admit(&get("/v1/namespaces", None), Some(&server.app));
        let refuse = |count: u32| {
            let _full = server.budget().reserve_unchecked(REQUEST_MEMORY);
            for _ in 0..count {
                assert!(matches!(admit(), Err(Refused::OverBudget)));
            }
        };
        for _ in 0..10 {
            refuse(8);
            (0..8).for_each(|_| drop(admit().expect("memory")));
        }
        // A call under way gets its response.
        let under_way = admit().expect("memory");
        refuse(OVER_BUDGET_MAX + 1);
        assert!(!connection.signals.stops_reading());
        let ends = connection.tenant_slot.refused();
        tokio::time::timeout(Duration::from_secs(10), ends).await.expect("it ends in order");
        drop(under_way);
        refuse(1);
        assert!(connection.signals.stops_reading(), "it ends at once");
    }

    #[tokio::test]
    async fn p10_keys_that_cannot_be_looked_at_are_no_refusal() {
        let auth = Auth::new(true, Some(&key()), false);
        let damage = Some("asked to by the test".to_owned());
        auth.use_records(AccessRecords { damage, ..AccessRecords::default() });
        let server = TestServer::start_with(auth).await;
        let connection = connection(0, false);
        for _ in 0..10 * REFUSED_MAX {
            let admitted =
                connection.admit(&get("/v1/namespaces", Some(&key())), Some(&server.app));
            let [refused, again] =
                [admitted, connection.admit(&get("/a", None), Some(&server.app))]
                    .map(|it| it.expect_err("no space"));
            let response = refused.response(false);
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()[RETRY_AFTER], "60");
            let response = again.response(true);
            assert_eq!(response.headers()["grpc-status"], "14", "{response:?}");
        }
        assert!(!connection.signals.stops_reading());
    }

    #[tokio::test]
    async fn callers_have_all_streams_while_the_store_opens() {
        let connection = connection(REQUEST_MEMORY, false);
        let admit = || connection.admit(&get("/v1/namespaces", None), None);
        let _open: Vec<_> = (0..STREAMS_MAX).map(|_| admit().expect("free")).collect();
        assert!(matches!(admit(), Err(Refused::OverBudget)));
    }

    #[tokio::test]
    async fn p10_each_stream_of_a_proxy_has_its_own_caller() {
        let server = TestServer::start_with(Auth::new(true, Some(&key()), false)).await;
        let proxy = connection(0, true);
        let admit = |key: Option<&PresentedKey>| {
            proxy.admit(&get("/v1/namespaces", key), Some(&server.app))
        };
        let _first = admit(Some(&key())).expect("a valid key");
        for _ in 0..10 * REFUSED_MAX {
            assert!(matches!(admit(None), Err(Refused::WithoutKey)));
        }
        assert!(!proxy.signals.stops_reading(), "others use it too");
        assert!(admit(Some(&key())).is_ok());
        // Its callers without a key share the budget of strangers.
        let proxy = connection(2 * STREAM_BYTES, true);
        let used = server.budget().used();
        let _open = proxy.admit(&get("/v1/namespaces", None), Some(&server.app)).expect("free");
        assert_eq!(server.budget().used(), used);
    }

    #[tokio::test]
    async fn p10_a_revoked_key_admits_no_streams() {
        let auth = Auth::new(true, Some(&key()), false);
        let server = TestServer::start_with(auth.clone()).await;
        let connection = connection(0, false);
        let admit = || connection.admit(&get("/v1/namespaces", Some(&key())), Some(&server.app));
        assert!(admit().is_ok() && admit().is_ok());
        // An administrator's key ends the root key.
        let admin = PresentedKey::new(KeyId::generate([2; 10]), [2; 32]);
        let rights = (Actions::all(), vec![NamespacePattern::all()]);
        let created = (Timestamp::MIN, String::new());
        let admin = ApiKey::new(&admin, "admin".to_owned(), rights, created);
        let keys = [(admin.id.clone(), admin)].into();
        auth.use_records(AccessRecords { version: 1, keys, ..AccessRecords::default() });
        for _ in 0..=REFUSED_MAX {
            assert!(matches!(admit(), Err(Refused::WithoutKey)));
        }
        assert!(connection.signals.stops_reading(), "it ends as any without a key");
    }

    #[test]
    fn p10_the_authority_of_a_request_counts() {
        let [short, long] = ["a", &"a".repeat(1_000)]
            .map(|host| head_bytes(&get(&format!("http://{host}/v1/namespaces"), None)));
        assert_eq!(long - short, 999);
    }
}
