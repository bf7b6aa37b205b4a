//! A complete server on a port: started, called over HTTP/1.1 and HTTP/2, stopped.

use duly_server::{
    StartError,
    config::{Flag, Source, load},
    start,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

fn config(data: &std::path::Path, listen: &str) -> duly_server::Config {
    let flag = |flag: &str, key, value: &str| Flag { flag: flag.into(), key, value: value.into() };
    let flags = vec![
        flag("--data", "store.data", data.to_str().unwrap()),
        flag("--listen", "server.listen", listen),
    ];
    let env = [
        ("DULY_STORE__MIN_FREE_BYTES", "0"),
        ("DULY_STORE__MIN_FREE_PERCENT", "0"),
        ("DULY_STORE__SEGMENT_BYTES", "1MiB"),
        ("DULY_SERVER__CONNECTIONS_MAX", "2"),
    ];
    load(&Source {
        file: None,
        env: env.map(|(name, value)| (name.into(), value.into())).to_vec(),
        flags,
    })
    .unwrap()
}

async fn exchange(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn starts_serves_and_stops() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let running = start(config(&data, "127.0.0.1:0")).await.unwrap();
    let address = running.addr();
    assert_ne!(address.port(), 0);
    assert_eq!((running.report().pending, running.report().namespaces), (0, Some(0)));

    let body = r#"{"id":"t","delay":"1h"}"#;
    let request = format!(
        "POST /v1/namespaces/a/timers HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    let answer = exchange(&mut stream, &request).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");

    // Two silent connections make way for a third.
    let mut silent = [None, None];
    for stream in &mut silent {
        *stream = Some(TcpStream::connect(address).await.unwrap());
    }
    let answer = exchange(&mut TcpStream::connect(address).await.unwrap(), &request).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Two with a call fill the server; a third gets 503, unless it asks for health.
    let unfinished = request.replace("connection: close", "expect: 100-continue");
    let mut busy = [None, None];
    for stream in &mut busy {
        let stream = stream.insert(TcpStream::connect(address).await.unwrap());
        stream.write_all(unfinished.strip_suffix(body).unwrap().as_bytes()).await.unwrap();
        stream.read_exact(&mut [0; 25]).await.unwrap();
    }
    let mut third = TcpStream::connect(address).await.unwrap();
    let answer = exchange(&mut third, &request).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("server.connections_max"), "{answer}");
    let (head, _) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.lines().any(|line| line == "retry-after: 1"), "{head}");
    drop((silent, busy));

    let taken = start(config(&directory.path().join("other"), &address.to_string())).await;
    match taken {
        Err(error @ StartError::Listen { .. }) => {
            let text = error.to_string();
            assert!(text.contains("server.listen, from flag --listen"), "{text}");
            assert!(text.contains("choose another with --listen"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!directory.path().join("other").exists());

    running.wait_for_stop(std::future::ready(())).await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn speaks_http_2_on_the_same_port() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(config(directory.path(), "127.0.0.1:0")).await.unwrap();
    let stream = TcpStream::connect(running.addr()).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::builder()
        .uri(format!("http://{}/healthz", running.addr()))
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    drop(sender);
    connection.await.unwrap().unwrap();
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_head_that_cannot_be_read_closes_the_connection() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(config(directory.path(), "127.0.0.1:0")).await.unwrap();
    let many: String = (0..101).map(|i| format!("h{i}: x\r\n")).collect();
    let long = "x".repeat(66_000);
    for (request, statuses) in [
        ("HELO duly\r\n\r\n".to_owned(), &[400][..]),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n".to_owned(), &[400]),
        ("GET / HTTP/7.0\r\n\r\n".to_owned(), &[400]),
        // 414 if the whole head comes with one read.
        (format!("GET /{long} HTTP/1.1\r\nhost: a\r\n\r\n"), &[414, 431]),
        (format!("GET / HTTP/1.1\r\n{many}\r\n"), &[431]),
        (format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"), &[431]),
    ] {
        let mut stream = TcpStream::connect(running.addr()).await.unwrap();
        // The read reaches the end, so the connection was closed.
        let answer = exchange(&mut stream, &request).await;
        let shown = &request[..request.len().min(40)];
        let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        assert!(status.is_some_and(|it: u16| statuses.contains(&it)), "{shown}: {answer}");
    }
    running.stop().await.unwrap();
}

/// Runs a server on this directory until `calls` are made. Each server has its own runtime, as a process
/// has.
fn serve_on(directory: &std::path::Path, calls: impl AsyncFnOnce(&duly_server::Running)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let running = start(config(directory, "127.0.0.1:0")).await.unwrap();
        calls(&running).await;
        running.stop().await.unwrap();
    });
}

async fn call(address: std::net::SocketAddr, call: &str, body: &str) -> String {
    let request = format!(
        "{call} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    exchange(&mut TcpStream::connect(address).await.unwrap(), &request).await
}

#[test]
fn only_accepted_operations_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    serve_on(directory.path(), async |running| {
        let operations = r#"{"operations":[
            {"schedule":{"id":"one","delay":"1h"}},
            {"schedule":{"id":"bad","delay":"soon"}},
            {"schedule":{"id":"late","delay":"73000d"}},
            {"cancel":{"id":"none"}},
            {"schedule":{"id":"two","delay":"1h"}}
        ]}"#;
        let answer = call(running.addr(), "POST /v1/namespaces/a/batch", operations).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("operations[2].schedule.delay"), "{answer}");
    });
    serve_on(directory.path(), async |running| {
        assert_eq!(running.report().pending, 2);
        for (id, status) in [("one", 200), ("bad", 404), ("late", 404), ("two", 200)] {
            let path = format!("GET /v1/namespaces/a/timers/{id}");
            let answer = call(running.addr(), &path, "").await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{id}: {answer}");
        }
    });
}

#[tokio::test]
async fn no_response_of_http_is_stored_or_taken_for_another_type() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(config(&directory.path().join("data"), "127.0.0.1:0")).await.unwrap();
    let address = running.addr();
    let json = "content-type: application/json\r\ncontent-length: 2";
    for (call, more, status) in [
        ("GET /healthz", "accept: */*", 200),
        ("GET /readyz", "accept: */*", 200),
        ("GET /metrics", "accept: */*", 200),
        ("GET /openapi.json", "accept: */*", 200),
        ("HEAD /v1/cluster", "accept: */*", 200),
        ("PUT /v1/namespaces/a", json, 201),
        ("GET /v1/namespaces/a/timers", "accept: application/x-ndjson", 200),
        ("POST /v1/namespaces/a/timers", json, 400),
        ("GET /v1/namespaces/a/timers/x", "accept: */*", 404),
        ("GET /nowhere", "accept: */*", 404),
        ("DELETE /v1/cluster", "accept: */*", 405),
        ("GET /v1/cluster", "origin: https://evil.example", 403),
        ("OPTIONS /v1/cluster", "origin: https://evil.example", 403),
    ] {
        let request = format!(
            "{call} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{more}\r\n\r\n{{}}"
        );
        let body = if more == json { 0 } else { 2 };
        let mut stream = TcpStream::connect(address).await.unwrap();
        let answer = exchange(&mut stream, &request[..request.len() - body]).await;
        let head = answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{call}: {answer}");
        for header in ["cache-control: no-store", "x-content-type-options: nosniff"] {
            assert_eq!(head.matches(header).count(), 1, "{call}: {head}");
        }
    }
    running.stop().await.unwrap();
}
