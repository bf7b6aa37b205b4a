//! The checks of a call before its handler, and their order: every case over HTTP/1.1, HTTP/2 and gRPC, on a real
//! server. The results stand in `admission.txt`; with `DULY_REGENERATE=1` the test writes that file.
//!
//! [`states`] has the cases of servers that refuse more. States that no caller can make in a known time are in
//! `src/admission/tests.rs`.

mod preflights;
mod states;

use std::{fmt::Write as _, fs, net::SocketAddr, path::Path};

use bytes::{BufMut as _, Bytes, BytesMut};
use duly_api::v1;
use duly_core::access::{KeyId, PresentedKey};
use duly_server::Running;
use http::{HeaderMap, Method, Request, Response, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::attack;

/// The folder of the results.
const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");
const ORIGIN: &str = "https://console.example";
const FOREIGN: &str = "https://evil.example";
/// More settlements than a call may have.
const TOO_MANY: usize = 10_001;
/// A body that the server takes if nothing else is wrong.
const TIMER: &str = r#"{"id":"t","delay":"1h"}"#;

/// An operation, as both protocols name it.
struct Call {
    name: &'static str,
    method: Method,
    path: &'static str,
    body: &'static str,
    /// Path and message of gRPC, where it has the operation.
    grpc: Option<(&'static str, Vec<u8>)>,
}

impl Call {
    fn new(name: &'static str, call: &'static str, body: &'static str) -> Self {
        let (method, path) = call.split_once(' ').expect("a method and a path");
        let method = method.parse().expect("a method");
        Self { name, method, path, body, grpc: None }
    }

    fn and_grpc(self, path: &'static str, message: &impl Message) -> Self {
        Self { grpc: Some((path, message.encode_to_vec())), ..self }
    }
}

/// Returns a list whose state and view no message has.
fn list(
    name: &'static str,
    call: &'static str,
    namespace: &str,
    (state, view): (i32, i32),
) -> Call {
    let namespace = namespace.to_owned();
    let list = v1::ListRequest { namespace, state, view, ..v1::ListRequest::default() };
    Call::new(name, call, "").and_grpc("/duly.v1.Timers/List", &list)
}

/// Returns a time after the last one.
fn no_time() -> duly_api::Time {
    duly_api::Time::Unix(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 })
}

/// Returns one operation of each kind, and those that two rules refuse.
fn calls() -> Vec<Call> {
    let namespace = || "a".to_owned();
    let timer = v1::Schedule {
        id: Some("t".to_owned()),
        delay: Some(duly_api::Duration::from(duly_core::Millis::from_secs(3_600))),
        ..v1::Schedule::default()
    };
    let settlements = vec!["{}"; TOO_MANY].join(",");
    let settlements =
        format!(r#"{{"settlements":[{settlements}],"lease":{{"wait":"61s"}}}}"#).leak();
    vec![
        Call::new("list namespaces", "GET /v1/namespaces", "")
            .and_grpc("/duly.v1.Namespaces/List", &v1::ListNamespacesRequest::default()),
        Call::new("schedule", "POST /v1/namespaces/a/timers", TIMER).and_grpc(
            "/duly.v1.Timers/Schedule",
            &v1::ScheduleRequest { namespace: namespace(), schedule: Some(timer) },
        ),
        Call::new("get", "GET /v1/namespaces/a/timers/t", "").and_grpc(
            "/duly.v1.Timers/Get",
            &v1::GetRequest { namespace: namespace(), id: "t".to_owned() },
        ),
        Call::new("lease", "POST /v1/namespaces/a/lease", "{}").and_grpc(
            "/duly.v1.Timers/Lease",
            &v1::LeaseRequest { namespace: namespace(), ..v1::LeaseRequest::default() },
        ),
        Call::new("resume", "POST /v1/namespaces/a/resume", "").and_grpc(
            "/duly.v1.Namespaces/Resume",
            &v1::ResumeRequest { namespace: namespace(), ..v1::ResumeRequest::default() },
        ),
        // With two faults each: the namespace is of others, and a field is wrong.
        list("unknown state", "GET /v1/namespaces/a/timers?state=odd", "a", (99, 0)),
        list("unknown view", "GET /v1/namespaces/a/timers?view=odd", "a", (0, 99)),
        list(
            "unknown state and view",
            "GET /v1/namespaces/a/timers?state=odd&view=odd",
            "a",
            (99, 99),
        ),
        list(
            "elsewhere, unknown state",
            "GET /v1/namespaces/elsewhere/timers?state=odd",
            "elsewhere",
            (99, 0),
        ),
        list(
            "elsewhere, unknown view",
            "GET /v1/namespaces/elsewhere/timers?view=odd",
            "elsewhere",
            (0, 99),
        ),
        Call::new(
            "resume elsewhere, no time",
            "POST /v1/namespaces/elsewhere/resume",
            r#"{"at":"never"}"#,
        )
        .and_grpc(
            "/duly.v1.Namespaces/Resume",
            &v1::ResumeRequest { namespace: "elsewhere".to_owned(), at: Some(no_time()) },
        ),
        Call::new("settle too many, no lease", "POST /v1/namespaces/a/settle", settlements)
            .and_grpc(
                "/duly.v1.Timers/Settle",
                &v1::SettleRequest {
                    namespace: namespace(),
                    settlements: vec![v1::Settlement::default(); TOO_MANY],
                    lease: Some(v1::LeaseRequest {
                        wait: Some(duly_api::Duration::from(duly_core::Millis::from_secs(61))),
                        ..v1::LeaseRequest::default()
                    }),
                },
            ),
        Call::new("cluster", "GET /v1/cluster", "")
            .and_grpc("/duly.v1.Cluster/Get", &v1::GetClusterRequest {}),
        Call::new("who am I", "GET /v1/whoami", "")
            .and_grpc("/duly.v1.Cluster/Whoami", &v1::WhoamiRequest {}),
        Call::new("list keys", "GET /v1/keys", ""),
        Call::new("back up", "POST /v1/store/backup", r#"{"name":"b"}"#),
        Call::new("health", "GET /healthz", "").and_grpc(
            "/grpc.health.v1.Health/Check",
            &tonic_health::pb::HealthCheckRequest::default(),
        ),
        Call::new("metrics", "GET /metrics", ""),
        Call::new("contract", "GET /openapi.json", ""),
        Call::new("unknown path", "GET /v1/nowhere", "")
            .and_grpc("/duly.v1.Timers/Nowhere", &v1::GetClusterRequest {}),
    ]
}

/// Returns calls of a key with this id, and of one that is unknown.
fn calls_of_keys(id: &str) -> Vec<Call> {
    const RENAMED: &str = r#"{"name":"renamed"}"#;
    let known: &'static str = format!("GET /v1/keys/{id}").leak();
    let renamed: &'static str = format!("PATCH /v1/keys/{id}").leak();
    let deleted: &'static str = format!("DELETE /v1/keys/{id}").leak();
    let rotated: &'static str = format!("POST /v1/keys/{id}/rotate").leak();
    vec![
        Call::new("get key", known, ""),
        Call::new("get unknown key", "GET /v1/keys/0000000000", ""),
        Call::new("rename key", renamed, RENAMED),
        Call::new("rename unknown key", "PATCH /v1/keys/0000000000", RENAMED),
        Call::new("rotate key", rotated, ""),
        Call::new("rotate unknown key", "POST /v1/keys/0000000000/rotate", ""),
        Call::new("delete key", deleted, ""),
        Call::new("delete unknown key", "DELETE /v1/keys/0000000000", ""),
    ]
}

/// A server, and keys of callers.
struct Server {
    address: SocketAddr,
    keys: Vec<(&'static str, Option<String>)>,
    root: String,
}

impl Server {
    /// Starts a server with an administrator and the namespace `a`, which has a timer.
    async fn start(directory: &Path, settings: &[(&str, &str)]) -> (Running, Self) {
        Self::start_with(directory, "100000", settings).await
    }

    /// Starts it with this many failures a second of an address.
    async fn start_with(
        directory: &Path,
        failures: &str,
        settings: &[(&str, &str)],
    ) -> (Running, Self) {
        let root = PresentedKey::new(KeyId::generate([1; 10]), [1; 32]).reveal();
        let file = directory.join("root");
        fs::write(&file, &root).unwrap();
        let keyed = [
            ("DULY_AUTH__MODE", "keys"),
            ("DULY_AUTH__ROOT_KEY_FILE", file.to_str().unwrap()),
            ("DULY_AUTH__FAILURES_PER_SECOND", failures),
        ];
        let settings = [&keyed[..], settings].concat();
        let running = attack::serve(&directory.join("data"), &settings).await;
        let keys = vec![("no key", None), ("bad key", Some("none".to_owned()))];
        let mut server = Self { address: running.addr(), keys, root };
        server.add_key("admin", "admin", "*").await;
        // Now that there is a key for an administrator, the root key is none any more.
        server.root = server.keys.last().and_then(|(_, secret)| secret.clone()).unwrap();
        server.set_up("PUT /v1/namespaces/a", &json!({})).await;
        server.set_up("POST /v1/namespaces/a/timers", &serde_json::from_str(TIMER).unwrap()).await;
        server.add_key("viewer", "viewer", "*").await;
        (running, server)
    }

    async fn http(&self, version: Version, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let io = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        if version == Version::HTTP_11 {
            let (mut sender, connection) = http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            return sender.send_request(request).await.unwrap();
        }
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    /// Makes a call as an administrator.
    async fn set_up(&self, call: &str, body: &Value) -> Value {
        let (method, path) = call.split_once(' ').unwrap();
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .header("host", self.address.to_string())
            .header("authorization", format!("Bearer {}", self.root))
            .header("content-type", "application/json")
            .body(Full::from(body.to_string()))
            .unwrap();
        let response = self.http(Version::HTTP_11, request).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        assert!(status.is_success(), "{call}: {}", String::from_utf8_lossy(&bytes));
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    async fn add_key(&mut self, name: &'static str, action: &str, namespaces: &str) -> Value {
        let key = json!({ "name": name, "actions": [action], "namespaces": [namespaces] });
        let made = self.set_up("POST /v1/keys", &key).await;
        self.keys.push((name, made["secret"].as_str().map(str::to_owned)));
        made["key"]["id"].clone()
    }

    /// Returns the result of a call over HTTP: the status, with the code of a problem.
    async fn http_result(
        &self,
        version: Version,
        call: &Call,
        key: Option<&str>,
        extra: Extra,
    ) -> String {
        let address = self.address;
        let method = extra.method.map_or(call.method.clone(), |it| it.parse().unwrap());
        let query = extra.query;
        let mut request = Request::builder().method(method).uri(match version {
            Version::HTTP_11 => format!("{}{query}", call.path),
            _ => format!("http://{address}{}{query}", call.path),
        });
        if version == Version::HTTP_11 && !extra.has("host") {
            request = request.header("host", address.to_string());
        }
        if !call.body.is_empty() && !extra.has("content-type") {
            request = request.header("content-type", "application/json");
        }
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in extra.headers {
            request = request.header(*name, *value);
        }
        let response = self.http(version, request.body(Full::from(call.body)).unwrap()).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let problem: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        match problem["code"].as_str() {
            Some(code) if !status.is_success() => format!("{} {code}", status.as_u16()),
            _ => status.as_u16().to_string(),
        }
    }

    /// Returns the result of a call over gRPC: the name of its status.
    async fn grpc_result(&self, call: &Call, key: Option<&str>, extra: Extra) -> String {
        let Some((path, message)) = &call.grpc else { return "-".to_owned() };
        if extra.method.is_some() || !extra.query.is_empty() {
            return "-".to_owned();
        }
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(u32::try_from(message.len()).unwrap());
        frame.extend_from_slice(message);
        let mut request = Request::post(format!("http://{}{path}", self.address))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in extra.headers.iter().filter(|(name, _)| *name != "content-type") {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(frame.freeze())).unwrap();
        let response = self.http(Version::HTTP_2, request).await;
        let status = response.status();
        let headers = response.headers().clone();
        let trailers = response.into_body().collect().await.unwrap().trailers().cloned();
        let of = |map: &HeaderMap| map.get("grpc-status")?.to_str().ok()?.parse().ok();
        match of(&headers).or_else(|| of(&trailers?)) {
            Some(code) => format!("{:?}", tonic::Code::from_i32(code)),
            None => format!("{} without a status of gRPC", status.as_u16()),
        }
    }
}

/// The peculiarity of a request.
#[derive(Debug, Clone, Copy, Default)]
struct Extra {
    name: &'static str,
    method: Option<&'static str>,
    query: &'static str,
    headers: &'static [(&'static str, &'static str)],
}

impl Extra {
    fn has(self, name: &str) -> bool {
        self.headers.iter().any(|(header, _)| *header == name)
    }
}

const PLAIN: Extra = Extra { name: "", method: None, query: "", headers: &[] };

/// Returns the peculiar requests.
fn extras() -> Vec<Extra> {
    let preflight: &[_] = &[("origin", ORIGIN), ("access-control-request-method", "GET")];
    let foreign_preflight: &[_] = &[("origin", FOREIGN), ("access-control-request-method", "GET")];
    vec![
        Extra { name: "allowed origin", headers: &[("origin", ORIGIN)], ..PLAIN },
        Extra { name: "foreign origin", headers: &[("origin", FOREIGN)], ..PLAIN },
        Extra { name: "origin null", headers: &[("origin", "null")], ..PLAIN },
        Extra { name: "foreign host", headers: &[("host", "evil.example")], ..PLAIN },
        Extra { name: "preflight", method: Some("OPTIONS"), headers: preflight, ..PLAIN },
        Extra {
            name: "foreign preflight",
            method: Some("OPTIONS"),
            headers: foreign_preflight,
            ..PLAIN
        },
        Extra { name: "OPTIONS", method: Some("OPTIONS"), ..PLAIN },
        Extra { name: "HEAD", method: Some("HEAD"), ..PLAIN },
        Extra { name: "wrong method", method: Some("DELETE"), ..PLAIN },
        Extra { name: "unknown method", method: Some("BREW"), ..PLAIN },
        Extra { name: "unknown query", query: "?colour=red", ..PLAIN },
        Extra { name: "coded body", headers: &[("content-encoding", "gzip")], ..PLAIN },
        Extra { name: "no JSON", headers: &[("content-type", "text/plain")], ..PLAIN },
        Extra {
            name: "coded body, unknown query",
            query: "?colour=red",
            headers: &[("content-encoding", "gzip")],
            ..PLAIN
        },
        Extra {
            name: "foreign origin, coded body, unknown query",
            query: "?colour=red",
            headers: &[("content-encoding", "gzip"), ("origin", FOREIGN)],
            ..PLAIN
        },
        Extra {
            name: "wrong method, unknown query",
            method: Some("DELETE"),
            query: "?colour=red",
            ..PLAIN
        },
        Extra { name: "two keys", headers: &[("authorization", "Bearer x")], ..PLAIN },
        Extra { name: "time limit of no form", headers: &[("grpc-timeout", "soon")], ..PLAIN },
    ]
}

#[tokio::test]
async fn every_front_checks_the_same_in_the_same_order() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("DULY_SERVER__ALLOWED_ORIGINS", ORIGIN)];
    let (running, mut server) = Server::start(directory.path(), &settings).await;
    server.add_key("producer", "producer", "a*").await;
    server.add_key("consumer", "consumer", "a").await;
    server.add_key("operator", "operate", "a").await;
    server.add_key("producer elsewhere", "producer", "b*").await;
    let id = server.add_key("disabled", "admin", "*").await;
    let id = id.as_str().unwrap();
    server.set_up(&format!("PATCH /v1/keys/{id}"), &json!({ "disabled": true })).await;
    let mut table = String::from("key | call | peculiarity | HTTP/1.1 | HTTP/2 | gRPC\n");
    server.add_key("keeper", "keys", "a").await;
    let (calls, peculiar) = (calls(), extras());
    let of_keys = calls_of_keys(id);
    let mut cases = Vec::new();
    for (key, secret) in &server.keys {
        for call in &calls {
            cases.push((*key, secret.as_deref(), call, PLAIN));
        }
    }
    for (key, secret) in server.keys.iter().filter(|(key, _)| ["admin", "keeper"].contains(key)) {
        // The key stays for the next call.
        let calls = of_keys.iter().filter(|it| *key != "admin" || it.name != "delete key");
        cases.extend(calls.map(|call| (*key, secret.as_deref(), call, PLAIN)));
    }
    let few = ["no key", "bad key", "admin"];
    for (key, secret) in server.keys.iter().filter(|(key, _)| few.contains(key)) {
        for call in
            calls.iter().filter(|it| ["schedule", "health", "unknown path"].contains(&it.name))
        {
            cases.extend(peculiar.iter().map(|extra| (*key, secret.as_deref(), call, *extra)));
        }
    }
    let mut count = 0;
    for (key, secret, call, extra) in cases {
        count += 1;
        let first = server.http_result(Version::HTTP_11, call, secret, extra).await;
        let second = server.http_result(Version::HTTP_2, call, secret, extra).await;
        let grpc = server.grpc_result(call, secret, extra).await;
        writeln!(table, "{key} | {} | {} | {first} | {second} | {grpc}", call.name, extra.name)
            .unwrap();
    }
    assert!(count >= 60, "{count} cases");
    running.stop().await.unwrap();
    compare(&table, "admission.txt");
}

/// Compares a table with the one of this file, or writes the file.
fn compare(table: &str, file: &str) {
    let path = Path::new(RESULTS).join(file);
    if std::env::var_os("DULY_REGENERATE").is_some() {
        fs::write(&path, table).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    for (number, (is, was)) in table.lines().zip(expected.lines()).enumerate() {
        assert_eq!(is, was, "line {} of {file}", number + 1);
    }
    assert_eq!(table.lines().count(), expected.lines().count(), "cases of {file}");
}
