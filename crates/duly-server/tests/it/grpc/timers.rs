//! Every call on timers, and that they are those of HTTP.

use duly_api::v1::{
    self, PayloadForm, ScheduleOutcome, State, operation::Operation,
    operation_result::Result as Kind, settle_result,
};
use serde_json::json;

use super::server::{NAMESPACE, Server, ack, after, lasting, named, scheduling};

fn namespace() -> String {
    NAMESPACE.to_owned()
}

fn op(operation: Operation) -> v1::Operation {
    v1::Operation { operation: Some(operation) }
}

fn cancelling(id: &str) -> v1::CancelRequest {
    let cancel = Some(v1::Cancel { id: id.into(), if_revision: None });
    v1::CancelRequest { namespace: namespace(), cancel }
}

fn getting(id: &str) -> v1::GetRequest {
    v1::GetRequest { namespace: namespace(), id: id.into() }
}

#[tokio::test]
async fn a_timer_lives_its_whole_life_over_grpc() {
    let server = Server::start().await;
    let mut timers = server.timers();
    let made = server.schedule(named("t")).await;
    assert_eq!(made.outcome(), ScheduleOutcome::Created);
    let timer = made.timer.unwrap();
    assert_eq!(
        (timer.id.as_str(), timer.state(), timer.revision),
        ("t", State::Scheduled, Some(1))
    );

    let change = v1::Reschedule {
        id: "t".into(),
        when: Some(v1::reschedule::When::Delay(lasting(7_200_000))),
        tags: Some(v1::TagList { tags: vec!["x".into()] }),
        if_revision: Some(1),
        ..v1::Reschedule::default()
    };
    let request = v1::RescheduleRequest { namespace: namespace(), reschedule: Some(change) };
    let changed = timers.reschedule(request).await.unwrap().into_inner();
    assert_eq!((changed.revision, &changed.tags[..]), (Some(2), &["x".to_owned()][..]));

    let request = v1::ListRequest {
        namespace: namespace(),
        tag: Some("x".into()),
        ..v1::ListRequest::default()
    };
    let page = timers.list(request).await.unwrap().into_inner();
    assert_eq!((page.timers.len(), page.cursor), (1, None));

    let request =
        v1::FireRequest { namespace: namespace(), fire: Some(v1::Fire { id: "t".into() }) };
    assert_eq!(timers.fire(request).await.unwrap().into_inner().revision, Some(3));

    let firing = server.lease(10).await.remove(0);
    assert_eq!((firing.id.as_str(), firing.attempt, firing.occurrence), ("t", 1, 0));
    assert_eq!(Some(firing.delivery_id), timer.delivery_id);
    assert!(firing.leased_until.is_some() && firing.due_at.is_some());

    let request =
        v1::SettleRequest { namespace: namespace(), settlements: vec![ack(&firing.token)] };
    let settled = timers.settle(request).await.unwrap().into_inner().results;
    let ok = settle_result::Result::Outcome(v1::SettleOutcome::Ok.into());
    assert_eq!(settled, [v1::SettleResult { result: Some(ok) }]);

    let tombstone = timers.get(getting("t")).await.unwrap().into_inner();
    assert_eq!(
        (tombstone.state(), tombstone.tombstone, tombstone.attempts),
        (State::Finished, true, 1)
    );
    assert!(tombstone.finished_at.is_some());

    server.schedule(named("c")).await;
    let cancelled = timers.cancel(cancelling("c")).await.unwrap().into_inner();
    assert_eq!((cancelled.already, cancelled.maybe_delivered), (false, false));
    assert!(timers.cancel(cancelling("c")).await.unwrap().into_inner().already);
}

#[tokio::test]
async fn p6_the_same_request_is_the_same_over_both() {
    let server = Server::start().await;
    let schedule = v1::Schedule {
        payload: Some(b"[1, 2]".as_slice().into()),
        payload_form: PayloadForm::Json.into(),
        headers: vec![
            v1::Header { name: "B".into(), value: "2".into() },
            v1::Header { name: "a".into(), value: "1".into() },
        ],
        tags: vec!["x".into()],
        retry: Some(v1::Retry { max_attempts: Some(3), ..v1::Retry::default() }),
        expire_after: Some(lasting(60_000)),
        ..named("t")
    };
    let first = server.schedule(schedule.clone()).await;
    assert_eq!(first.outcome(), ScheduleOutcome::Created);
    let again = server.schedule(schedule.clone()).await;
    assert_eq!((again.outcome(), again.timer), (ScheduleOutcome::Existing, first.timer));
    let body = r#"{"id":"t","delay":"1h","payload":[1, 2],"headers":{"B":"2","a":"1"},
        "tags":["x"],"retry":{"max_attempts":3},"expire_after":"1m"}"#;
    let over_http = server.http("POST", "timers", body).await;
    assert_eq!(over_http["existing"], true, "{over_http}");
    let other = v1::Schedule { tags: Vec::new(), ..schedule.clone() };
    let refused = server.timers().schedule(scheduling(other.clone())).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::AlreadyExists);
    let replacing = v1::Schedule { if_exists: v1::IfExists::Replace.into(), ..other };
    assert_eq!(server.schedule(replacing).await.outcome(), ScheduleOutcome::Replaced);
}

#[tokio::test]
async fn p11_a_payload_is_the_same_over_both_and_in_the_form_it_was_given() {
    let server = Server::start().await;
    for (id, form, payload, field, shown) in [
        ("b", PayloadForm::Unspecified, &b"\x00\xff"[..], "payload_base64", json!("AP8=")),
        ("e", PayloadForm::Bytes, b"", "payload_base64", json!("")),
        ("t", PayloadForm::Text, "\u{e9}".as_bytes(), "payload_text", json!("\u{e9}")),
        ("j", PayloadForm::Json, b"{\"a\":  1.0}", "payload", json!({"a": 1.0})),
    ] {
        let payload = Some(payload.to_vec().into());
        server
            .schedule(v1::Schedule {
                payload: payload.clone(),
                payload_form: form.into(),
                ..v1::Schedule { id: Some(id.into()), ..after(0) }
            })
            .await;
        let timer = server.http("GET", &format!("timers/{id}"), "").await;
        assert_eq!(timer[field], shown, "{timer}");
        let firing = server.lease(1).await.remove(0);
        assert_eq!((firing.id.as_str(), firing.payload), (id, payload));
    }
    server.http("POST", "timers", r#"{"id":"h","delay":"1h","payload":{"b" :null}}"#).await;
    let timer = server.timers().get(getting("h")).await.unwrap().into_inner();
    assert_eq!(timer.payload.as_deref(), Some(&b"{\"b\" :null}"[..]));
    assert_eq!(timer.payload_form(), PayloadForm::Json);
}

#[tokio::test]
async fn each_operation_of_a_batch_has_its_own_result() {
    let server = Server::start().await;
    let cancel = |id: &str| Operation::Cancel(v1::Cancel { id: id.into(), if_revision: None });
    let bad = v1::Schedule { tags: vec![String::new()], ..named("bad") };
    let change = v1::Reschedule {
        id: "t".into(),
        reset: vec![v1::TimerField::Payload.into()],
        ..v1::Reschedule::default()
    };
    let operations = vec![
        op(Operation::Schedule(v1::Schedule { payload: Some("x".into()), ..named("t") })),
        op(Operation::Schedule(bad)),
        op(Operation::Reschedule(change)),
        op(Operation::Fire(v1::Fire { id: "nobody".into() })),
        op(cancel("t")),
        v1::Operation { operation: None },
    ];
    let request = v1::BatchRequest { namespace: namespace(), operations };
    let results = server.timers().batch(request).await.unwrap().into_inner().results;
    let mut results = results.into_iter().map(|result| result.result.unwrap());
    let Some(Kind::Scheduled(made)) = results.next() else { panic!("no timer") };
    assert_eq!(made.timer.unwrap().payload, None, "a batch answers without payloads");
    let error = |results: &mut dyn Iterator<Item = Kind>| match results.next() {
        Some(Kind::Error(problem)) => problem,
        other => panic!("{other:?}"),
    };
    let problem = error(&mut results);
    assert_eq!(problem.code, "invalid_argument");
    assert_eq!(problem.field.as_deref(), Some("operations[1].schedule.tags[0]"));
    let Some(Kind::Timer(changed)) = results.next() else { panic!("no timer") };
    assert_eq!(changed.revision, Some(2));
    assert_eq!(error(&mut results).code, "not_found");
    assert!(matches!(results.next(), Some(Kind::Cancelled(_))));
    assert_eq!(error(&mut results).field.as_deref(), Some("operations[5]"));
    let tombstone = server.timers().get(getting("t")).await.unwrap().into_inner();
    assert_eq!(tombstone.state(), State::Cancelled);
}

#[tokio::test]
async fn pages_follow_each_other() {
    let server = Server::start().await;
    server.due(5, b"").await;
    let mut timers = server.timers();
    let mut request =
        v1::ListRequest { namespace: namespace(), limit: Some(2), ..v1::ListRequest::default() };
    let mut ids = Vec::new();
    loop {
        let page = timers.list(request.clone()).await.unwrap().into_inner();
        ids.extend(page.timers.into_iter().map(|timer| timer.id));
        request.cursor = page.cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    ids.sort();
    assert_eq!(ids, ["00000", "00001", "00002", "00003", "00004"]);
}
