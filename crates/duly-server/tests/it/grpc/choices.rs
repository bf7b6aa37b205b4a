//! Messages that set two alternatives are refused and change nothing. Protobuf alone would keep the last
//! one.

use duly_api::v1;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::server::{
    NAMESPACE, Server, ack, after, at, lasting, named, scheduling, settled, settling,
};

/// Checks that a call was refused for this field, and the allowed values.
#[track_caller]
fn check(refused: &Status, field: &str, allowed: &str) {
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    let details = refused.get_error_details();
    assert_eq!(details.bad_request().unwrap().field_violations[0].field, field);
    assert!(refused.message().contains(allowed), "{refused:?}");
}

/// Checks that an item was refused for this field, and the allowed values.
#[track_caller]
fn check_item(problem: Option<Box<v1::Problem>>, field: &str, allowed: &str) {
    let problem = problem.expect("it is refused");
    assert_eq!((&problem.code[..], problem.field.as_deref()), ("invalid_argument", Some(field)));
    assert!(problem.allowed.as_deref().unwrap().contains(allowed), "{problem:?}");
}

fn pull_and_http() -> Option<v1::Destination> {
    let v1::Destination { http, .. } = v1::Destination::http("http://127.0.0.1:9/x");
    Some(v1::Destination { http, ..v1::Destination::pull() })
}

async fn get(server: &Server, id: &str) -> v1::Timer {
    let request = v1::GetRequest { namespace: NAMESPACE.into(), id: id.into() };
    server.timers().get(request).await.unwrap().into_inner()
}

#[tokio::test]
async fn a_schedule_has_one_member_of_each_choice() {
    let server = Server::start().await;
    let one = Some("1".into());
    for (schedule, field, allowed) in [
        (
            v1::Schedule { due_at: Some(at(4_000_000_000, 0)), ..named("t") },
            "schedule.delay",
            "exactly one of the two",
        ),
        (
            v1::Schedule { payload: one.clone(), payload_text: one.clone(), ..named("t") },
            "schedule.payload_text",
            "one payload",
        ),
        (
            v1::Schedule { payload_text: one.clone(), payload_base64: one.clone(), ..named("t") },
            "schedule.payload_base64",
            "one payload",
        ),
        (
            v1::Schedule { payload: one.clone(), payload_base64: one, ..named("t") },
            "schedule.payload_base64",
            "one payload",
        ),
        (
            v1::Schedule { destination: pull_and_http(), ..named("t") },
            "schedule.destination",
            "exactly one of pull, http",
        ),
    ] {
        let refused = server.timers().schedule(scheduling(schedule)).await.unwrap_err();
        check(&refused, field, allowed);
    }
    let info = server.cluster().get(v1::GetClusterRequest {}).await.unwrap().into_inner();
    assert_eq!(info.pending, 0, "what is refused changes nothing");
}

#[tokio::test]
async fn a_change_has_one_member_of_each_choice() {
    let server = Server::start().await;
    let before = server.schedule(named("t")).await;
    let none = v1::Reschedule::default;
    let one = Some("1".into());
    for (change, field, allowed) in [
        (
            v1::Reschedule {
                due_at: Some(at(4_000_000_000, 0)),
                delay: Some(lasting(1_000)),
                ..none()
            },
            "reschedule.delay",
            "exactly one of the two",
        ),
        (
            v1::Reschedule { payload: one.clone(), payload_text: one.clone(), ..none() },
            "reschedule.payload_text",
            "one payload",
        ),
        (
            v1::Reschedule { payload_text: one.clone(), payload_base64: one, ..none() },
            "reschedule.payload_base64",
            "one payload",
        ),
        (
            v1::Reschedule { destination: pull_and_http(), ..none() },
            "reschedule.destination",
            "exactly one of pull, http",
        ),
    ] {
        let reschedule = Some(v1::Reschedule { id: "t".into(), ..change });
        let request = v1::RescheduleRequest { namespace: NAMESPACE.into(), reschedule };
        let refused = server.timers().reschedule(request).await.unwrap_err();
        check(&refused, field, allowed);
    }
    assert_eq!(get(&server, "t").await, before);
}

#[tokio::test]
async fn a_namespace_has_one_destination() {
    let server = Server::start().await;
    let settings = v1::NamespaceSettings { destination: pull_and_http(), ..Default::default() };
    let put = v1::PutNamespaceRequest { namespace: NAMESPACE.into(), settings: Some(settings) };
    let refused = server.namespaces().put(put).await.unwrap_err();
    check(&refused, "settings.destination", "exactly one of pull, http");
    let request = v1::GetNamespaceRequest { namespace: NAMESPACE.into() };
    let nowhere = server.namespaces().get(request).await.unwrap_err();
    assert_eq!(nowhere.code(), Code::NotFound, "what is refused changes nothing");
}

#[tokio::test]
async fn an_operation_of_two_kinds_refuses_only_itself() {
    let server = Server::start().await;
    let before = server.schedule(named("t")).await;
    let cancel = Some(v1::Cancel { id: "t".into(), ..v1::Cancel::default() });
    let fire = Some(v1::Fire { id: "t".into() });
    let change = v1::Reschedule { delay: Some(lasting(1_000)), ..v1::Reschedule::default() };
    let reschedule = Some(v1::Reschedule { id: "t".into(), ..change }.into());
    let none = v1::Operation::default;
    let operations = vec![
        v1::Operation { schedule: Some(named("u").into()), cancel: cancel.clone(), ..none() },
        v1::Operation { cancel, fire: fire.clone(), ..none() },
        v1::Operation { reschedule, fire, ..none() },
        v1::Operation { schedule: Some(named("v").into()), ..none() },
    ];
    let request = v1::BatchRequest { namespace: NAMESPACE.into(), operations };
    let mut results = server.timers().batch(request).await.unwrap().into_inner().results;
    assert_eq!(results.len(), 4);
    let made = results.pop().unwrap();
    assert_eq!(made.timer.map(|timer| timer.id).as_deref(), Some("v"));
    for (i, result) in results.into_iter().enumerate() {
        assert_eq!((result.timer, result.cancelled), (None, None));
        let allowed = "exactly one of schedule, cancel, reschedule, fire";
        check_item(result.error, &format!("operations[{i}]"), allowed);
    }
    assert_eq!(get(&server, "t").await, before);
    let request = v1::GetRequest { namespace: NAMESPACE.into(), id: "u".into() };
    let missing = server.timers().get(request).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
}

#[tokio::test]
async fn a_settlement_with_two_verdicts_refuses_only_itself() {
    let server = Server::start().await;
    server.due(2, b"").await;
    let firings = server.lease(2).await;
    assert_eq!(firings.len(), 2);
    let (first, second) = (&firings[0].token, &firings[1].token);
    let dead = Some(v1::DeadVerdict { reason: "no".into() });
    let retry = Some(v1::RetryVerdict::default());
    let extend = Some(v1::ExtendVerdict { lease: Some(lasting(60_000)) });
    let settlements = vec![
        v1::Settlement { dead: dead.clone(), ..ack(first) },
        v1::Settlement { retry, ..ack(first) },
        v1::Settlement { extend, dead, ack: None, ..ack(first) },
        ack(second),
    ];
    let response = server.timers().settle(settling(settlements)).await.unwrap().into_inner();
    let mut results = response.results;
    assert_eq!(results.pop(), Some(settled(v1::SettleOutcome::Ok)));
    assert_eq!(results.len(), 3);
    for (i, result) in results.into_iter().enumerate() {
        assert_eq!(result.outcome, None);
        let allowed = "exactly one of ack, retry, snooze, dead, extend";
        check_item(result.error, &format!("settlements[{i}]"), allowed);
    }
    assert_eq!(get(&server, &firings[0].id).await.state(), v1::State::InFlight);
    let response = server.timers().settle(settling(vec![ack(first)])).await.unwrap().into_inner();
    assert_eq!(response.results, [settled(v1::SettleOutcome::Ok)], "it was not settled before");
}

#[tokio::test]
async fn a_call_on_many_timers_has_one_selection() {
    let server = Server::start().await;
    let mut timers = server.timers();
    server.schedule(v1::Schedule { id: Some("dead".into()), ..after(0) }).await;
    let token = server.lease(1).await.remove(0).token;
    let dead = Some(v1::DeadVerdict { reason: "no".into() });
    let request = settling(vec![v1::Settlement { token, dead, ..Default::default() }]);
    timers.settle(request).await.unwrap();
    let letter = get(&server, "dead").await;
    assert_eq!(letter.state(), v1::State::Dead);
    let pending = server.schedule(v1::Schedule { tags: vec!["red".into()], ..named("t") }).await;

    let namespace = || NAMESPACE.to_owned();
    let filter = v1::CancelFilter { tag: Some("red".into()), ..v1::CancelFilter::default() };
    let cancel = v1::CancelManyRequest {
        namespace: namespace(),
        filter: Some(filter),
        all: Some(true),
        ..v1::CancelManyRequest::default()
    };
    let refused = timers.cancel_many(cancel).await.unwrap_err();
    check(&refused, "all", "left out where a filter is given");

    let names = |name: &str| Some(v1::DeadLetterNames { names: vec![name.into()] });
    let (by_id, by_delivery) = (names("dead"), names(letter.delivery_id.as_deref().unwrap()));
    for (ids, delivery_ids, all) in [
        (by_id.clone(), by_delivery.clone(), None),
        (by_id, None, Some(true)),
        (None, by_delivery, Some(true)),
    ] {
        let purge = v1::PurgeRequest {
            namespace: namespace(),
            ids: ids.clone(),
            delivery_ids: delivery_ids.clone(),
            all,
            cursor: None,
        };
        let redrive = v1::RedriveRequest {
            namespace: namespace(),
            ids,
            delivery_ids,
            all,
            ..v1::RedriveRequest::default()
        };
        let refused = timers.redrive(redrive).await.unwrap_err();
        check(&refused, "body", "exactly one of ids, delivery_ids, all");
        let refused = timers.purge(purge).await.unwrap_err();
        check(&refused, "body", "exactly one of ids, delivery_ids, all");
    }
    assert_eq!((get(&server, "t").await, get(&server, "dead").await), (pending, letter));
}
