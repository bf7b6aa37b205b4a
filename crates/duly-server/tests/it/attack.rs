//! A server on a port, and hostile clients: silent, slow, many, or gone.

mod frames;
mod idle;
mod memory;
mod probes;
mod strangers;
mod tls;

use std::{collections::VecDeque, net::SocketAddr, path::Path, time::Duration};

use bytes::Bytes;
use duly_server::{
    Running,
    config::{Flag, Source, load},
    start,
};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::{JoinHandle, yield_now},
    time::{sleep, timeout},
};

/// Far more than any step of these tests takes; reached only by a fault.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn serve(directory: &Path, settings: &[(&str, &str)]) -> Running {
    let flag = |flag: &str, key, value: &str| Flag { flag: flag.into(), key, value: value.into() };
    let flags = vec![
        flag("--data", "store.data", directory.to_str().unwrap()),
        flag("--listen", "server.listen", "127.0.0.1:0"),
    ];
    let small = [
        ("DULY_STORE__MIN_FREE_BYTES", "0"),
        ("DULY_STORE__MIN_FREE_PERCENT", "0"),
        ("DULY_STORE__SEGMENT_BYTES", "1MiB"),
    ];
    let small = small.iter().filter(|(name, _)| settings.iter().all(|(other, _)| other != name));
    let env = small.chain(settings).map(|(name, value)| ((*name).into(), (*value).into()));
    start(load(&Source { file: None, env: env.collect(), flags }).unwrap()).await.unwrap()
}

fn head(address: SocketAddr, call: &str, length: usize) -> String {
    format!(
        "{call} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// Connects, sends this text, and reads until the server closes.
async fn say(address: SocketAddr, words: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A refused body is not read to its end; its response arrives nevertheless.
    stream.write_all(words.as_bytes()).await.ok();
    to_the_end(&mut stream).await
}

async fn to_the_end(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A reset is an end, too.
    let read = timeout(PATIENCE, stream.read_to_end(&mut text)).await;
    read.expect("the server closes the connection").ok();
    String::from_utf8_lossy(&text).into_owned()
}

async fn call(address: SocketAddr, call: &str, body: &str) -> (u16, Value) {
    let answer = say(address, &format!("{}{body}", head(address, call, body.len()))).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or_default())
}

async fn h2(address: SocketAddr) -> (SendRequest<Full<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn post(address: SocketAddr, path: &str, body: &str) -> http::Request<Full<Bytes>> {
    http::Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/json")
        .body(Full::from(body.to_owned()))
        .unwrap()
}

/// Returns a connection with a call under way, whose body does not come.
async fn busy(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let words = head(address, "POST /v1/namespaces/a/timers", 10);
    let words = words.replace("connection: close", "expect: 100-continue");
    stream.write_all(words.as_bytes()).await.unwrap();
    let mut begun = [0; 25];
    timeout(PATIENCE, stream.read_exact(&mut begun)).await.unwrap().unwrap();
    assert_eq!(begun, *b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}

/// Waits until this number of lease calls wait.
async fn waiters(running: &Running, count: usize) {
    let waited = timeout(PATIENCE, async {
        while running.waiting() != count {
            yield_now().await;
        }
    });
    let waited = waited.await;
    assert!(waited.is_ok(), "{} calls wait, not {count}", running.waiting());
}

#[tokio::test]
async fn p10_silent_and_slow_connections_are_closed() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[("DULY_SERVER__HEADER_TIMEOUT", "1s")]).await;
    let half_a_preface = "PRI * HTTP/2.0\r\n\r\nSM";
    let half_a_head = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n";
    let idle = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", running.addr());
    let said = ["", "G", half_a_preface, half_a_head, &idle];
    // Together, so that only one timeout passes.
    let answers = futures::future::join_all(said.map(|said| say(running.addr(), said))).await;
    for (said, answer) in said.iter().zip(&answers) {
        let expected = if *said == idle { "HTTP/1.1 200" } else { "" };
        assert!(answer.starts_with(expected), "{said:?}: {answer}");
        assert_eq!(answer.is_empty(), expected.is_empty(), "{said:?}: {answer}");
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn p10_missing_bodies_end_the_call_without_a_change() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[("DULY_SERVER__REQUEST_TIMEOUT", "100ms")]).await;
    let address = running.addr();
    let part = r#"{"id":"t","delay":"1h","#;
    let begun = format!("{}{part}", head(address, "POST /v1/namespaces/a/timers", 1_000));
    let answer = say(address, &begun).await;
    assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
    assert!(answer.contains("retry-after: 0"), "{answer}");
    let lines = begun.replace("/timers", "/batch").replace("/json", "/x-ndjson");
    let whole = r#"{"schedule":{"id":"u","delay":"1h"}}"#;
    let answer = say(address, &lines.replace(part, &format!("{whole}\n{part}"))).await;
    for part in ["HTTP/1.1 200", r#""line":1"#, r#""after_line":1"#, "deadline_exceeded"] {
        assert!(answer.contains(part), "{part}: {answer}");
    }
    assert_eq!(call(address, "GET /v1/namespaces/a/timers/t", "").await.0, 404);
    assert_eq!(call(address, "GET /v1/namespaces/a/timers/u", "").await.0, 200);
    running.stop().await.unwrap();
}

/// Stops time from here on. A paused clock moves only when no task is ready, and one always is. So no
/// wait of a call ends and no connection looks dead, even on a slow machine.
fn hold_time() {
    tokio::time::pause();
    tokio::spawn(async {
        loop {
            yield_now().await;
        }
    });
}

#[tokio::test]
async fn p10_lease_calls_over_the_limit_get_a_retry_time() {
    const CONNECTIONS: usize = 40;
    const STREAMS: usize = 250;
    hold_time();
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[]).await;
    let address = running.addr();
    assert_eq!(call(address, "PUT /v1/namespaces/a", "{}").await.0, 201);
    let lease = || post(address, "/v1/namespaces/a/lease", r#"{"wait":"60s"}"#);
    let mut connections = VecDeque::new();
    for _ in 0..CONNECTIONS {
        let (mut sender, connection) = h2(address).await;
        let mut answers = Vec::new();
        for _ in 0..STREAMS {
            sender.ready().await.unwrap();
            answers.push(tokio::spawn(sender.send_request(lease())));
        }
        connections.push_back((sender, connection, answers));
    }
    waiters(&running, CONNECTIONS * STREAMS).await;
    let (mut late, _connection) = h2(address).await;
    let refused = late.send_request(lease()).await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (429, &"1".parse().unwrap())
    );
    let problem = refused.into_body().collect().await.unwrap().to_bytes();
    let problem: Value = serde_json::from_slice(&problem).unwrap();
    assert_eq!(
        (&problem["code"], &problem["retry_after_ms"]),
        (&json!("resource_exhausted"), &json!(1_000))
    );
    // Everything else still works, and disconnected clients release their places.
    let timer = r#"{"id":"later","delay":"1h"}"#;
    assert_eq!(call(address, "POST /v1/namespaces/a/timers", timer).await.0, 201);
    let (sender, connection, gone) = connections.pop_back().unwrap();
    // The library keeps the connection as long as any task waits on it.
    gone.iter().for_each(JoinHandle::abort);
    drop((sender, connection));
    waiters(&running, (CONNECTIONS - 1) * STREAMS).await;
    let waits = tokio::spawn(late.send_request(lease()));
    waiters(&running, (CONNECTIONS - 1) * STREAMS + 1).await;
    // The first call in line gets the due firing; a drain ends the other calls with a response.
    assert_eq!(call(address, "POST /v1/namespaces/a/timers", r#"{"delay":0}"#).await.0, 201);
    waiters(&running, (CONNECTIONS - 1) * STREAMS).await;
    // The last step of a stop depends on the clock.
    tokio::time::resume();
    running.stop().await.unwrap();
    let mut firings = 0;
    let others = connections.into_iter().flat_map(|(_, _, answers)| answers);
    for answer in others.chain([waits]) {
        let answer = answer.await.unwrap().unwrap();
        assert_eq!(answer.status(), 200);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let leased: Value = serde_json::from_slice(&body).unwrap();
        firings += leased["firings"].as_array().unwrap().len();
    }
    assert_eq!(firings, 1);
}

#[tokio::test]
async fn disconnected_http_1_lease_calls_free_their_slot() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[("DULY_DELIVERY__PULL_WAITERS_MAX", "1")]).await;
    let address = running.addr();
    assert_eq!(call(address, "PUT /v1/namespaces/a", "{}").await.0, 201);
    let body = r#"{"wait":"60s"}"#;
    let words = format!("{}{body}", head(address, "POST /v1/namespaces/a/lease", body.len()));
    let mut waits = TcpStream::connect(address).await.unwrap();
    waits.write_all(words.as_bytes()).await.unwrap();
    waiters(&running, 1).await;
    let (status, problem) = call(address, "POST /v1/namespaces/a/lease", body).await;
    assert_eq!((status, &problem["retry_after_ms"]), (429, &json!(1_000)));
    drop(waits);
    waiters(&running, 0).await;
    let timer = r#"{"id":"t","delay":0}"#;
    assert_eq!(call(address, "POST /v1/namespaces/a/timers", timer).await.0, 201);
    let (_, leased) = call(address, "POST /v1/namespaces/a/lease", body).await;
    assert_eq!(leased["firings"][0]["attempt"], 1, "nothing was claimed for who is gone: {leased}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn p10_waiting_lease_calls_leave_connections_for_others() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[("DULY_SERVER__CONNECTIONS_MAX", "4")]).await;
    let address = running.addr();
    assert_eq!(call(address, "PUT /v1/namespaces/a", "{}").await.0, 201);
    let body = r#"{"wait":"60s"}"#;
    let words = format!("{}{body}", head(address, "POST /v1/namespaces/a/lease", body.len()));
    let mut waits = Vec::new();
    for count in 1..=3 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        waiters(&running, count).await;
        waits.push(stream);
    }
    let (status, problem) = call(address, "POST /v1/namespaces/a/lease", body).await;
    assert_eq!((status, &problem["retry_after_ms"]), (429, &json!(1_000)));
    // The place of a connection is free a moment after its last byte.
    let other = timeout(PATIENCE, async {
        while call(address, "GET /healthz", "").await.0 != 200 {
            yield_now().await;
        }
    });
    other.await.expect("other calls are answered");
    drop(waits);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_stop_ends_waiting_calls_and_streams() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[]).await;
    let address = running.addr();
    assert_eq!(call(address, "PUT /v1/namespaces/a", "{}").await.0, 201);
    let body = r#"{"wait":"60s"}"#;
    let words = format!("{}{body}", head(address, "POST /v1/namespaces/a/lease", body.len()));
    let mut waits = TcpStream::connect(address).await.unwrap();
    waits.write_all(words.as_bytes()).await.unwrap();
    waiters(&running, 1).await;
    let line = "{\"schedule\":{\"id\":\"t\",\"delay\":\"1h\"}}\n";
    let words = head(address, "POST /v1/namespaces/a/batch", 1 << 30).replace("/json", "/x-ndjson");
    let mut streams = TcpStream::connect(address).await.unwrap();
    streams.write_all(format!("{words}{line}").as_bytes()).await.unwrap();
    let mut begun = vec![0; 1024];
    let mut text = String::new();
    while !text.contains("\"line\":1") {
        let count = timeout(PATIENCE, streams.read(&mut begun)).await.unwrap().unwrap();
        assert_ne!(count, 0, "{text}");
        text.push_str(std::str::from_utf8(&begun[..count]).unwrap());
    }
    let silent = TcpStream::connect(address).await.unwrap();
    let (stopped, waited, ended) =
        tokio::join!(running.stop(), to_the_end(&mut waits), to_the_end(&mut streams));
    stopped.unwrap();
    assert!(waited.starts_with("HTTP/1.1 200"), "{waited}");
    assert!(waited.ends_with("{\"firings\":[]}\n"), "{waited}");
    assert!(ended.contains(r#"{"stopped":{"after_line":1,"#), "{ended}");
    assert!(ended.contains("\"retry_after_ms\":1000"), "{ended}");
    drop(silent);
}

#[tokio::test]
async fn dns_rebinding_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[]).await;
    let address = running.addr();
    let port = address.port();
    for (host, extra) in [
        (format!("evil.example:{port}"), String::new()),
        (format!("127.0.0.1.evil.example:{port}"), String::new()),
        (format!("localhost.:{port}"), String::new()),
        (format!("0x7f.1:{port}"), String::new()),
        (address.to_string(), "origin: http://evil.example\r\n".to_owned()),
        (address.to_string(), "origin: null\r\n".to_owned()),
        (address.to_string(), format!("origin: http://localhost:{}\r\n", port - 1)),
    ] {
        for path in ["/v1/namespaces/a/timers", "/healthz", "/metrics", "/nowhere"] {
            let words = format!(
                "POST {path} HTTP/1.1\r\nhost: {host}\r\n{extra}connection: close\r\n\
                 content-type: application/json\r\ncontent-length: 11\r\n\r\n{{\"delay\":0}}"
            );
            let answer = say(address, &words).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{host} {extra}: {answer}");
        }
    }
    let (_, namespaces) = call(address, "GET /v1/namespaces", "").await;
    assert_eq!(namespaces, json!({"namespaces": []}));
    running.stop().await.unwrap();
}
