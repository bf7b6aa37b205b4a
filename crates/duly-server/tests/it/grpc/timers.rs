//! Every call on timers, with the same timers as over HTTP.

use bytes::Bytes;
use duly_api::v1::{self, State};
use serde_json::json;

use super::server::{NAMESPACE, Server, ack, after, lasting, named, scheduling, settled, settling};

fn namespace() -> String {
    NAMESPACE.to_owned()
}

fn cancelling(id: &str) -> v1::CancelRequest {
    let cancel = Some(v1::Cancel { id: id.into(), ..v1::Cancel::default() });
    v1::CancelRequest { namespace: namespace(), cancel }
}

fn getting(id: &str) -> v1::GetRequest {
    v1::GetRequest { namespace: namespace(), id: id.into() }
}

#[tokio::test]
async fn a_timer_lives_its_whole_life_over_grpc() {
    let server = Server::start().await;
    let mut timers = server.timers();
    let timer = server.schedule(named("t")).await;
    assert_eq!((timer.existing, timer.replaced), (false, false));
    assert_eq!(
        (timer.id.as_str(), timer.state(), timer.revision),
        ("t", State::Scheduled, Some(1))
    );

    let change = v1::Reschedule {
        id: "t".into(),
        delay: Some(lasting(7_200_000)),
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

    let request = settling(vec![ack(&firing.token)]);
    let response = timers.settle(request).await.unwrap().into_inner();
    assert_eq!(response.results, [settled(v1::SettleOutcome::Ok)]);

    let tombstone = timers.get(getting("t")).await.unwrap().into_inner();
    assert_eq!(
        (tombstone.state(), tombstone.tombstone, tombstone.attempts),
        (State::Finished, true, 1)
    );
    assert!(tombstone.finished_at.is_some());

    server.schedule(named("c")).await;
    let cancelled = timers.cancel(cancelling("c")).await.unwrap().into_inner();
    assert_eq!((cancelled.already, cancelled.maybe_delivered), (false, false));
    assert_eq!(cancelled.outcome, "cancelled");
    assert!(timers.cancel(cancelling("c")).await.unwrap().into_inner().already);
}

#[tokio::test]
async fn p6_the_same_request_is_the_same_over_both() {
    let server = Server::start().await;
    let schedule = v1::Schedule {
        payload: Some(b"[1, 2]".as_slice().into()),
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
    assert_eq!((first.existing, first.replaced), (false, false));
    let again = server.schedule(schedule.clone()).await;
    let unchanged = v1::Unchanged::SameRequest.into();
    assert_eq!(again, v1::Timer { existing: true, unchanged, ..first });
    let body = r#"{"id":"t","delay":"1h","payload":[1, 2],"headers":{"B":"2","a":"1"},
        "tags":["x"],"retry":{"max_attempts":3},"expire_after":"1m"}"#;
    let over_http = server.http("POST", "timers", body).await;
    assert_eq!(over_http["existing"], true, "{over_http}");
    let other = v1::Schedule { tags: Vec::new(), ..schedule.clone() };
    let refused = server.timers().schedule(scheduling(other.clone())).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::AlreadyExists);
    let replacing = v1::Schedule { if_exists: v1::IfExists::Replace.into(), ..other };
    let replaced = server.schedule(replacing.clone()).await;
    assert_eq!((replaced.existing, replaced.replaced), (false, true));
    let equal = v1::Schedule { if_exists: v1::IfExists::Restart.into(), ..replacing };
    let restarted = server.schedule(equal).await;
    assert_eq!((restarted.existing, restarted.replaced), (false, true));
}

#[tokio::test]
async fn p11_payloads_are_the_same_over_http_and_grpc() {
    let server = Server::start().await;
    let fields = ["payload", "payload_text", "payload_base64"];
    for (id, given, shown) in [
        ("b", [None, None, Some(&b"\x00\xff"[..])], json!("AP8=")),
        ("e", [None, None, Some(b"")], json!("")),
        ("t", [None, Some("\u{e9}".as_bytes()), None], json!("\u{e9}")),
        ("u", [None, Some(b""), None], json!("")),
        ("j", [Some(b"{\"a\":  1.0}"), None, None], json!({"a": 1.0})),
        ("n", [Some(b"null"), None, None], json!(null)),
    ] {
        let [payload, payload_text, payload_base64] = given.map(|it| it.map(Bytes::from_static));
        let schedule = v1::Schedule {
            id: Some(id.into()),
            payload: payload.clone(),
            payload_text: payload_text.clone(),
            payload_base64: payload_base64.clone(),
            ..after(0)
        };
        server.schedule(schedule).await;
        let over_http = server.http("GET", &format!("timers/{id}"), "").await;
        for (field, given) in fields.into_iter().zip(given) {
            let shown = given.is_some().then_some(&shown);
            assert_eq!(over_http.get(field), shown, "{field}: {over_http}");
        }
        let forms = (payload, payload_text, payload_base64);
        let timer = server.timers().get(getting(id)).await.unwrap().into_inner();
        assert_eq!((timer.payload, timer.payload_text, timer.payload_base64), forms, "{id}");
        let firing = server.lease(1).await.remove(0);
        assert_eq!(firing.id, id);
        assert_eq!((firing.payload, firing.payload_text, firing.payload_base64), forms, "{id}");
    }
    server.http("POST", "timers", r#"{"id":"h","delay":"1h","payload":{"b" :null}}"#).await;
    let timer = server.timers().get(getting("h")).await.unwrap().into_inner();
    assert_eq!(timer.payload.as_deref(), Some(&b"{\"b\" :null}"[..]));
    assert_eq!((timer.payload_text, timer.payload_base64), (None, None));
}

#[tokio::test]
async fn each_operation_of_a_batch_has_its_own_result() {
    let server = Server::start().await;
    let none = v1::Operation::default;
    let schedule = |it: v1::Schedule| v1::Operation { schedule: Some(it.into()), ..none() };
    let bad = v1::Schedule { tags: vec![String::new()], ..named("bad") };
    let change = v1::Reschedule {
        id: "t".into(),
        reset: vec![v1::TimerField::Payload.into()],
        ..v1::Reschedule::default()
    };
    let operations = vec![
        schedule(v1::Schedule { payload_base64: Some("x".into()), ..named("t") }),
        schedule(bad),
        v1::Operation { reschedule: Some(change.into()), ..none() },
        v1::Operation { fire: Some(v1::Fire { id: "nobody".into() }), ..none() },
        v1::Operation {
            cancel: Some(v1::Cancel { id: "t".into(), ..v1::Cancel::default() }),
            ..none()
        },
        none(),
    ];
    let request = v1::BatchRequest { namespace: namespace(), operations };
    let results = server.timers().batch(request).await.unwrap().into_inner().results;
    let kind =
        |it: &v1::OperationResult| (it.timer.is_some(), it.cancelled.is_some(), it.error.is_some());
    let (timer, cancelled, error) =
        ((true, false, false), (false, true, false), (false, false, true));
    let kinds: Vec<_> = results.iter().map(kind).collect();
    assert_eq!(kinds, [timer, error, timer, error, cancelled, error], "{results:?}");
    let timer = |i: usize| results[i].timer.clone().unwrap();
    let error = |i: usize| results[i].error.clone().unwrap();
    let made = timer(0);
    assert_eq!((made.existing, made.replaced), (false, false));
    let forms = (made.payload, made.payload_text, made.payload_base64);
    assert_eq!(forms, (None, None, None), "a batch answers without payloads");
    assert_eq!(error(1).code, "invalid_argument");
    assert_eq!(error(1).field.as_deref(), Some("operations[1].schedule.tags[0]"));
    assert_eq!(timer(2).revision, Some(2));
    assert_eq!(error(3).code, "not_found");
    assert_eq!(error(5).field.as_deref(), Some("operations[5]"));
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

#[tokio::test]
async fn a_summary_lists_timers_without_their_content() {
    let server = Server::start().await;
    let forms = [
        v1::Schedule { payload: Some("[1]".into()), ..after(0) },
        v1::Schedule { payload_text: Some("x".into()), ..after(0) },
        v1::Schedule { payload_base64: Some("x".into()), ..after(0) },
    ];
    for (id, form) in ["a", "b", "c"].into_iter().zip(forms) {
        let headers = vec![v1::Header { name: "h".into(), value: "1".into() }];
        let (id, tags) = (Some(id.into()), vec!["x".into()]);
        server.schedule(v1::Schedule { id, headers, tags, ..form }).await;
        let token = server.lease(1).await.remove(0).token;
        let after = Some(lasting(3_600_000));
        let retry = Some(v1::RetryVerdict { after, reason: Some("busy".into()) });
        let request = settling(vec![v1::Settlement { token, retry, ..Default::default() }]);
        let results = server.timers().settle(request).await.unwrap().into_inner().results;
        assert_eq!(results, [settled(v1::SettleOutcome::Ok)]);
    }
    let list = async |view: v1::View| {
        let request = v1::ListRequest {
            namespace: namespace(),
            view: view.into(),
            ..v1::ListRequest::default()
        };
        server.timers().list(request).await.unwrap().into_inner().timers
    };
    let full = list(v1::View::Full).await;
    assert_eq!(full.len(), 3);
    for (i, timer) in full.iter().enumerate() {
        let forms = [&timer.payload, &timer.payload_text, &timer.payload_base64];
        let given = forms.map(Option::is_some);
        assert_eq!(given, [i == 0, i == 1, i == 2], "{timer:?}");
        assert_eq!((timer.headers.len(), timer.history.len()), (1, 1), "{timer:?}");
        assert_eq!((timer.last_error.as_deref(), timer.tags.len()), (Some("busy"), 1));
    }
    assert_eq!(list(v1::View::Unspecified).await, full);
    let without_content = |timer: v1::Timer| v1::Timer {
        payload: None,
        payload_text: None,
        payload_base64: None,
        headers: Vec::new(),
        history: Vec::new(),
        ..timer
    };
    let expected: Vec<_> = full.into_iter().map(without_content).collect();
    assert_eq!(list(v1::View::Summary).await, expected);
}
