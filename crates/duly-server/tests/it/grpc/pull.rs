//! Settling and leasing in one call.

use duly_api::v1;
use tonic::Code;
use tonic_types::StatusExt;

use super::server::{NAMESPACE, Server, ack, lasting, settled, settling};

/// The request to settle, and to lease the next firings.
fn settling_and_leasing(
    settlements: Vec<v1::Settlement>,
    lease: v1::LeaseRequest,
) -> v1::SettleRequest {
    v1::SettleRequest { lease: Some(lease), ..settling(settlements) }
}

/// The lease of the next firings; a settle call names the namespace once.
fn next(max: u32) -> v1::LeaseRequest {
    v1::LeaseRequest { max: Some(max), ..v1::LeaseRequest::default() }
}

async fn get(server: &Server, id: &str) -> v1::Timer {
    let request = v1::GetRequest { namespace: NAMESPACE.into(), id: id.into() };
    server.timers().get(request).await.unwrap().into_inner()
}

#[tokio::test]
async fn one_call_settles_a_firing_and_leases_the_next() {
    let server = Server::start().await;
    let mut timers = server.timers();
    server.due(3, b"x").await;
    let first = server.lease(1).await.remove(0);
    let lease = v1::LeaseRequest { lease: Some(lasting(3_600_000)), ..next(1) };
    let request = settling_and_leasing(vec![ack(&first.token)], lease);
    let response = timers.settle(request).await.unwrap().into_inner();
    assert_eq!(response.results, [settled(v1::SettleOutcome::Ok)]);
    let mut leased = response.leased.expect("it asked for firings");
    assert_eq!((leased.firings.len(), leased.paused), (1, false), "no more than it asked for");
    let second = leased.firings.remove(0);
    assert_ne!(second.id, first.id);
    assert_eq!((second.attempt, second.payload_base64.as_deref()), (1, Some(&b"x"[..])));
    assert_eq!(get(&server, &first.id).await.state(), v1::State::Finished);
    let timer = get(&server, &second.id).await;
    assert_eq!((timer.state(), timer.leased_until), (v1::State::InFlight, second.leased_until));

    // The lease is valid when the response is read: its token settles, and the calls continue to the
    // last one.
    let request = settling_and_leasing(vec![ack(&second.token)], next(10));
    let response = timers.settle(request).await.unwrap().into_inner();
    assert_eq!(response.results, [settled(v1::SettleOutcome::Ok)]);
    let leased = response.leased.expect("it asked for firings").firings;
    assert_eq!(leased.len(), 1);
    let request = settling(vec![ack(&leased[0].token)]);
    let response = timers.settle(request).await.unwrap().into_inner();
    assert_eq!(response.results, [settled(v1::SettleOutcome::Ok)]);
    assert_eq!(response.leased, None, "it asked for no firings");
}

#[tokio::test]
async fn a_firing_settled_to_retry_at_once_is_leased_again() {
    let server = Server::start().await;
    server.due(1, b"").await;
    let first = server.lease(1).await.remove(0);
    let retry = Some(v1::RetryVerdict { after: Some(lasting(0)), reason: None });
    let settlement =
        v1::Settlement { token: first.token.clone(), retry, ..v1::Settlement::default() };
    let lease = v1::LeaseRequest { wait: Some(lasting(60_000)), ..next(1) };
    let request = settling_and_leasing(vec![settlement], lease);
    let response = server.timers().settle(request).await.unwrap().into_inner();
    assert_eq!(response.results, [settled(v1::SettleOutcome::Ok)]);
    let again = &response.leased.unwrap().firings[0];
    assert_eq!((&again.id, again.attempt), (&first.id, 2), "settled first, then leased");
}

#[tokio::test]
async fn settlements_count_when_the_lease_finds_nothing() {
    let server = Server::start().await;
    server.due(1, b"").await;
    let firing = server.lease(1).await.remove(0);
    let request = settling_and_leasing(vec![ack(&firing.token)], next(1));
    let response = server.timers().settle(request).await.unwrap().into_inner();
    assert_eq!(response.results, [settled(v1::SettleOutcome::Ok)]);
    assert_eq!(response.leased, Some(v1::LeaseResponse::default()));
    assert_eq!(get(&server, &firing.id).await.state(), v1::State::Finished);
}

#[tokio::test]
async fn settlements_count_while_the_namespace_is_paused() {
    let server = Server::start().await;
    server.due(2, b"").await;
    let firing = server.lease(1).await.remove(0);
    let pause = v1::PauseRequest { namespace: NAMESPACE.into() };
    server.namespaces().pause(pause).await.unwrap();
    let request = settling_and_leasing(vec![ack(&firing.token)], next(1));
    let response = server.timers().settle(request).await.unwrap().into_inner();
    assert_eq!(response.results, [settled(v1::SettleOutcome::Ok)]);
    assert_eq!(response.leased, Some(v1::LeaseResponse { firings: Vec::new(), paused: true }));
    assert_eq!(get(&server, &firing.id).await.state(), v1::State::Finished);
}

#[tokio::test]
async fn an_invalid_lease_refuses_the_whole_settle_call() {
    let server = Server::start().await;
    let mut timers = server.timers();
    server.due(2, b"").await;
    let firing = server.lease(1).await.remove(0);
    for (lease, field) in [
        (next(0), "lease.max"),
        (next(10_001), "lease.max"),
        (v1::LeaseRequest { max_bytes: Some(1 << 30), ..next(1) }, "lease.max_bytes"),
        (v1::LeaseRequest { lease: Some(lasting(999)), ..next(1) }, "lease.lease"),
        (v1::LeaseRequest { wait: Some(lasting(60_001)), ..next(1) }, "lease.wait"),
    ] {
        let request = settling_and_leasing(vec![ack(&firing.token)], lease);
        let refused = timers.settle(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        let violations = refused.get_error_details().bad_request().unwrap().clone();
        assert_eq!(violations.field_violations[0].field, field);
        assert_eq!(get(&server, &firing.id).await.state(), v1::State::InFlight, "{field}");
    }
    let request = settling_and_leasing(vec![ack(&firing.token)], next(2));
    let response = timers.settle(request).await.unwrap().into_inner();
    assert_eq!(response.results, [settled(v1::SettleOutcome::Ok)], "it was not settled before");
    assert_eq!(response.leased.unwrap().firings.len(), 1, "the other was not leased before");
}
