//! Unread responses and incomplete bodies: their memory is bounded and released.

use super::*;

/// Bytes of a payload that the kernel's buffers of one connection do not hold.
const LARGE: usize = 6 << 20;

#[tokio::test]
async fn p10_unread_responses_time_out_and_release_memory() {
    // A loaded machine needs less for one large call.
    const LIMIT: Duration = Duration::from_secs(10);
    let directory = tempfile::tempdir().unwrap();
    let settings = [
        ("DULY_SERVER__REQUEST_TIMEOUT", "10s"),
        ("DULY_SERVER__REQUEST_MEMORY_MAX", "20MiB"),
        ("DULY_STORE__SEGMENT_BYTES", "16MiB"),
    ];
    let running = serve(directory.path(), &settings).await;
    let address = running.addr();
    let settings = r#"{"limits":{"namespace":{"max_payload_bytes":16777216}}}"#;
    assert_eq!(call(address, "PUT /v1/namespaces/a", settings).await.0, 201);
    let body = format!(r#"{{"id":"t","delay":"1h","payload_text":"{}"}}"#, "x".repeat(LARGE));
    assert_eq!(call(address, "POST /v1/namespaces/a/timers", &body).await.0, 201);
    // Each call asks for 6 MiB and reads nothing: only a few fit at once. The caller's small
    // receive buffer lets the kernel hold less than the response.
    let get = head(address, "GET /v1/namespaces/a/timers/t", 0);
    let mut idle = Vec::new();
    for _ in 0..6 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        stream.write_all(get.as_bytes()).await.unwrap();
        idle.push(stream);
    }
    let mut statuses = Vec::new();
    for stream in &mut idle {
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        statuses.push(String::from_utf8_lossy(&first[9..]).into_owned());
    }
    let refused = statuses.iter().filter(|status| *status == "429").count();
    // While a response is read and written, it uses its size twice.
    assert!((3..=5).contains(&refused), "{statuses:?}");
    let small = call(address, "GET /v1/namespaces/a", "").await;
    assert_eq!(small.0, 200, "a quarter is kept for small ones: {}", small.1);
    let (status, problem) = call(address, "POST /v1/namespaces/a/timers", &body).await;
    assert_eq!((status, &problem["code"]), (429, &json!("resource_exhausted")));
    assert_eq!(problem["retry_after_ms"], 1_000);
    // Callers that read nothing are cut off after the time limit; then the memory is free again.
    sleep(LIMIT + Duration::from_secs(2)).await;
    let room = timeout(PATIENCE, async {
        while call(address, "GET /v1/namespaces/a/timers/t", "").await.0 != 200 {
            sleep(Duration::from_millis(100)).await;
        }
    });
    room.await.expect("the memory comes back");
    let mut whole = 0;
    for mut stream in idle {
        whole += usize::from(to_the_end(&mut stream).await.len() >= LARGE);
    }
    assert!(whole < 6 - refused, "none was cut off");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn p10_closed_http_2_windows_time_out_and_release_memory() {
    let directory = tempfile::tempdir().unwrap();
    let settings =
        [("DULY_SERVER__REQUEST_TIMEOUT", "2s"), ("DULY_SERVER__REQUEST_MEMORY_MAX", "2MiB")];
    let running = serve(directory.path(), &settings).await;
    let address = running.addr();
    let text = "x".repeat(240_000);
    let body = format!(r#"{{"id":"t","delay":"1h","payload_text":"{text}"}}"#);
    assert_eq!(call(address, "POST /v1/namespaces/a/timers", &body).await.0, 201);
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let mut closed = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) =
        closed.initial_stream_window_size(0).handshake(io).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut answers = Vec::new();
    let full = loop {
        let get = http::Request::get(format!("http://{address}/v1/namespaces/a/timers/t"));
        sender.ready().await.unwrap();
        let answer = sender.send_request(get.body(Full::default()).unwrap()).await.unwrap();
        if answer.status() != 200 {
            break answer.status();
        }
        answers.push(answer);
    };
    assert_eq!((full.as_u16(), answers.len()), (429, 5), "three quarters are theirs");
    // One more caller sends lines and does not read their results.
    let line = "{\"cancel\":{\"id\":\"none\"}}\n";
    let mut lines = post(address, "/v1/namespaces/a/batch", line);
    lines.headers_mut().insert("content-type", "application/x-ndjson".parse().unwrap());
    answers.push(sender.send_request(lines).await.unwrap());
    let closed = timeout(PATIENCE, connection).await;
    assert!(closed.is_ok(), "the connection is closed");
    let room = timeout(PATIENCE, async {
        for _ in 0..5 {
            while call(address, "GET /v1/namespaces/a/timers/t", "").await.0 != 200 {
                yield_now().await;
            }
        }
    });
    room.await.expect("the memory comes back");
    drop(answers);
    running.stop().await.unwrap();
}

/// Returns a connection whose caller reads no byte of any response, with the results of its calls:
/// several times 200, then the status that refused the next call.
pub(super) async fn unread(
    address: SocketAddr,
    request: impl Fn() -> http::Request<Full<Bytes>>,
) -> (Vec<http::Response<hyper::body::Incoming>>, u16) {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let mut closed = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) =
        closed.initial_stream_window_size(0).handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut answers = Vec::new();
    loop {
        sender.ready().await.unwrap();
        let answer = sender.send_request(request()).await.unwrap();
        if answer.status() != 200 {
            return (answers, answer.status().as_u16());
        }
        answers.push(answer);
    }
}

#[tokio::test]
async fn p10_large_responses_leave_memory_for_small_calls() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[("DULY_SERVER__REQUEST_MEMORY_MAX", "2MiB")]).await;
    let address = running.addr();
    let text = "x".repeat(240_000);
    let body = format!(r#"{{"id":"t","delay":"1h","payload_text":"{text}"}}"#);
    assert_eq!(call(address, "POST /v1/namespaces/a/timers", &body).await.0, 201);
    for (path, method) in [("/fire", "POST"), ("", "PATCH")] {
        let change = || {
            let mut request = post(address, &format!("/v1/namespaces/a/timers/t{path}"), "{}");
            *request.method_mut() = method.parse().unwrap();
            if method == "PATCH" {
                *request.body_mut() = Full::from(r#"{"delay":"2h"}"#);
            }
            request
        };
        let (answers, refused) = unread(address, change).await;
        // The memory of a response is reserved before the change is made.
        assert_eq!((refused, answers.len()), (429, 5), "{method}");
        assert_eq!(call(address, "GET /v1/namespaces/a", "").await.0, 200, "small ones have room");
        assert_eq!(call(address, "GET /readyz", "").await.0, 200, "probes are answered");
        drop(answers);
        let room = timeout(PATIENCE, async {
            while call(address, "GET /v1/namespaces/a/timers/t", "").await.0 != 200 {
                yield_now().await;
            }
        });
        room.await.expect("the memory comes back");
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn p10_unread_probe_responses_have_their_own_bound() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[]).await;
    let address = running.addr();
    let document = || {
        let get = http::Request::get(format!("http://{address}/openapi.json"));
        get.body(Full::default()).unwrap()
    };
    let (answers, refused) = unread(address, document).await;
    assert_eq!(refused, 429, "after {}", answers.len());
    let body = r#"{"id":"t","delay":"1h"}"#;
    assert_eq!(call(address, "POST /v1/namespaces/a/timers", body).await.0, 201);
    assert_eq!(call(address, "GET /healthz", "").await.0, 200, "small ones have room still");
    drop(answers);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn p10_announced_bytes_use_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[("DULY_SERVER__REQUEST_MEMORY_MAX", "2MiB")]).await;
    let address = running.addr();
    let mut announced = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let words = format!("{}{{", head(address, "POST /v1/namespaces/a/batch", 1 << 20));
        stream.write_all(words.as_bytes()).await.unwrap();
        announced.push(stream);
    }
    let body = format!(r#"{{"id":"t","delay":"1h","payload_text":"{}"}}"#, "x".repeat(200_000));
    let (status, answer) = call(address, "POST /v1/namespaces/a/timers", &body).await;
    assert_eq!(status, 201, "{answer}");
    let (status, problem) =
        call(address, "POST /v1/namespaces/a/batch", &"x".repeat(1_700_000)).await;
    assert_eq!(status, 413, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("server.request_memory_max"), "{problem}");
    drop(announced);
    running.stop().await.unwrap();
}
