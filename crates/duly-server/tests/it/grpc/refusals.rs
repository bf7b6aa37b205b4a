//! Refusals: the code, the reason, the field at fault, and the time to retry.

use std::time::Duration;

use duly_api::v1;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::server::{NAMESPACE, Server, after, at, lasting, named, scheduling, settled, settling};

/// The content of a status.
#[derive(Debug, PartialEq, Eq)]
struct StatusParts {
    code: Code,
    reason: String,
    field: Option<String>,
    retry: Option<Duration>,
}

fn parts_of(status: &Status) -> StatusParts {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no reason: {status:?}"));
    assert_eq!(info.domain, "duly");
    assert_eq!(info.metadata["code"].to_ascii_uppercase(), info.reason);
    assert!(!status.message().is_empty());
    let violations = details.bad_request().map(|it| it.field_violations.clone());
    StatusParts {
        code: status.code(),
        reason: info.reason.clone(),
        field: violations.map(|mut it| it.remove(0).field),
        retry: details.retry_info().and_then(|it| it.retry_delay),
    }
}

#[track_caller]
fn check(status: &Status, code: Code, reason: &str, field: Option<&str>) {
    let expected = StatusParts {
        code,
        reason: reason.into(),
        field: field.map(str::to_owned),
        retry: (reason == "IN_FLIGHT").then(|| Duration::from_secs(1)),
    };
    assert_eq!(parts_of(status), expected, "{}", status.message());
}

fn schedule_of(change: impl FnOnce(&mut v1::Schedule)) -> v1::ScheduleRequest {
    let mut schedule = named("t");
    change(&mut schedule);
    scheduling(schedule)
}

#[tokio::test]
async fn a_value_that_is_not_allowed_is_named_with_its_path() {
    let server = Server::start().await;
    let mut timers = server.timers();
    let due_at =
        |seconds, nanos| schedule_of(|s| (s.due_at, s.delay) = (Some(at(seconds, nanos)), None));
    let webhook = |url: &str, timeout_ms| v1::Destination {
        pull: None,
        http: Some(v1::HttpDestination {
            url: url.into(),
            timeout: Some(lasting(timeout_ms)),
            ..v1::HttpDestination::default()
        }),
    };
    let header = |name: &str| v1::Header { name: name.into(), value: "x".into() };
    let table: Vec<(v1::ScheduleRequest, &str)> = vec![
        (v1::ScheduleRequest { namespace: NAMESPACE.into(), schedule: None }, "schedule"),
        (v1::ScheduleRequest { namespace: "a b".into(), ..scheduling(named("t")) }, "namespace"),
        (v1::ScheduleRequest { namespace: String::new(), ..scheduling(named("t")) }, "namespace"),
        (schedule_of(|s| s.id = Some("..".into())), "schedule.id"),
        (schedule_of(|s| s.delay = None), "schedule.due_at"),
        (schedule_of(|s| s.id = Some(" t".into())), "schedule.id"),
        (due_at(-1, 0), "schedule.due_at.seconds"),
        (due_at(7_258_118_400, 1), "schedule.due_at.seconds"),
        (due_at(1, 1_000_000_000), "schedule.due_at.nanos"),
        (schedule_of(|s| s.delay = Some(lasting(-1))), "schedule.delay.nanos"),
        (schedule_of(|s| s.payload_text = Some((&b"\xff"[..]).into())), "schedule.payload_text"),
        (schedule_of(|s| s.payload = Some((&b"{"[..]).into())), "schedule.payload"),
        (schedule_of(|s| s.payload = Some((&b"\"\xff\""[..]).into())), "schedule.payload"),
        (schedule_of(|s| s.if_exists = -1), "schedule.if_exists"),
        (schedule_of(|s| s.if_exists = 99), "schedule.if_exists"),
        (schedule_of(|s| s.headers = vec![header("Host")]), "schedule.headers.Host"),
        (schedule_of(|s| s.headers = vec![header("a"), header("a")]), "schedule.headers"),
        (schedule_of(|s| s.tags = vec!["x".into(); 17]), "schedule.tags"),
        (schedule_of(|s| s.slot_key = Some(String::new())), "schedule.slot_key"),
        (schedule_of(|s| s.destination = Some(v1::Destination::default())), "schedule.destination"),
        (
            schedule_of(|s| s.destination = Some(webhook("ftp://x", 1_000))),
            "schedule.destination.http.url",
        ),
        (
            schedule_of(|s| s.destination = Some(webhook("http://x", 1))),
            "schedule.destination.http.timeout",
        ),
        (
            schedule_of(|s| {
                s.retry = Some(v1::Retry { jitter: Some(f64::NAN), ..v1::Retry::default() });
            }),
            "schedule.retry.jitter",
        ),
        (schedule_of(|s| s.expire_after = Some(lasting(-1_000))), "schedule.expire_after.seconds"),
        (schedule_of(|s| s.expire_after = Some(lasting(0))), "schedule.expire_after"),
        (schedule_of(|s| s.expire_after = Some(lasting(999))), "schedule.expire_after"),
    ];
    for (request, field) in table {
        let refused = timers.schedule(request).await.unwrap_err();
        check(&refused, Code::InvalidArgument, "INVALID_ARGUMENT", Some(field));
    }
    let list = v1::ListRequest { namespace: NAMESPACE.into(), ..v1::ListRequest::default() };
    for (request, field) in [
        (v1::ListRequest { limit: Some(0), ..list.clone() }, "limit"),
        (v1::ListRequest { limit: Some(1_001), ..list.clone() }, "limit"),
        (v1::ListRequest { cursor: Some("x".into()), ..list.clone() }, "cursor"),
        (v1::ListRequest { state: 77, ..list.clone() }, "state"),
        (v1::ListRequest { view: 99, ..list.clone() }, "view"),
    ] {
        let refused = timers.list(request).await.unwrap_err();
        check(&refused, Code::InvalidArgument, "INVALID_ARGUMENT", Some(field));
    }
    let lease = v1::LeaseRequest { namespace: NAMESPACE.into(), ..v1::LeaseRequest::default() };
    for (request, field) in [
        (v1::LeaseRequest { max: Some(0), ..lease.clone() }, "max"),
        (v1::LeaseRequest { max: Some(10_001), ..lease.clone() }, "max"),
        (v1::LeaseRequest { max_bytes: Some(1 << 30), ..lease.clone() }, "max_bytes"),
        (v1::LeaseRequest { wait: Some(lasting(60_001)), ..lease.clone() }, "wait"),
        (v1::LeaseRequest { lease: Some(lasting(999)), ..lease.clone() }, "lease"),
    ] {
        let refused = timers.lease(request).await.unwrap_err();
        check(&refused, Code::InvalidArgument, "INVALID_ARGUMENT", Some(field));
    }
    let all = server.cluster().get(v1::GetClusterRequest {}).await.unwrap().into_inner();
    assert_eq!(all.pending, 0, "what is refused changes nothing");
}

#[tokio::test]
async fn a_change_must_change_something_and_may_not_contradict_itself() {
    let server = Server::start().await;
    server.schedule(named("t")).await;
    let change = v1::Reschedule { id: "t".into(), ..v1::Reschedule::default() };
    let tags = Some(v1::TagList { tags: vec!["x".into()] });
    let payload_text = Some("x".into());
    let reset = |field: v1::TimerField| vec![field.into()];
    for (change, field) in [
        (change.clone(), "reschedule"),
        (
            v1::Reschedule { tags, reset: reset(v1::TimerField::Tags), ..change.clone() },
            "reschedule.reset[0]",
        ),
        (
            v1::Reschedule {
                payload_text,
                reset: reset(v1::TimerField::Payload),
                ..change.clone()
            },
            "reschedule.reset[0]",
        ),
        (
            v1::Reschedule { reset: reset(v1::TimerField::Unspecified), ..change.clone() },
            "reschedule.reset[0]",
        ),
        (v1::Reschedule { reset: vec![99], ..change.clone() }, "reschedule.reset[0]"),
        (v1::Reschedule { if_revision: Some(0), ..change.clone() }, "reschedule"),
    ] {
        let request =
            v1::RescheduleRequest { namespace: NAMESPACE.into(), reschedule: Some(change) };
        let refused = server.timers().reschedule(request).await.unwrap_err();
        check(&refused, Code::InvalidArgument, "INVALID_ARGUMENT", Some(field));
    }
}

#[tokio::test]
async fn a_state_that_does_not_allow_it_is_a_code_of_its_own() {
    let server = Server::start().await;
    let mut timers = server.timers();
    let get =
        |namespace: &str, id: &str| v1::GetRequest { namespace: namespace.into(), id: id.into() };
    let refused = timers.get(get("nowhere", "t")).await.unwrap_err();
    check(&refused, Code::NotFound, "NOT_FOUND", None);
    server.schedule(named("t")).await;
    let refused = timers.get(get(NAMESPACE, "other")).await.unwrap_err();
    check(&refused, Code::NotFound, "NOT_FOUND", None);
    let other = scheduling(v1::Schedule { tags: vec!["x".into()], ..named("t") });
    let refused = timers.schedule(other).await.unwrap_err();
    check(&refused, Code::AlreadyExists, "ALREADY_EXISTS", None);
    let cancel = |id: &str, if_revision| v1::CancelRequest {
        namespace: NAMESPACE.into(),
        cancel: Some(v1::Cancel { id: id.into(), if_revision, ..v1::Cancel::default() }),
    };
    let refused = timers.cancel(cancel("t", Some(7))).await.unwrap_err();
    check(&refused, Code::Aborted, "REVISION_MISMATCH", None);
    let told = refused.get_error_details().error_info().unwrap().metadata.clone();
    assert_eq!((&told["expected_revision"][..], &told["actual_revision"][..]), ("7", "1"));

    server.schedule(v1::Schedule { id: Some("f".into()), ..after(0) }).await;
    let firing = server.lease(1).await.remove(0);
    let refused = timers.cancel(cancel("f", None)).await.unwrap_err();
    check(&refused, Code::FailedPrecondition, "IN_FLIGHT", None);
    let told = refused.get_error_details().error_info().unwrap().metadata.clone();
    assert_eq!((&told["outcome"][..], &told["attempts"][..]), ("in_flight", "1"));
    let dead = Some(v1::DeadVerdict { reason: "broken".into() });
    let settlement = v1::Settlement { token: firing.token, dead, ..v1::Settlement::default() };
    let results = timers.settle(settling(vec![settlement])).await.unwrap().into_inner().results;
    assert_eq!(results, [settled(v1::SettleOutcome::Ok)]);
    let refused = timers.cancel(cancel("f", None)).await.unwrap_err();
    check(&refused, Code::FailedPrecondition, "DEAD", None);
    let request = v1::DeleteNamespaceRequest { namespace: NAMESPACE.into(), force: false };
    let refused = server.namespaces().delete(request).await.unwrap_err();
    check(&refused, Code::FailedPrecondition, "NAMESPACE_NOT_EMPTY", None);
}

#[tokio::test]
async fn a_limit_that_time_lifts_says_when_to_come_again() {
    let server = Server::start().await;
    let settings = v1::NamespaceSettings {
        limits: Some(v1::Limits {
            lane: None,
            namespace: Some(v1::NamespaceLimits {
                schedule_per_second: Some(1),
                max_payload_bytes: Some(3),
                ..v1::NamespaceLimits::default()
            }),
        }),
        ..v1::NamespaceSettings::default()
    };
    let request = v1::PutNamespaceRequest { namespace: NAMESPACE.into(), settings: Some(settings) };
    assert!(server.namespaces().put(request).await.unwrap().into_inner().created);
    let large = v1::Schedule { payload_base64: Some("1234".into()), ..named("large") };
    let refused = server.timers().schedule(scheduling(large)).await.unwrap_err();
    let field = Some("schedule.payload");
    check(&refused, Code::InvalidArgument, "PAYLOAD_TOO_LARGE", field);
    let names = ["a", "b", "c", "d"].into_iter().cycle();
    // One call a second fits, so some of very many do not.
    for (i, name) in names.enumerate() {
        let id = format!("{name}{i}");
        if let Err(refused) = server.timers().schedule(scheduling(named(&id))).await {
            let parts = parts_of(&refused);
            assert_eq!(
                (parts.code, &parts.reason[..]),
                (Code::ResourceExhausted, "RESOURCE_EXHAUSTED")
            );
            assert!(parts.retry.is_some_and(|wait| wait > Duration::ZERO), "{parts:?}");
            break;
        }
    }
}

#[tokio::test]
async fn p10_ten_thousand_items_fit_and_one_more_does_not() {
    let server = Server::start().await;
    let mut timers = server.timers();
    server.due(10_000, b"").await;
    let firings = server.lease(10_000).await;
    assert_eq!(firings.len(), 10_000);
    let mut settlements: Vec<_> =
        firings.iter().map(|firing| super::server::ack(&firing.token)).collect();
    let response = timers.settle(settling(settlements.clone())).await.unwrap().into_inner();
    assert_eq!(response.results.len(), 10_000);
    settlements.push(super::server::ack("x"));
    let refused = timers.settle(settling(settlements)).await.unwrap_err();
    check(&refused, Code::InvalidArgument, "REQUEST_TOO_LARGE", Some("settlements"));
    let operations = vec![v1::Operation::default(); 10_001];
    let request = v1::BatchRequest { namespace: NAMESPACE.into(), operations };
    let refused = timers.batch(request).await.unwrap_err();
    check(&refused, Code::InvalidArgument, "REQUEST_TOO_LARGE", Some("operations"));
}
