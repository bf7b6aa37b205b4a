//! The order of the checks in states of the server that calls cannot set up in a known time: full memory, a tenant
//! at its limits, an audit log that cannot be written, a stop.
//!
//! Each state has a server of its own, and every case runs over HTTP, in process and on a connection of HTTP/2, and
//! over gRPC on such a connection. The results stand in `states.txt`;
//! with `DULY_REGENERATE=1` the test writes that file. `tests/it/admission.rs` has the cases of a usual server.

use std::{any::Any, collections::HashMap, fmt::Write as _, fs, time::Duration};

use axum::{Router, body::Body};
use bytes::{BufMut as _, BytesMut};
use duly_api::v1;
use duly_core::{
    Timestamp,
    access::{Actions, PresentedKey, Role, TenantLimit, TenantLimits},
};
use duly_store::{AccessChange, ChangeOrigin};
use http::{HeaderMap, Method, Request, Response, header::HOST};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, client::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use indexmap::IndexMap;
use prost::Message;
use serde_json::Value;
use tokio::sync::watch;
use tonic_types::StatusExt as _;
use tower::ServiceExt as _;

use super::trace_parent;
use crate::{
    audit::{self, Audit},
    auth::{
        Auth, Peer,
        tests::{key, presented, records},
    },
    connection::{Connection, ConnectionKind, WriteProgress},
    grpc, http as front,
    memory::budget::Budget,
    service::{App, StartupProgress, StartupState},
    telemetry::Metrics,
    tenants::{CallGroup, ConnectionSlot, tests::tenant},
    tests::{ALLOWED_ORIGIN, REQUEST_MEMORY, TestServer},
};

const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/admission/states.txt");
const TIMER: &str = r#"{"id":"s","delay":"1h"}"#;
const TENANT_MEMORY: u64 = 1 << 20;
/// Parts of the detail of a problem, each with the rule that it tells of. The first that fits counts.
const RULES: [(&str, &str); 9] = [
    ("the server is starting", "startup"),
    ("server.request_memory_max", "memory"),
    ("max_request_bytes", "memory of tenant"),
    ("max_connections", "connections of tenant"),
    ("call_per_second", "calls of tenant"),
    ("audit log", "audit"),
    ("content-encoding", "coding"),
    ("colour", "form"),
    ("grpc-timeout", "form"),
];

/// A property of the server that refuses calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    TenantCalls,
    TenantConnections,
    TenantMemory,
    Memory,
    ProbeMemory,
    Audit,
    Stopping,
    Recovering,
}

use Fault::*;

/// The states, with the listener of their calls.
const STATES: [(&str, ConnectionKind, &[Fault]); 21] = [
    ("usual", ConnectionKind::Main, &[]),
    ("tenant calls", ConnectionKind::Main, &[TenantCalls]),
    ("tenant connections", ConnectionKind::Main, &[TenantConnections]),
    ("tenant calls and connections", ConnectionKind::Main, &[TenantCalls, TenantConnections]),
    ("tenant memory", ConnectionKind::Main, &[TenantMemory]),
    ("memory", ConnectionKind::Main, &[Memory]),
    ("tenant memory, memory", ConnectionKind::Main, &[TenantMemory, Memory]),
    ("probe memory", ConnectionKind::Main, &[ProbeMemory]),
    ("audit", ConnectionKind::Main, &[Audit]),
    ("audit, tenant calls", ConnectionKind::Main, &[Audit, TenantCalls]),
    ("audit, tenant connections", ConnectionKind::Main, &[Audit, TenantConnections]),
    ("audit, memory", ConnectionKind::Main, &[Audit, Memory]),
    ("tenant calls, memory", ConnectionKind::Main, &[TenantCalls, Memory]),
    ("audit, tenant calls, memory", ConnectionKind::Main, &[Audit, TenantCalls, Memory]),
    ("stopping", ConnectionKind::Main, &[Stopping]),
    ("recovering", ConnectionKind::Main, &[Recovering]),
    ("reserve", ConnectionKind::Reserve, &[]),
    ("reserve, every fault", ConnectionKind::Reserve, &[Audit, TenantCalls, Memory, ProbeMemory]),
    ("admin listener", ConnectionKind::Admin, &[]),
    ("admin listener, every fault", ConnectionKind::Admin, &[Audit, Memory, ProbeMemory]),
    ("admin listener, recovering", ConnectionKind::Admin, &[Recovering]),
];

/// A server in a state, with the routers of its calls.
struct Server {
    kind: ConnectionKind,
    http: Router,
    /// `None`: the listener has no gRPC.
    grpc: Option<Router>,
    /// Memory and connections that are in use.
    _held: Vec<Box<dyn Any>>,
}

impl Server {
    async fn start(kind: ConnectionKind, faults: &[Fault]) -> Self {
        let has = |fault| faults.contains(&fault);
        let limits = [
            (TenantCalls, TenantLimit::CallPerSecond, 1),
            (TenantConnections, TenantLimit::MaxConnections, 1),
            (TenantMemory, TenantLimit::MaxRequestBytes, TENANT_MEMORY),
        ];
        let limits = limits.into_iter().filter(|(fault, ..)| has(*fault));
        let limits = limits.fold(TenantLimits::default(), |limits, (_, limit, value)| {
            limits.with(limit, Some(value))
        });
        let keys = [
            key(1, Actions::all(), &["*"]),
            key(2, Role::Producer.actions(), &["a"]),
            key(3, Role::Viewer.actions(), &["a"]),
            key(4, Role::Viewer.actions(), &["*"]),
        ];
        let put = AccessChange::PutTenant(Box::new(tenant("acme", &["a"], limits)));
        let auth = Auth::new(true, None, true).failures_per_second(1_000_000);
        auth.use_records(
            records(keys).changed(put, ChangeOrigin::Offline, Timestamp::MIN).unwrap(),
        );
        let full = audit::tests::FullFile::open();
        let audit = |store: &_| match has(Audit) {
            true => self::Audit::start(full.required(), std::sync::Arc::clone(store)).unwrap(),
            false => self::Audit::off(),
        };
        let server = TestServer::start_audited(auth, audit).await;
        server.due(1).await;
        let app = server.app;
        if has(Audit) {
            audit::tests::until_unwritable(&app, &presented(1)).await;
        }
        let mut held: Vec<Box<dyn Any>> = vec![Box::new(server.claims)];
        let tenants = app.auth.tenants();
        let state = tenants.of_key(&presented(2).id).unwrap();
        if has(TenantCalls) {
            for group in [CallGroup::Operations, CallGroup::Others] {
                state.admit_call(group, app.clock.boot()).unwrap();
            }
        }
        if has(TenantConnections) {
            let slot = ConnectionSlot::default();
            slot.admit(state).unwrap();
            held.push(Box::new(slot));
        }
        if has(TenantMemory) {
            let part = state.budget(&app.budget_of(&crate::auth::Caller::Anyone)).unwrap();
            held.push(Box::new(part.reserve_unchecked(part.bytes_max())));
        }
        if has(Memory) {
            let all = app.budget_of(&crate::auth::Caller::Anyone);
            held.push(Box::new(all.reserve_unchecked(REQUEST_MEMORY)));
        }
        if has(ProbeMemory) {
            for budget in [app.probes(), app.health()] {
                held.push(Box::new(budget.reserve_unchecked(budget.bytes_max())));
            }
        }
        if has(Stopping) {
            app.stop();
        }
        let (http, grpc) = if has(Recovering) { starting(&app, kind) } else { open(&app, kind) };
        let grpc = Some(grpc).filter(|_| kind == ConnectionKind::Main);
        Self { kind, http, grpc, _held: held }
    }
}

fn open(app: &App, kind: ConnectionKind) -> (Router, Router) {
    let http = match kind {
        ConnectionKind::Main | ConnectionKind::Reserve => front::router(app.clone()),
        ConnectionKind::Admin => front::admin_router(app.clone()),
    };
    (http, grpc::router(app.clone()))
}

fn starting(app: &App, kind: ConnectionKind) -> (Router, Router) {
    let startup = StartupState {
        guard: app.guard.clone(),
        progress: watch::channel(StartupProgress { sentence: String::new(), progress: None }).1,
        metrics: Metrics::install(),
        is_guarded: true,
    };
    let http = match kind {
        ConnectionKind::Main | ConnectionKind::Reserve => front::startup_router(startup.clone()),
        ConnectionKind::Admin => front::startup_admin_router(startup.clone()),
    };
    (http, grpc::startup_router(startup))
}

/// An operation, as both protocols name it.
struct Call {
    name: &'static str,
    http: (Method, &'static str, &'static str),
    /// Path and message of gRPC, where it has the operation.
    grpc: Option<(&'static str, Vec<u8>)>,
}

fn calls() -> Vec<Call> {
    let schedule = v1::Schedule {
        id: Some("s".to_owned()),
        delay: Some(duly_api::Duration::from(duly_core::Millis::from_secs(3_600))),
        ..v1::Schedule::default()
    };
    let schedule = v1::ScheduleRequest { namespace: "a".to_owned(), schedule: Some(schedule) };
    let get = v1::GetRequest { namespace: "a".to_owned(), id: "t0".to_owned() };
    let resume = v1::ResumeRequest { namespace: "a".to_owned(), ..v1::ResumeRequest::default() };
    let health = tonic_health::pb::HealthCheckRequest::default().encode_to_vec();
    let call = |name, http, grpc| Call { name, http, grpc };
    vec![
        call(
            "schedule",
            (Method::POST, "/v1/namespaces/a/timers", TIMER),
            Some(("/duly.v1.Timers/Schedule", schedule.encode_to_vec())),
        ),
        call(
            "get",
            (Method::GET, "/v1/namespaces/a/timers/t0", ""),
            Some(("/duly.v1.Timers/Get", get.encode_to_vec())),
        ),
        // A change without a body: nothing but its response needs memory.
        call(
            "resume",
            (Method::POST, "/v1/namespaces/a/resume", ""),
            Some(("/duly.v1.Namespaces/Resume", resume.encode_to_vec())),
        ),
        call(
            "health",
            (Method::GET, "/healthz", ""),
            Some(("/grpc.health.v1.Health/Check", health)),
        ),
        call("readiness", (Method::GET, "/readyz", ""), None),
        call("metrics", (Method::GET, "/metrics", ""), None),
        call("who am I", (Method::GET, "/v1/whoami", ""), None),
        call("wrong method", (Method::POST, "/healthz", ""), None),
        call(
            "unknown path",
            (Method::GET, "/v1/nowhere", ""),
            Some(("/duly.v1.Timers/Nowhere", Vec::new())),
        ),
    ]
}

/// The peculiarity of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Extra {
    name: &'static str,
    headers: &'static [(&'static str, &'static str)],
    /// `true`: a browser asks before the call.
    is_preflight: bool,
    is_coded: bool,
    /// `true`: the front refuses the head, for an unknown query or a time limit.
    is_misformed: bool,
}

/// Returns the peculiar requests; the first has none.
fn extras() -> Vec<Extra> {
    let plain = Extra::default();
    let origin = &[("origin", "https://evil.example")];
    let preflight = &[("origin", ALLOWED_ORIGIN), ("access-control-request-method", "POST")];
    vec![
        plain,
        Extra { name: "coded", is_coded: true, ..plain },
        Extra { name: "bad form", is_misformed: true, ..plain },
        Extra { name: "coded, bad form", is_coded: true, is_misformed: true, ..plain },
        Extra { name: "foreign origin", headers: origin, ..plain },
        Extra { name: "preflight", headers: preflight, is_preflight: true, ..plain },
        Extra { name: "own delivery", headers: &[("duly-loop", "1")], ..plain },
        Extra {
            name: "foreign origin, coded, bad form",
            headers: origin,
            is_coded: true,
            is_misformed: true,
            ..plain
        },
    ]
}

impl Server {
    fn request(
        &self,
        call: &Call,
        is_grpc: bool,
        key: Option<&str>,
        extra: Extra,
    ) -> Request<Body> {
        let mut request = Request::builder().header(HOST, "localhost");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in extra.headers {
            request = request.header(*name, *value);
        }
        if extra.is_coded {
            request = request.header("content-encoding", "gzip");
        }
        if is_grpc {
            let (path, message) = call.grpc.as_ref().unwrap();
            let mut frame = BytesMut::new();
            frame.put_u8(0);
            frame.put_u32(u32::try_from(message.len()).unwrap());
            frame.extend_from_slice(message);
            request = request.method(Method::POST).uri(format!("http://localhost{path}"));
            request = request.header("content-type", "application/grpc").header("te", "trailers");
            if extra.is_misformed {
                request = request.header("grpc-timeout", "soon");
            }
            return request.body(frame.freeze().into()).unwrap();
        }
        let (method, path, body) = &call.http;
        let query = if extra.is_misformed { "?colour=red" } else { "" };
        let method = if extra.is_preflight { &Method::OPTIONS } else { method };
        request = request.method(method.clone()).uri(format!("http://localhost{path}{query}"));
        request.header("content-type", "application/json").body(Body::from(*body)).unwrap()
    }

    /// Returns the connection of a call.
    fn connection(&self) -> Connection {
        let progress = WriteProgress::new(Duration::from_secs(30));
        let caller = (self.kind, Peer::default());
        Connection::new(caller, progress, None, (Budget::new(0), false))
    }

    /// Makes a call on a connection of HTTP/2.
    async fn over_http2(&self, router: &Router, mut request: Request<Body>) -> Response<Incoming> {
        // `:authority` has the host.
        request.headers_mut().remove(HOST);
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (router, connection) = (router.clone(), self.connection());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(connection.clone());
            router.clone().oneshot(request.map(Body::new))
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(server.serve_connection(TokioIo::new(far), service));
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(near));
        let (mut sender, client) = handshake.await.unwrap();
        tokio::spawn(client);
        sender.send_request(request).await.unwrap()
    }

    async fn http_result(&self, call: &Call, key: Option<&str>, extra: Extra) -> String {
        let request = || self.request(call, false, key, extra);
        let mut first = request();
        first.extensions_mut().insert(self.connection());
        let first = http_result(self.http.clone().oneshot(first).await.unwrap()).await;
        let second = http_result(self.over_http2(&self.http, request()).await).await;
        assert_eq!(first, second, "{}, {} over HTTP/2", call.name, extra.name);
        first
    }

    async fn grpc_result(&self, call: &Call, key: Option<&str>, extra: Extra) -> String {
        let (Some(router), Some(_), false) = (&self.grpc, &call.grpc, extra.is_preflight) else {
            return "-".to_owned();
        };
        let request = self.request(call, true, key, extra);
        let (head, body) = self.over_http2(router, request).await.into_parts();
        let trailers = body.collect().await.unwrap().trailers().cloned().unwrap_or_default();
        let of = tonic::Status::from_header_map;
        let status = of(&head.headers).or_else(|| of(&trailers)).unwrap();
        match status.get_error_details().error_info() {
            Some(info) => refusal(&info.metadata["code"], status.message()),
            None => {
                assert_eq!(status.code(), tonic::Code::Ok, "{status:?}");
                "served".to_owned()
            }
        }
    }
}

/// Returns the result of a call over HTTP.
async fn http_result<B>(response: Response<B>) -> String
where
    B: hyper::body::Body,
    B::Error: std::fmt::Debug,
{
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    match (body["code"].as_str(), status.is_success()) {
        (_, true) => "served".to_owned(),
        (Some(code), false) => refusal(code, body["detail"].as_str().unwrap()),
        // Health and readiness respond with their own body.
        (None, false) => format!("{}: {}", status.as_u16(), body["status"]),
    }
}

/// Returns the code of a refusal with the rule that its detail tells of.
fn refusal(code: &str, detail: &str) -> String {
    match RULES.iter().find(|(part, _)| detail.contains(part)) {
        Some((_, rule)) => format!("{code} ({rule})"),
        None => code.to_owned(),
    }
}

/// Returns `true` for the differences between the fronts, none of them in the order of rules.
fn is_known_difference(http: &str, grpc: &str, call: &Call) -> bool {
    // The protocols name it differently.
    let is_unknown_path =
        call.name == "unknown path" && (http, grpc) == ("not_found", "method_not_allowed");
    // Over HTTP the refusal of a call that changes nothing is a body, which counts as its response. Over gRPC it is a head alone.
    let has_no_space = !["schedule", "resume"].contains(&call.name)
        && http.starts_with("resource_exhausted (memory");
    // While the store opens, the service of gRPC refuses its health check too.
    let is_starting = call.name == "health" && (http, grpc) == ("served", "unavailable (startup)");
    is_unknown_path || has_no_space || is_starting
}

#[tokio::test(flavor = "multi_thread")]
async fn every_state_refuses_by_the_same_order_of_rules() {
    let secret = |digit| Some(PresentedKey::reveal(&presented(digit)));
    let callers = [
        ("no key", None),
        ("bad key", Some("none".to_owned())),
        ("viewer", secret(4)),
        ("admin", secret(1)),
        ("viewer of tenant", secret(3)),
        ("producer of tenant", secret(2)),
    ];
    let mut cases = Vec::new();
    let (calls, extras) = (calls(), extras());
    for call in &calls {
        let count = if ["schedule", "get"].contains(&call.name) { extras.len() } else { 1 };
        cases.extend(extras[..count].iter().map(|extra| (call, *extra)));
    }
    let mut usual = HashMap::new();
    let mut table = String::from(
        "state | call | peculiarity | HTTP | gRPC | keys (those with the result of the usual state have no line)\n",
    );
    for (name, kind, faults) in STATES {
        let server = Server::start(kind, faults).await;
        let lines_before = table.lines().count();
        for (call, extra) in &cases {
            // The callers of each result.
            let mut results: IndexMap<_, Vec<_>> = IndexMap::new();
            for (caller, secret) in &callers {
                let http = server.http_result(call, secret.as_deref(), *extra).await;
                let grpc = server.grpc_result(call, secret.as_deref(), *extra).await;
                assert!(
                    http == grpc || grpc == "-" || is_known_difference(&http, &grpc, call),
                    "{name}, {caller}, {}, {}: {http} over HTTP, {grpc} over gRPC",
                    call.name,
                    extra.name,
                );
                let (place, result) = ((*caller, call.name, extra.name), (http, grpc));
                let is_usual = usual.get(&place).is_some_and(|(http, grpc)| {
                    *http == result.0 && (*grpc == result.1 || server.grpc.is_none())
                });
                if !is_usual {
                    results.entry(result.clone()).or_default().push(*caller);
                }
                usual.entry(place).or_insert(result);
            }
            for ((http, grpc), of) in results {
                let of = if of.len() == callers.len() { "all".to_owned() } else { of.join(", ") };
                let (call, extra) = (call.name, extra.name);
                writeln!(table, "{name} | {call} | {extra} | {http} | {grpc} | {of}").unwrap();
            }
        }
        if table.lines().count() == lines_before {
            writeln!(table, "{name} | every case as in the usual state").unwrap();
        }
    }
    if std::env::var_os("DULY_REGENERATE").is_some() {
        fs::write(RESULTS, &table).unwrap();
    }
    let expected = fs::read_to_string(RESULTS).unwrap_or_default();
    for (number, (is, was)) in table.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, was, "line {} of states.txt", number + 1);
    }
    assert_eq!(table.lines().count(), expected.lines().count(), "cases of states.txt");
}

#[test]
fn only_a_proper_trace_context_travels() {
    let check = |text: &str, kept: bool| {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", text.parse().unwrap());
        assert_eq!(trace_parent(&headers).is_some(), kept, "{text}");
    };
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    check(&format!("00-{trace}-{span}-01"), true);
    check(&format!("ff-{trace}-{span}-01"), false);
    check(&format!("00-{}-{span}-01", "0".repeat(32)), false);
    check(&format!("00-{}-{span}-01", trace.to_uppercase()), false);
    check("00-1-2-3", false);
    check("", false);
}
