//! Responses while the store opens.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::{
    net::SocketAddr,
    sync::{atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

use duly_api::v1::{GetClusterRequest, cluster_client::ClusterClient};
use duly_store_embedded::{
    EmbeddedStore, OpenError, OpenProgress,
    disk::{Fault, SimDisk},
};
use http::{Request, Response, Version};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, yield_now},
};
use tonic_types::StatusExt;

use super::{
    open::embedded::{EmbeddedAdapter, OPENING_TEXT, Opener, open_directory},
    *,
};
use crate::{
    auth::tests::call_http,
    config::{Flag, Source, load},
    tests::{ALLOWED_ORIGIN, TestServer},
};

/// A data directory, a free port, and a server on both whose store opens on command.
struct Bench {
    directory: tempfile::TempDir,
    address: SocketAddr,
    commands: mpsc::Sender<OpenerCommand>,
    starting: JoinHandle<Result<Running, StartError>>,
}

enum OpenerCommand {
    Progress(OpenProgress),
    Open,
    /// Opens the store on another disk.
    OpenOn(SimDisk),
    Fail,
}

impl Bench {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let data = directory.path().join("data").to_str().unwrap().to_owned();
        let flag = |flag: &str, key, value| Flag { flag: flag.into(), key, value };
        let env = [
            ("DULY_STORE__MIN_FREE_BYTES", "0"),
            ("DULY_STORE__MIN_FREE_PERCENT", "0"),
            ("DULY_STORE__SEGMENT_BYTES", "1MiB"),
            ("DULY_SERVER__ALLOWED_ORIGINS", ALLOWED_ORIGIN),
        ];
        let config = load(&Source {
            file: None,
            env: env.map(|(name, value)| (name.into(), value.into())).to_vec(),
            flags: vec![flag("--data", "store.data", data)],
        })
        .unwrap();
        let (commands, received) = mpsc::channel();
        let opener: Opener = Box::new(move |path, options, clock, progress| {
            loop {
                match received.recv().unwrap() {
                    OpenerCommand::Progress(open_progress) => progress(open_progress),
                    OpenerCommand::Open => {
                        return open_directory(path, options, clock, progress);
                    }
                    OpenerCommand::OpenOn(disk) => {
                        return EmbeddedStore::open(Arc::new(disk), options, clock, progress);
                    }
                    OpenerCommand::Fail => {
                        return Err(OpenError::Unwritable("a planted fault".into()));
                    }
                }
            }
        });
        let adapter = Box::new(EmbeddedAdapter { config: config.clone(), opener });
        let starting = tokio::spawn(start_on(vec![listener.try_into().unwrap()], config, adapter));
        Self { directory, address, commands, starting }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Asks what a page of an allowed origin may do, on a connection of its own.
    async fn preflight(&self, version: Version) -> Response<Incoming> {
        let request = Request::options(format!("http://{}{TIMERS}", self.address))
            .header("host", self.address.to_string())
            .header("origin", ALLOWED_ORIGIN)
            .header("access-control-request-method", "POST");
        let request = request.body(String::new()).unwrap();
        let io = TokioIo::new(self.connect().await);
        if version == Version::HTTP_11 {
            let (mut sender, connection) = http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            return sender.send_request(request).await.unwrap();
        }
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    async fn call(&self, method: &str, path: &str) -> (String, Value) {
        call(&mut self.connect().await, self.address, method, path).await
    }
}

/// Sends one request on a connection that stays open; returns head and body of the response.
async fn call(
    stream: &mut TcpStream,
    host: SocketAddr,
    method: &str,
    path: &str,
) -> (String, Value) {
    let body = r#"{"id":"t","delay":"1h"}"#;
    let (kind, body) = match method {
        "POST" => ("content-type: application/json\r\n", body),
        _ => ("", ""),
    };
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\n{kind}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = Vec::new();
    loop {
        assert!(stream.read_buf(&mut text).await.unwrap() > 0, "cut off");
        let answer = String::from_utf8_lossy(&text);
        if let Some((head, body)) = answer.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if length.is_some_and(|length| length.parse() == Ok(body.len())) {
                return (head.to_owned(), serde_json::from_str(body).unwrap_or_default());
            }
        }
    }
}

const TIMERS: &str = "/v1/namespaces/a/timers";

#[tokio::test]
async fn startup_serves_health_and_tells_calls_to_retry() {
    let bench = Bench::start().await;
    let (head, health) = bench.call("GET", "/healthz").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(health["status"], "alive");

    let (head, ready) = bench.call("GET", "/readyz").await;
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert!(head.contains("retry-after: 1"), "{head}");
    let reasons = [OPENING_TEXT];
    let expected = json!({ "status": "recovering", "reasons": reasons, "retry_after_ms": 1_000 });
    assert_eq!(ready, expected);
    let what = OpenProgress::JOURNAL;
    let (bytes_done, bytes_total) = (3 << 20, 10 << 20);
    let progress = OpenProgress { what, bytes_done, bytes_total };
    bench.commands.send(OpenerCommand::Progress(progress)).unwrap();
    loop {
        let (_, ready) = bench.call("GET", "/readyz").await;
        assert_eq!(ready["status"], "recovering");
        let reason = ready["reasons"][0].as_str().unwrap();
        if reason.contains("3 of 10 MiB of the journal to replay read") {
            let expected =
                json!({ "what": what, "bytes_done": bytes_done, "bytes_total": bytes_total });
            assert_eq!(ready["progress"], expected);
            break;
        }
        assert_eq!(reason, OPENING_TEXT);
    }

    // The same connection still works once the store is open.
    let mut kept = bench.connect().await;
    for (method, path) in [("POST", TIMERS), ("GET", "/v1/namespaces"), ("DELETE", "/healthz")] {
        let (head, problem) = call(&mut kept, bench.address, method, path).await;
        assert!(head.starts_with("HTTP/1.1 503"), "{head}");
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        assert!(head.contains("retry-after: 1"), "{head}");
        assert_eq!(problem["code"], "unavailable");
        assert_eq!(problem["retry_after_ms"], 1_000);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("3 of 10") && detail.contains("repeat the call"), "{detail}");
    }
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let response = bench.preflight(version).await;
        assert_eq!(response.status(), 204, "{version:?}");
        assert_eq!(response.headers()["access-control-allow-origin"], ALLOWED_ORIGIN);
        assert_eq!(response.headers()["access-control-allow-methods"], "GET, HEAD, POST");
    }
    let (head, _) = bench.call("GET", "/openapi.json").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(bench.call("GET", "/metrics").await.0.starts_with("HTTP/1.1 200"));
    let stranger = SocketAddr::from(([10, 0, 0, 1], 1));
    let mut stream = bench.connect().await;
    let (head, _) = call(&mut stream, stranger, "GET", "/readyz").await;
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    assert!(!bench.directory.path().join("data").exists());

    bench.commands.send(OpenerCommand::Open).unwrap();
    let running = bench.starting.await.unwrap().unwrap();
    let (head, timer) = call(&mut kept, bench.address, "POST", TIMERS).await;
    assert!(head.starts_with("HTTP/1.1 201"), "{head}");
    assert_eq!(timer["id"], "t");
    drop(kept);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn startup_tells_grpc_calls_to_retry() {
    let bench = Bench::start().await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", bench.address));
    let mut cluster = ClusterClient::new(channel.unwrap().connect_lazy());
    let refused = cluster.get(GetClusterRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "UNAVAILABLE");
    assert_eq!(details.retry_info().unwrap().retry_delay, Some(Duration::from_secs(1)));
    bench.commands.send(OpenerCommand::Open).unwrap();
    let running = bench.starting.await.unwrap().unwrap();
    // The same connection still works.
    assert!(cluster.get(GetClusterRequest {}).await.unwrap().into_inner().ready);
    drop(cluster);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_store_that_does_not_open_frees_the_port() {
    let bench = Bench::start().await;
    bench.commands.send(OpenerCommand::Fail).unwrap();
    let error = bench.starting.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("a planted fault") && error.contains("--data"), "{error}");
    is_freed(bench.address).await;
}

#[tokio::test]
async fn a_cancelled_startup_frees_the_port() {
    let Bench { address, commands, starting, .. } = Bench::start().await;
    let (head, _) =
        call(&mut TcpStream::connect(address).await.unwrap(), address, "GET", "/healthz").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    // The command does this at the first signal.
    starting.abort();
    assert!(starting.await.unwrap_err().is_cancelled());
    is_freed(address).await;
    commands.send(OpenerCommand::Fail).unwrap();
}

#[tokio::test]
async fn a_server_with_an_ended_store_is_not_alive_and_stops() {
    let bench = Bench::start().await;
    let disk = SimDisk::new(1);
    bench.commands.send(OpenerCommand::OpenOn(disk.clone())).unwrap();
    let address = bench.address;
    let running = bench.starting.await.unwrap().unwrap();
    let ask = async |method, path| {
        call(&mut TcpStream::connect(address).await.unwrap(), address, method, path).await
    };
    let (head, _) = ask("GET", "/healthz").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");

    disk.plan(Fault::ErrorAtSync(1));
    let (head, problem) = ask("POST", TIMERS).await;
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert_eq!(problem["code"], "aborted");
    // The caller may get its response before the engine has ended.
    let health = loop {
        let (head, health) = ask("GET", "/healthz").await;
        if head.starts_with("HTTP/1.1 503") {
            break health;
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    };
    assert_eq!(health["status"], "failed");
    let reason = health["reasons"][0].as_str().unwrap().to_owned();
    assert!(reason.starts_with("the store has ended: "), "{reason}");
    let (_, ready) = ask("GET", "/readyz").await;
    assert_eq!(ready["reasons"][0], reason.as_str());

    let never = std::future::pending();
    let ended = running.wait_for_stop(never).await.unwrap_err();
    assert!(matches!(&ended, StartError::StoreEnded(why) if *why == reason), "{ended}");
    is_freed(address).await;
}

async fn is_freed(address: SocketAddr) {
    let freed = async {
        while TcpListener::bind(address).await.is_err() {
            yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), freed).await.unwrap();
}

/// Lines of the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn readiness_log_and_watchdog_follow_a_stall_of_the_store() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let server = TestServer::start().await;
    let store = Arc::clone(&server.app.store);
    let logging = tokio::spawn(log_stalls(Arc::clone(&store)));
    let logged = async |text: &str| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !String::from_utf8_lossy(&log.0.lock()).contains(text) {
            assert!(Instant::now() < deadline, "{text:?} is not in the log");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    for (stalled, keys_stalled, reasons, line) in [
        (false, false, Value::Null, ""),
        (true, false, json!(["a sync hangs"]), "the store makes no progress"),
        (false, false, Value::Null, "the store makes progress again"),
        (false, true, json!(["a change of the keys hangs"]), "a change of the keys hangs"),
    ] {
        server.claims.stalled.store(stalled, Ordering::Relaxed);
        server.claims.keys_stalled.store(keys_stalled, Ordering::Relaxed);
        let (found, body) = call_http(&server.app, ("GET", "/readyz"), None, "").await;
        assert_eq!(found.as_u16(), if reasons.is_null() { 200 } else { 503 }, "{body}");
        assert_eq!(body["reasons"], reasons);
        assert_eq!(makes_progress(&*store), !stalled, "as the watchdog asks");
        logged(line).await;
    }
    logging.abort();
}
