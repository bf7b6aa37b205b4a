//! Every call once, on a real server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duly_client::{
    Client, Code, DeadReason, Destination, Error, Fallback, Header, IfExists, LeaseRequest, Limits,
    ListRequest, NamespaceField, NamespaceLimits, NamespaceSettings, Reschedule, Retry,
    RetryAdvice, RetryVerdict, Schedule, SettleOutcome, Settlement, State, Time, Timer, TimerField,
};
use futures::{FutureExt, StreamExt};

use crate::server::{HOUR, NAMESPACE, Server, due, later, lease};

/// Returns a time in Duly's precision.
fn moment(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

fn system_time(time: Option<Time>) -> Option<SystemTime> {
    time.and_then(|time| time.to_system_time())
}

fn lasting(duration: Option<duly_client::Duration>) -> Option<Duration> {
    duration.and_then(|duration| duration.to_std())
}

fn limit(max_pending: u64) -> Limits {
    let namespace =
        NamespaceLimits { max_pending: Some(max_pending), ..NamespaceLimits::default() };
    Limits { lane: None, namespace: Some(namespace) }
}

/// Returns the effect of a schedule: created, existing or replaced.
fn outcome(timer: &Timer) -> &'static str {
    match (timer.existing, timer.replaced) {
        (false, false) => "created",
        (true, false) => "existing",
        (false, true) => "replaced",
        (true, true) => panic!("{timer:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_timers_keep_their_content() {
    let server = Server::start().await;
    let client = server.client();
    let retry = Retry::attempts(3).with_backoff(Duration::from_secs(2), HOUR);
    let due_at = moment(4_000_000_000_123);
    let schedule = Schedule::at(due_at)
        .with_id("ä/1")
        .with_json(&serde_json::json!({"order": 1}))
        .unwrap()
        .with_header("x-b", "2")
        .with_header("x-a", "1")
        .with_tag("customer:7")
        .with_slot_key("7")
        .with_destination(Destination::http("http://127.0.0.1:9/hook"))
        .with_retry(retry)
        .with_expire_after(HOUR);
    let scheduled = client.schedule(NAMESPACE, schedule).await.unwrap();
    assert_eq!(outcome(&scheduled), "created");
    assert_eq!(scheduled.bytes(), None, "get shows it");
    let timer = client.get(NAMESPACE, "ä/1").await.unwrap();
    assert_eq!((timer.namespace.as_str(), timer.id.as_str()), (NAMESPACE, "ä/1"));
    assert_eq!(
        (timer.state(), system_time(timer.due_at.clone()), timer.revision),
        (State::Scheduled, Some(due_at), Some(1))
    );
    assert_eq!(timer.payload(), br#"{"order":1}"#);
    assert_eq!(timer.headers, [("x-b", "2"), ("x-a", "1")].map(Header::from));
    assert_eq!((timer.tags, timer.slot_key.as_deref()), (vec!["customer:7".to_owned()], Some("7")));
    let http = timer.destination.and_then(|destination| destination.http);
    assert!(http.unwrap().url.ends_with("/hook"));
    assert_eq!(timer.retry.and_then(|retry| retry.max_attempts), Some(3));
    assert_eq!(lasting(timer.expire_after), Some(HOUR));
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_same_request_is_the_same_timer_another_follows_if_exists() {
    let server = Server::start().await;
    let client = server.client();
    let first = || Schedule::after(HOUR).with_id("x").with_text("1");
    let second =
        |if_exists| Schedule::after(HOUR).with_id("x").with_text("2").with_if_exists(if_exists);
    let scheduled =
        async |schedule| client.schedule(NAMESPACE, schedule).await.map(|timer| outcome(&timer));
    assert_eq!(scheduled(first()).await, Ok("created"));
    assert_eq!(scheduled(first()).await, Ok("existing"));
    let error = scheduled(second(IfExists::Fail)).await.unwrap_err();
    assert_eq!((error.code(), error.retry()), (Code::AlreadyExists, RetryAdvice::AfterRead));
    assert_eq!(scheduled(second(IfExists::Keep)).await, Ok("existing"));
    assert_eq!(scheduled(second(IfExists::Replace)).await, Ok("replaced"));
    assert_eq!(scheduled(second(IfExists::Replace)).await, Ok("existing"));
    assert_eq!(scheduled(second(IfExists::Restart)).await, Ok("replaced"));
    // Each debounce counts, although its content is the same.
    for revision in [4, 5] {
        let timer = client.debounce(NAMESPACE, first()).await.unwrap();
        assert_eq!(outcome(&timer), "replaced");
        assert_eq!(timer.revision, Some(revision));
    }
    let own = client.schedule(NAMESPACE, Schedule::after(HOUR)).await.unwrap().id;
    assert_eq!(own.len(), 36, "{own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_p5_change_fire_and_cancel_return_definite_results() {
    let server = Server::start().await;
    let client = server.client();
    client
        .schedule(NAMESPACE, Schedule::after(HOUR).with_id("x").with_text("1").with_tag("t"))
        .await
        .unwrap();
    let change = Reschedule::at(moment(4_000_000_000_000))
        .with_bytes(vec![0, 255])
        .with_headers([("x-a", "1")])
        .with_reset(TimerField::Tags)
        .with_if_revision(1);
    let timer = client.reschedule(NAMESPACE, "x", change.clone()).await.unwrap();
    let due_at = system_time(timer.due_at);
    assert_eq!((timer.revision, due_at), (Some(2), Some(moment(4_000_000_000_000))));
    let timer = client.get(NAMESPACE, "x").await.unwrap();
    assert_eq!(timer.payload_base64(), [0, 255]);
    assert_eq!((timer.headers.len(), timer.tags.len()), (1, 0));

    let error = client.reschedule(NAMESPACE, "x", change).await.unwrap_err();
    let refusal = error.refusal().unwrap();
    assert_eq!(refusal.code, Code::RevisionMismatch);
    let problem = &refusal.problem;
    assert_eq!((problem.expected_revision, problem.actual_revision), (Some(1), Some(2)));
    assert!(client.cancel_if(NAMESPACE, "x", 1).await.is_err());

    assert_eq!(client.fire(NAMESPACE, "x").await.unwrap().state(), State::Due);
    let cancelled = client.cancel_if(NAMESPACE, "x", 3).await.unwrap();
    assert_eq!(
        (cancelled.attempts, cancelled.maybe_delivered, cancelled.already),
        (0, false, false)
    );
    assert!(client.cancel(NAMESPACE, "x").await.unwrap().already);
    let error = client.fire(NAMESPACE, "x").await.unwrap_err();
    assert_eq!(error.code(), Code::Cancelled);
    assert_eq!(client.get(NAMESPACE, "none").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(client.cancel(NAMESPACE, "none").await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn list_reads_all_pages() {
    let server = Server::start().await;
    let client = server.client();
    for number in 0..7 {
        let schedule =
            Schedule::at(moment(4_000_000_000_000 + number)).with_id(format!("o:{number}"));
        let schedule = schedule.with_text("x").with_tag(if number < 5 { "few" } else { "more" });
        client.schedule(NAMESPACE, schedule).await.unwrap();
    }
    let all = ListRequest::default;
    let ids = async |request: ListRequest| {
        let timers = client.list(NAMESPACE, request.with_limit(2)).all().await.unwrap();
        timers.into_iter().map(|timer| timer.id).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(all()).await, "o:0 o:1 o:2 o:3 o:4 o:5 o:6");
    assert_eq!(ids(all().with_tag("few")).await, "o:0 o:1 o:2 o:3 o:4");
    assert_eq!(ids(all().with_id_prefix("o:6")).await, "o:6");
    assert_eq!(ids(all().with_state(State::Dead)).await, "");
    let (from, to) = (moment(4_000_000_000_002), moment(4_000_000_000_004));
    assert_eq!(ids(all().with_due_from(from).with_due_to(to)).await, "o:2 o:3");
    // As a stream.
    let mut stream = client.list(NAMESPACE, all());
    let first = StreamExt::next(&mut stream).await.unwrap().unwrap();
    assert_eq!(first.payload_text(), b"x");
    // An error is the first and last item.
    let elsewhere = ListRequest { namespace: "b".to_owned(), ..all() };
    for (namespace, request) in
        [("-", all()), (NAMESPACE, elsewhere), (NAMESPACE, all().with_limit(0))]
    {
        let mut wrong = client.list(namespace, request);
        assert_eq!(wrong.next().await.unwrap().unwrap_err().code(), Code::InvalidArgument);
        assert!(wrong.next().await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_has_a_cursor_to_the_next_one() {
    let server = Server::start().await;
    let client = server.client();
    for number in 0..3 {
        let schedule =
            Schedule::at(moment(4_000_000_000_000 + number)).with_id(format!("o:{number}"));
        client.schedule(NAMESPACE, schedule).await.unwrap();
    }
    let two = ListRequest::default().with_limit(2);
    let page = async |request| client.list_page(NAMESPACE, request).await.unwrap();
    let ids = |timers: &[Timer]| {
        timers.iter().map(|timer| timer.id.clone()).collect::<Vec<_>>().join(" ")
    };
    let first = page(two.clone()).await;
    assert_eq!(ids(&first.timers), "o:0 o:1");
    let second = page(two.clone().with_cursor(first.cursor.unwrap())).await;
    assert_eq!((ids(&second.timers).as_str(), second.cursor), ("o:2", None));
    let error = client.list_page(NAMESPACE, two.with_cursor("x")).await.unwrap_err();
    assert_eq!(error.refusal().unwrap().problem.field.as_deref(), Some("cursor"));
}

#[tokio::test(flavor = "multi_thread")]
async fn unbatched_changes_return_whole_timers_and_equal_refusals() {
    let server = Server::start().await;
    let batched = server.client();
    let client = batched.unbatched();
    let schedule = || Schedule::after(HOUR).with_id("x").with_text("1").with_header("x-a", "b");
    let scheduled = client.schedule(NAMESPACE, schedule()).await.unwrap();
    assert_eq!(scheduled, client.get(NAMESPACE, "x").await.unwrap());
    assert_eq!(scheduled.payload_text(), b"1");
    // The same request finds the same timer, batched or not.
    let again = batched.schedule(NAMESPACE, schedule()).await.unwrap();
    assert_eq!((outcome(&again), again.bytes()), ("existing", None));
    let timer = client.reschedule(NAMESPACE, "x", Reschedule::after(2 * HOUR)).await.unwrap();
    assert_eq!((timer.revision, timer.headers.len()), (Some(2), 1));
    let timer = client.fire(NAMESPACE, "x").await.unwrap();
    assert_eq!((timer.state(), timer.payload_text()), (State::Due, &b"1"[..]));
    assert!(!client.cancel(NAMESPACE, "x").await.unwrap().already);
    for wrong in [schedule().with_tag(""), schedule().with_json_text("{")] {
        let error = client.schedule(NAMESPACE, wrong.clone()).await.unwrap_err();
        assert_eq!(error, batched.schedule(NAMESPACE, wrong).await.unwrap_err());
    }
    for error in [
        client.fire(NAMESPACE, "x").await.unwrap_err(),
        client.reschedule(NAMESPACE, "x", Reschedule::default()).await.unwrap_err(),
        client.cancel(NAMESPACE, "none").await.unwrap_err(),
    ] {
        assert!(error.refusal().is_some(), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn firings_are_leased_and_settled_by_hand() {
    let server = Server::start().await;
    let client = server.client();
    for id in ["ack", "retry", "dead", "extend"] {
        due(&client, id).await;
    }
    let firings = lease(&client, 4).await;
    assert_eq!(firings[0].text(), Ok("x"));
    let token = |id: &str| firings.iter().find(|firing| firing.id == id).unwrap().token.clone();
    let wait = Duration::from_millis(1);
    let settlements = vec![
        Settlement::ack(token("ack")),
        Settlement::retry(token("retry"), RetryVerdict { after: Some(wait.into()), reason: None }),
        Settlement::dead(token("dead"), "no"),
        Settlement::extend(token("extend"), HOUR),
        Settlement::extend(token("extend"), wait),
        Settlement::ack("no token"),
    ];
    let results = client.settle(NAMESPACE, settlements).await.unwrap();
    let done = [SettleOutcome::Ok; 4].map(Ok);
    assert_eq!(results[..4], done);
    assert_eq!(results[4].as_ref().unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(results[5], Ok(SettleOutcome::InvalidToken));
    let again = client.settle(NAMESPACE, vec![Settlement::ack(token("ack"))]).await.unwrap();
    assert_eq!(again, [Ok(SettleOutcome::AlreadySettled)]);
    assert_eq!(lease(&client, 1).await[0].attempt, 2);
    let dead = client.get(NAMESPACE, "dead").await.unwrap();
    assert_eq!((dead.state(), dead.dead_reason()), (State::Dead, DeadReason::Rejected));
    let none = LeaseRequest::up_to(1).with_max_bytes(1).with_lease(HOUR);
    assert!(client.lease(NAMESPACE, none).await.unwrap().firings.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_written_paused_resumed_and_counted() {
    let server = Server::start().await;
    let client = server.client();
    let settings = NamespaceSettings {
        fallback: Some(Fallback {
            destination: Some(Destination::http("http://127.0.0.1:9/second")),
            after_attempts: Some(2),
            after_open: None,
        }),
        lease: Some(Duration::from_secs(7).into()),
        retention: Some(HOUR.into()),
        weight: Some(3),
        limits: Some(limit(10)),
        ..NamespaceSettings::default()
    };
    let namespace = client.put_namespace(NAMESPACE, settings).await.unwrap();
    assert_eq!(namespace, client.namespace(NAMESPACE).await.unwrap());
    assert_eq!(lasting(namespace.lease), Some(Duration::from_secs(7)));
    assert_eq!(namespace.weight, 3);
    assert_eq!(namespace.limits.unwrap().namespace.unwrap().max_pending, Some(10));
    later(&client, "x").await;
    assert!(client.pause(NAMESPACE).await.unwrap().paused);
    due(&client, "y").await;
    assert!(client.lease(NAMESPACE, LeaseRequest::up_to(1)).await.unwrap().paused);
    let at = SystemTime::now() + HOUR;
    assert!(client.resume_at(NAMESPACE, at).await.unwrap().resumes_at.is_some());
    assert!(!client.resume(NAMESPACE).await.unwrap().paused);
    lease(&client, 1).await;
    let stats = client.stats(NAMESPACE).await.unwrap();
    assert_eq!((stats.scheduled, stats.in_flight, stats.pending), (1, 1, 2));
    assert_eq!((stats.totals.unwrap().scheduled, stats.lanes[0].lane.as_str()), (2, "pull"));
    assert_eq!(stats.fallback.unwrap().breaker, "closed");
    client.put_namespace("b", NamespaceSettings::default()).await.unwrap();
    let names: Vec<_> =
        client.namespaces().all().await.unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, [NAMESPACE, "b"]);
    let cluster = client.cluster().await.unwrap();
    assert_eq!((cluster.ready, cluster.pending), (true, 2));
    let caller = client.whoami().await.unwrap();
    assert_eq!((caller.keys_required, caller.key, caller.tenant), (false, None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_patched_forecast_and_deleted() {
    let server = Server::start().await;
    let client = server.client();
    let settings = NamespaceSettings {
        lease: Some(Duration::from_secs(7).into()),
        weight: Some(3),
        retention: Some(HOUR.into()),
        ..NamespaceSettings::default()
    };
    client.put_namespace(NAMESPACE, settings).await.unwrap();
    let patch = async |settings, reset: &[NamespaceField]| {
        client.patch_namespace(NAMESPACE, settings, reset).await
    };
    let heavier = NamespaceSettings { weight: Some(5), ..NamespaceSettings::default() };
    let namespace = patch(heavier, &[NamespaceField::Lease]).await.unwrap();
    assert_eq!((lasting(namespace.lease), namespace.weight), (Some(Duration::from_secs(30)), 5));
    assert_eq!(lasting(namespace.retention), Some(HOUR), "it was not named");
    let nothing = patch(NamespaceSettings::default(), &[]).await.unwrap_err();
    assert_eq!(nothing.code(), Code::InvalidArgument);
    let weightless = NamespaceSettings { weight: Some(0), ..NamespaceSettings::default() };
    for error in [
        patch(weightless.clone(), &[]).await.unwrap_err(),
        client.put_namespace(NAMESPACE, weightless).await.unwrap_err(),
    ] {
        let refusal = error.refusal().unwrap();
        assert_eq!(refusal.problem.field.as_deref(), Some("weight"), "as its caller wrote it");
        assert!(refusal.problem.detail.starts_with("weight must be"), "{refusal:?}");
    }

    later(&client, "x").await;
    due(&client, "y").await;
    let forecast = client.forecast(NAMESPACE, HOUR, 3).await.unwrap();
    assert_eq!((lasting(forecast.bucket), forecast.buckets.len()), (Some(HOUR), 3));
    assert_eq!((forecast.overdue, forecast.pending, forecast.later), (1, 2, 0));
    assert_eq!(forecast.buckets.iter().map(|bucket| bucket.due).sum::<u64>(), 1);
    let (from, now) = (system_time(forecast.buckets[0].from.clone()), system_time(forecast.now));
    assert!(from <= now && now.is_some());
    assert!(client.forecast(NAMESPACE, HOUR, 1_001).await.is_err());

    let error = client.delete_namespace(NAMESPACE).await.unwrap_err();
    assert_eq!((error.code(), error.retry()), (Code::NamespaceNotEmpty, RetryAdvice::AfterRead));
    client.delete_namespace_and_timers(NAMESPACE).await.unwrap();
    assert_eq!(client.namespace(NAMESPACE).await.unwrap_err().code(), Code::NotFound);
    client.put_namespace(NAMESPACE, NamespaceSettings::default()).await.unwrap();
    client.delete_namespace(NAMESPACE).await.unwrap();
    assert!(client.namespaces().all().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_limit_refusals_have_a_retry_time() {
    let server = Server::start().await;
    let client = Client::builder(server.url()).retries(duly_client::Retries::none());
    let client = client.build().unwrap();
    let limits = Some(limit(1));
    let settings = NamespaceSettings { limits, ..NamespaceSettings::default() };
    client.put_namespace(NAMESPACE, settings).await.unwrap();
    later(&client, "x").await;
    let error = client.schedule(NAMESPACE, Schedule::after(HOUR)).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(matches!(error.retry(), RetryAdvice::After(_)), "{error:?}");
}

#[tokio::test]
async fn invalid_requests_fail_before_sending() {
    // No server listens there.
    let client = Client::new("http://127.0.0.1:1").unwrap();
    let early = UNIX_EPOCH - Duration::from_secs(1);
    let schedule = |schedule| client.schedule(NAMESPACE, schedule);
    let other = Reschedule { id: "y".to_owned(), ..Reschedule::after(HOUR) };
    let elsewhere = LeaseRequest { namespace: "b".to_owned(), ..LeaseRequest::default() };
    let errors: [(Error, &str); 9] = [
        (client.get("no spaces", "x").await.unwrap_err(), "namespace"),
        (client.get(NAMESPACE, "..").await.unwrap_err(), "id"),
        (client.fire(NAMESPACE, "").await.unwrap_err(), "id"),
        (schedule(Schedule::after(HOUR).with_id("\n")).await.unwrap_err(), "id"),
        (schedule(Schedule::at(early)).await.unwrap_err(), "due_at"),
        (client.reschedule(NAMESPACE, "x", Reschedule::at(early)).await.unwrap_err(), "due_at"),
        (client.reschedule(NAMESPACE, "x", other).await.unwrap_err(), "id"),
        (client.lease(NAMESPACE, elsewhere).await.unwrap_err(), "namespace"),
        (client.consume("", async |_| crate::server::DONE).unwrap_err(), "namespace"),
    ];
    for (error, field) in errors {
        assert!(matches!(&error, Error::Invalid(invalid) if invalid.field == field), "{error}");
        assert_eq!(error.retry(), RetryAdvice::Never);
    }
    let map = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error = Schedule::after(HOUR).with_json(&map).unwrap_err();
    assert!(error.to_string().starts_with("payload must be"), "{error}");
}

#[test]
fn call_outside_of_a_runtime_is_an_error() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(async { Client::new("http://127.0.0.1:1") }).unwrap();
    for error in [
        client.get(NAMESPACE, "x").now_or_never().unwrap().unwrap_err(),
        client.fire(NAMESPACE, "x").now_or_never().unwrap().unwrap_err(),
        client.consume(NAMESPACE, async |_| crate::server::DONE).unwrap_err(),
    ] {
        assert!(error.to_string().contains("Tokio runtime"), "{error}");
    }
}
