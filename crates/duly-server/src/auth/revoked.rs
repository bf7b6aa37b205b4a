//! Keys that are revoked while a call is under way: its caller gets nothing more.

use std::{convert::Infallible, time::Duration};

use axum::{Router, body::Body, middleware, routing};
use duly_api::v1;
use futures::{StreamExt, stream};
use http::{Method, Request, header::HOST};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};
use tower::ServiceExt;

use super::{
    tests::{call_http, key, presented, records},
    *,
};
use crate::{
    admission, grpc,
    http::router,
    operations::{OPERATIONS, TimeLimit, of_http},
    service::Admitted,
    tests::{Consumer, TestServer},
};

/// The caller whose key is revoked.
const CALLER: u8 = 2;

/// Starts a server that knows an administrator and the caller.
async fn started() -> TestServer {
    let server = TestServer::start_with(Auth::new(true, None, false)).await;
    let keys = [key(1, Actions::all(), &["*"]), key(CALLER, Actions::all(), &["a"])];
    server.app.auth.use_records(records(keys));
    server
}

/// Revokes the key of the caller. From the return on it must get nothing.
fn revoke(server: &TestServer) {
    let admin = key(1, Actions::all(), &["*"]);
    server.app.auth.use_records(AccessRecords { version: 9, ..records([admin]) });
}

/// A call whose body is sent in parts, and whose response is read in parts.
struct Call {
    send: mpsc::Sender<&'static [u8]>,
    body: Body,
}

impl Call {
    async fn begin(
        router: Router,
        (method, path): (&str, &str),
        kind: &str,
        first: Option<&'static [u8]>,
    ) -> Self {
        let (send, mut parts) = mpsc::channel(4);
        if let Some(first) = first {
            send.send(first).await.unwrap();
        }
        let parts = stream::poll_fn(move |context| parts.poll_recv(context));
        let request = Request::builder().method(method).uri(path).header(HOST, "localhost");
        let request = request
            .header("content-type", kind)
            .header("accept", "application/x-ndjson")
            .header(AUTHORIZATION, format!("Bearer {}", presented(CALLER).reveal()))
            .body(Body::from_stream(parts.map(Ok::<_, Infallible>)))
            .unwrap();
        let begun = timeout(Duration::from_secs(20), router.oneshot(request)).await;
        let body = begun.expect("the head of a response").unwrap().into_body();
        Self { send, body }
    }

    /// Returns the next part: text, or the status of gRPC.
    async fn part(&mut self) -> Option<String> {
        let next = timeout(Duration::from_secs(20), self.body.frame()).await.expect("a part");
        let frame = next?.unwrap();
        Some(match frame.into_data() {
            Ok(data) => String::from_utf8_lossy(&data).into_owned(),
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap();
                format!("status {}", trailers["grpc-status"].to_str().unwrap())
            }
        })
    }
}

#[tokio::test]
async fn a_key_revoked_during_a_lease_call_gets_no_firing() {
    let server = started().await;
    let app = server.app.clone();
    let lease = ("POST", "/v1/namespaces/a/lease");
    let waiting = tokio::spawn({
        let app = app.clone();
        async move { call_http(&app, lease, Some(&presented(CALLER)), r#"{"wait":"30s"}"#).await }
    });
    while app.node.health().waiters == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    revoke(&server);
    server.due(1).await;
    let (status, body) = timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap();
    assert_eq!(status, 401, "{body}");
    // The firing was not taken from others.
    let (status, body) = call_http(&app, lease, Some(&presented(1)), r#"{"wait":"10s"}"#).await;
    assert_eq!(
        (status.as_u16(), body["firings"].as_array().map(Vec::len)),
        (200, Some(1)),
        "{body}"
    );
    assert_eq!(body["firings"][0]["attempt"], 1, "it counted as no attempt");
}

#[tokio::test]
async fn a_revoked_consumer_gets_no_firing_that_is_ready() {
    let server = started().await;
    let authorization = format!("Bearer {}", presented(CALLER).reveal());
    server.due(5_000).await;
    let mut consumer = Consumer::open_as(&server, 10_000, 30, Some(&authorization)).await;
    assert_eq!(consumer.firings().await.len(), 1_000);
    // The next responses are ready, and wait for the connection.
    while server.granted() < 3_000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    revoke(&server);
    let ended = timeout(Duration::from_secs(5), consumer.receive()).await.expect("it ends");
    let status = ended.expect("a status").expect_err("no firing");
    assert_eq!(status.code(), tonic::Code::Unauthenticated, "{status:?}");
    // Others get the firings, which counted as no attempt.
    let lease = ("POST", "/v1/namespaces/a/lease");
    let body = r#"{"wait":"10s","max":4000}"#;
    let (_, body) = call_http(&server.app, lease, Some(&presented(1)), body).await;
    let firings = body["firings"].as_array().unwrap();
    assert!(!firings.is_empty() && firings.iter().all(|it| it["attempt"] == 1), "{body}");
}

#[tokio::test]
async fn a_revoked_consumer_settles_nothing() {
    let server = started().await;
    let authorization = format!("Bearer {}", presented(CALLER).reveal());
    server.due(1).await;
    let mut consumer = Consumer::open_as(&server, 1, 30, Some(&authorization)).await;
    let token = consumer.firings().await.remove(0).token;
    revoke(&server);
    let ack = Some(v1::Ack {});
    let settlement = v1::Settlement { token, ack, ..v1::Settlement::default() };
    consumer.send(0, vec![settlement]).await;
    let status = consumer.receive().await.expect("a status").expect_err("no result");
    assert_eq!(status.code(), tonic::Code::Unauthenticated, "{status:?}");
    let path = "/v1/namespaces/a/timers/t0";
    let (_, timer) = call_http(&server.app, ("GET", path), Some(&presented(1)), "").await;
    assert_ne!(timer["state"], "finished", "{timer}");
}

#[tokio::test]
async fn every_stream_of_grpc_checks_its_caller_before_each_part() {
    let streams = OPERATIONS.iter().filter(|it| it.time_limit == TimeLimit::Stream);
    let streams: Vec<_> = streams.filter(|it| it.right != Right::Open).collect();
    let names: Vec<_> = streams.iter().map(|it| it.name).collect();
    assert_eq!(names, ["consume", "reflection", "reflection_v1alpha"], "each has a case here");
    for stream in streams {
        let server = started().await;
        let path = stream.grpc.unwrap();
        let (first, next): (&[u8], &[u8]) = match stream.name {
            // Namespace `a` and a credit, then another credit.
            "consume" => (b"\0\0\0\0\x07\x0a\x03\x0a\x01a\x10\x01", b"\0\0\0\0\x02\x10\x01"),
            // The list of services.
            _ => (b"\0\0\0\0\x02\x3a\0", b"\0\0\0\0\x02\x3a\0"),
        };
        server.due(2).await;
        let router = grpc::router(server.app.clone());
        let mut call = Call::begin(router, ("POST", path), "application/grpc", Some(first)).await;
        let part = call.part().await.unwrap();
        assert!(!part.starts_with("status"), "{path}: {part}");
        revoke(&server);
        call.send.send(next).await.unwrap();
        assert_eq!(call.part().await.as_deref(), Some("status 16"), "{path}");
        assert_eq!(call.part().await, None, "{path}");
    }
}

#[tokio::test]
async fn a_revoked_reader_gets_no_part_of_a_list_that_is_ready() {
    let server = started().await;
    server.due(2_500).await;
    let call = ("GET", "/v1/namespaces/a/timers");
    let mut call = Call::begin(router(server.app.clone()), call, "application/json", None).await;
    assert!(call.part().await.unwrap().contains(r#""id":"t0""#));
    revoke(&server);
    let last: Value = serde_json::from_str(&call.part().await.unwrap()).unwrap();
    assert!(last.to_string().contains(r#""code":"unauthenticated""#), "{last}");
    assert!(!last.to_string().contains("cursor"), "it would skip the rest of the page: {last}");
    assert_eq!(call.part().await, None);
}

#[tokio::test]
async fn a_revoked_sender_of_lines_changes_nothing() {
    let server = started().await;
    let call = ("POST", "/v1/namespaces/a/batch?results=all");
    let router = router(server.app.clone());
    let lines: [&[u8]; 2] = [
        b"{\"schedule\":{\"id\":\"one\",\"delay\":\"1h\"}}\n",
        b"{\"schedule\":{\"id\":\"two\",\"delay\":\"1h\"}}\n",
    ];
    let mut call = Call::begin(router, call, "application/x-ndjson", Some(lines[0])).await;
    assert!(call.part().await.unwrap().contains("created"));
    revoke(&server);
    call.send.send(lines[1]).await.unwrap();
    let last = call.part().await.unwrap();
    assert!(last.contains("unauthenticated"), "{last}");
    let path = "/v1/namespaces/a/timers/two";
    let (status, _) = call_http(&server.app, ("GET", path), Some(&presented(1)), "").await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn a_read_whose_key_was_revoked_meanwhile_shows_nothing() {
    let server = started().await;
    let read = of_http(&Method::GET, "/v1/namespaces/{namespace}/export");
    let authorization = format!("Bearer {}", presented(CALLER).reveal()).parse().unwrap();
    let headers = HeaderMap::from_iter([(AUTHORIZATION, authorization)]);
    for is_revoked in [false, true] {
        let caller = server.app.auth.admit(read.right, &headers, Peer::default(), Timestamp::MIN).1;
        let caller = caller.unwrap();
        let admitted = Admitted::new(server.app.clone(), read, caller, None, None);
        let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, waits) = (Arc::clone(&began), Arc::clone(&go_on));
        let reading = move || async move {
            begins.notify_one();
            waits.notified().await;
            "timers"
        };
        let router: Router = Router::new().route("/", routing::get(reading)).layer(
            middleware::from_fn(move |request, next| {
                admission::run(admitted.clone(), Duration::from_secs(30), None, request, next)
            }),
        );
        let response = tokio::spawn(router.oneshot(Request::new(Body::empty())));
        began.notified().await;
        if is_revoked {
            revoke(&server);
        }
        go_on.notify_one();
        let status = response.await.unwrap().unwrap().status();
        assert_eq!(status, if is_revoked { 401 } else { 200 });
    }
}
