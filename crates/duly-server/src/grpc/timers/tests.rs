//! Lease and settle calls over gRPC in virtual time, and on a server whose memory is full.

use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut, BytesMut};
use duly_api::v1::{self, LeaseRequest, LeaseResponse, timers_client::TimersClient};
use prost::Message;
use tokio::time::Instant;
use tonic::{Code, Response, Status};
use tonic_types::StatusExt;
use tower::ServiceExt;

use crate::tests::{REQUEST_MEMORY, TestServer};

fn next(max: u32) -> LeaseRequest {
    LeaseRequest { max: Some(max), ..LeaseRequest::default() }
}

async fn lease(server: &TestServer, max: u32) -> Result<Response<LeaseResponse>, Status> {
    let origin = "http://localhost".parse().unwrap();
    let mut client = TimersClient::with_origin(server.direct(), origin);
    client.lease(LeaseRequest { namespace: "a".into(), ..next(max) }).await
}

fn settling(settlements: Vec<v1::Settlement>, lease: Option<LeaseRequest>) -> v1::SettleRequest {
    v1::SettleRequest { namespace: "a".into(), settlements, lease }
}

async fn settle(
    server: &TestServer,
    request: v1::SettleRequest,
) -> Result<v1::SettleResponse, Status> {
    let origin = "http://localhost".parse().unwrap();
    let mut client = TimersClient::with_origin(server.direct(), origin);
    Ok(client.settle(request).await?.into_inner())
}

fn ack(token: &str) -> v1::Settlement {
    v1::Settlement { token: token.into(), ack: Some(v1::Ack {}), ..v1::Settlement::default() }
}

fn settled(outcome: v1::SettleOutcome) -> v1::SettleResult {
    v1::SettleResult { outcome: Some(outcome.into()), error: None }
}

#[tokio::test(start_paused = true)]
async fn p10_calls_refused_for_lack_of_memory_claim_nothing() {
    let server = TestServer::start().await;
    server.due(3).await;
    // The rest of the budget is enough for the call.
    let full = server.budget().reserve_unchecked(REQUEST_MEMORY - 10_000);
    let refused = lease(&server, 10).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.get_error_details().retry_info().unwrap().retry_delay.is_some());
    assert_eq!(server.granted(), 0);
    drop(full);
    let leased = lease(&server, 10).await.unwrap();
    assert_eq!((leased.into_inner().firings.len(), server.granted()), (3, 3));
    assert!(server.uses_no_memory(), "the answer is with its caller");
}

#[tokio::test(start_paused = true)]
async fn p10_settlements_count_without_memory_for_firings() {
    let server = TestServer::start().await;
    server.due(3).await;
    let firing = lease(&server, 1).await.unwrap().into_inner().firings.remove(0);
    assert_eq!(server.granted(), 1);
    let full = server.budget().reserve_unchecked(REQUEST_MEMORY - 10_000);
    let request = settling(vec![ack(&firing.token)], Some(next(10)));
    let response = settle(&server, request.clone()).await.unwrap();
    assert_eq!(response.results, [settled(v1::SettleOutcome::Ok)]);
    assert_eq!(response.leased, Some(LeaseResponse::default()));
    assert_eq!(server.granted(), 1);
    drop(full);
    let response = settle(&server, request).await.unwrap();
    assert_eq!(response.results, [settled(v1::SettleOutcome::AlreadySettled)]);
    assert_eq!((response.leased.unwrap().firings.len(), server.granted()), (2, 3));
    assert!(server.uses_no_memory(), "the answer is with its caller");
}

#[tokio::test(start_paused = true)]
async fn p10_results_are_counted_whether_or_not_firings_follow() {
    let server = TestServer::start().await;
    server.due(1).await;
    // None has a verdict, so each is refused with its own text.
    let settlements = vec![v1::Settlement::default(); 2_000];
    let bytes = settle(&server, settling(settlements.clone(), None)).await.unwrap().encoded_len();
    assert!(bytes > 200_000, "{bytes}");
    for lease in [None, Some(next(1))] {
        let message = settling(settlements.clone(), lease.clone()).encode_to_vec();
        let mut body = BytesMut::new();
        body.put_u8(0);
        body.put_u32(u32::try_from(message.len()).unwrap());
        body.put_slice(&message);
        let request = http::Request::post("http://localhost/duly.v1.Timers/Settle")
            .header("content-type", "application/grpc")
            .body(Body::from(body.freeze()))
            .unwrap();
        let response = crate::grpc::router(server.app.clone()).oneshot(request).await.unwrap();
        assert!(Status::from_header_map(response.headers()).is_none(), "{response:?}");
        let rest = server.budget().reserve_unchecked(REQUEST_MEMORY - bytes);
        let is_counted = server.budget().reserve(1).is_err();
        assert!(is_counted, "{lease:?}: the answer is not with its caller yet");
        drop((rest, response));
    }
}

#[tokio::test(start_paused = true)]
async fn a_settle_call_waits_for_firings_as_a_lease_does() {
    let server = TestServer::start().await;
    let minute = Duration::from_secs(60);
    let waiting = LeaseRequest { wait: Some(minute.into()), ..next(1) };
    let began = Instant::now();
    let response = settle(&server, settling(vec![ack("none")], Some(waiting))).await;
    assert_eq!(began.elapsed().as_secs(), 60, "{response:?}");
    let response = response.expect("its time limit leaves room for the wait");
    assert_eq!(response.results, [settled(v1::SettleOutcome::InvalidToken)]);
    assert_eq!(response.leased, Some(LeaseResponse::default()));
}
