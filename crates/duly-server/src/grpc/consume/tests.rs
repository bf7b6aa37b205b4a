//! Streams in virtual time, on a store without a disk and a server without sockets.

use std::{convert::Infallible, sync::atomic::Ordering, time::Duration};

use axum::body::Body;
use duly_api::v1::{self, consume_response::Kind};
use duly_core::{NamespaceName, TimerId, shard::ShardId};
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;
use tower::ServiceExt;

use crate::tests::{Consumer, REQUEST_MEMORY, RETRY_AFTER, TestServer};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn p10_full_memory_stops_claims_of_waiting_consumers() {
    let server = TestServer::start().await;
    let mut consumer = Consumer::open(&server, 10, 30).await;
    while server.app.node.health().waiters == 0 {
        tokio::task::yield_now().await;
    }
    let full = server.budget().reserve_unchecked(REQUEST_MEMORY);
    server.due(3).await;
    sleep(SECOND * 10).await;
    assert_eq!(server.granted(), 0);
    drop(full);
    assert_eq!(consumer.firings().await.len(), 3);
    assert_eq!(server.granted(), 3);
}

#[tokio::test(start_paused = true)]
async fn p10_idle_consumers_use_no_request_memory() {
    let server = TestServer::start().await;
    let mut consumer = Consumer::open(&server, 10, 30).await;
    // One large message, of which neither the content nor the buffer is kept.
    let settlement = v1::Settlement {
        token: "x".repeat(60),
        ack: Some(v1::Ack {}),
        ..v1::Settlement::default()
    };
    consumer.send(0, vec![settlement; 10_000]).await;
    assert!(matches!(consumer.receive().await, Some(Ok(Kind::Settled(_)))));
    sleep(SECOND).await;
    assert!(server.uses_no_memory(), "it is idle");
    server.due(1).await;
    assert_eq!(consumer.firings().await.len(), 1, "and goes on");
    sleep(SECOND).await;
    assert!(server.uses_no_memory(), "what it holds is with the consumer");
}

#[tokio::test(start_paused = true)]
async fn a_brief_store_outage_ends_no_stream() {
    let server = TestServer::start().await;
    server.due(2).await;
    let mut consumer = Consumer::open(&server, 1, 30).await;
    let first = consumer.firings().await;
    server.claims.failing.store(3, Ordering::Relaxed);
    let began = Instant::now();
    consumer.send(1, Vec::new()).await;
    assert_eq!(consumer.firings().await.len(), 1);
    assert!(began.elapsed() >= RETRY_AFTER * 3, "it is asked again when it said, not before");
    // The stream still holds its claims, and a verdict that failed can be sent again.
    server.claims.settles_failing.store(1, Ordering::Relaxed);
    let (token, ack) = (first[0].token.clone(), Some(v1::Ack {}));
    let settlement = v1::Settlement { token, ack, ..v1::Settlement::default() };
    let mut settle = async || {
        consumer.send(0, vec![settlement.clone()]).await;
        match consumer.receive().await {
            Some(Ok(Kind::Settled(mut settled))) => settled.results.remove(0),
            other => panic!("{other:?}"),
        }
    };
    let refused = settle().await;
    assert_eq!(refused.outcome, None);
    assert!(matches!(&refused.error, Some(problem)
        if problem.code == "unavailable" && problem.retry_after_ms.is_some()));
    let outcome = Some(v1::SettleOutcome::Ok.into());
    assert_eq!(settle().await, v1::SettleResult { outcome, error: None });
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_end_a_stream() {
    let server = TestServer::start().await;
    let mut consumer = Consumer::open(&server, 1, 30).await;
    while server.app.node.health().waiters == 0 {
        tokio::task::yield_now().await;
    }
    let name = NamespaceName::new("a").unwrap();
    let mode = duly_store::namespaces::DeleteMode::Force;
    server.app.store.delete_namespace(name, mode).await.unwrap();
    let ended = consumer.receive().await.unwrap().unwrap_err();
    assert_eq!(ended.code(), Code::NotFound);
}

#[tokio::test(start_paused = true)]
async fn an_ended_extended_lease_frees_its_slot_on_a_busy_stream() {
    let server = TestServer::start().await;
    server.due(1).await;
    let mut consumer = Consumer::open(&server, 1, 1).await;
    let firing = consumer.firings().await.remove(0);
    let extend = Some(v1::ExtendVerdict { lease: Some((SECOND * 3).into()) });
    let settlement = v1::Settlement { token: firing.token, extend, ..v1::Settlement::default() };
    consumer.send(0, vec![settlement]).await;
    assert!(matches!(consumer.receive().await, Some(Ok(Kind::Settled(_)))));
    // The stream of a stopping server ends when nothing is held any more.
    let began = Instant::now();
    server.app.stop();
    assert!(matches!(consumer.receive().await, Some(Ok(Kind::Stopping(_)))));
    let busy = consumer.send.clone();
    let saying = tokio::spawn(async move {
        while busy.send(v1::ConsumeRequest::default()).await.is_ok() {
            sleep(SECOND / 10).await;
        }
    });
    assert!(consumer.receive().await.is_none());
    let seconds = began.elapsed().as_secs_f64();
    assert!((2.9..3.5).contains(&seconds), "{seconds} s");
    saying.abort();
}

#[tokio::test(start_paused = true)]
async fn sent_firings_count_as_attempts_with_unknown_outcome() {
    let server = TestServer::start().await;
    server.due(1).await;
    let mut consumer = Consumer::open(&server, 1, 30).await;
    assert_eq!(consumer.firings().await[0].attempt, 1);
    drop(consumer);
    let mut next = Consumer::open(&server, 1, 30).await;
    let began = Instant::now();
    assert_eq!(next.firings().await[0].attempt, 2);
    assert!(began.elapsed() < SECOND, "at once");
    let (name, id) = (NamespaceName::new("a").unwrap(), TimerId::new("t0").unwrap());
    let view = server.app.store.get(ShardId(0), name, id, u64::MAX).await.unwrap().unwrap();
    assert!(view.maybe_delivered());
}

#[tokio::test(start_paused = true)]
async fn p10_a_watch_whose_request_never_ends_is_ended() {
    let server = TestServer::start().await;
    for path in ["/grpc.health.v1.Health/Watch", "/duly.v1.Timers/Consume"] {
        let begun = stream::iter([Ok::<_, Infallible>(&b"\0\0"[..])]).chain(stream::pending());
        let request = http::Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .body(Body::from_stream(begun))
            .unwrap();
        let began = Instant::now();
        let answer = async {
            let response = crate::grpc::router(server.app.clone()).oneshot(request).await.unwrap();
            let head = response.headers().clone();
            (head, http_body_util::BodyExt::collect(response.into_body()).await.unwrap())
        };
        let (head, body) = timeout(SECOND * 3_600, answer).await.expect("it does not end");
        let headers = body.trailers().unwrap_or(&head);
        let status = tonic::Status::from_header_map(headers).unwrap();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{path}: {status:?}");
        assert!(status.message().contains("server.request_timeout"), "{status:?}");
        assert_eq!(began.elapsed().as_secs(), 30, "{path}");
    }
}
