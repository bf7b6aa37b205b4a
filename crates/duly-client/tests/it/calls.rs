//! Every call once, on a real server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duly_client::{
    Change, Client, Code, Destination, Error, Filter, IfExists, Lease, Outcome, Payload,
    PayloadForm, Retry, RetryPolicy, Schedule, Settings, SettingsChange, Settled, Settlement,
    State, TimerField, Verdict,
    namespace::{Fallback, Limits, SettingsField},
};
use futures::{FutureExt, StreamExt};

use crate::server::{HOUR, NAMESPACE, Server, due, later, lease};

/// A time as Duly keeps it.
fn moment(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_what_goes_in_comes_out() {
    let server = Server::start().await;
    let client = server.client();
    let retry = RetryPolicy::attempts(3).backoff(Duration::from_secs(2), HOUR);
    let due_at = moment(4_000_000_000_123);
    let schedule = Schedule::at(due_at)
        .id("ä/1")
        .json(&serde_json::json!({"order": 1}))
        .header("x-b", "2")
        .header("x-a", "1")
        .tag("customer:7")
        .slot_key("7")
        .destination(Destination::http("http://127.0.0.1:9/hook"))
        .retry(retry)
        .expire_after(HOUR);
    let scheduled = client.schedule(NAMESPACE, schedule).await.unwrap();
    assert_eq!(scheduled.outcome, Outcome::Created);
    assert_eq!(scheduled.timer.payload, None, "get shows it");
    let timer = client.get(NAMESPACE, "ä/1").await.unwrap();
    assert_eq!((timer.namespace.as_str(), timer.id.as_str()), (NAMESPACE, "ä/1"));
    assert_eq!(
        (timer.state, timer.due_at, timer.revision),
        (State::Scheduled, Some(due_at), Some(1))
    );
    let payload = timer.payload.unwrap();
    assert_eq!(payload, Payload::json_text(r#"{"order":1}"#));
    let pairs = [("x-b", "2"), ("x-a", "1")].map(|(name, value)| (name.into(), value.into()));
    assert_eq!(timer.headers, pairs);
    assert_eq!((timer.tags, timer.slot_key.as_deref()), (vec!["customer:7".to_owned()], Some("7")));
    assert!(
        matches!(timer.destination, Some(Destination::Http(http)) if http.url.ends_with("/hook"))
    );
    assert_eq!(timer.retry.and_then(|retry| retry.max_attempts), Some(3));
    assert_eq!(timer.expire_after, Some(HOUR));
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_the_same_request_is_the_same_timer_and_another_one_does_as_it_says() {
    let server = Server::start().await;
    let client = server.client();
    let first = || Schedule::after(HOUR).id("x").text("1");
    let second = |if_exists| Schedule::after(HOUR).id("x").text("2").if_exists(if_exists);
    let outcome = async |schedule| {
        client.schedule(NAMESPACE, schedule).await.map(|scheduled| scheduled.outcome)
    };
    assert_eq!(outcome(first()).await, Ok(Outcome::Created));
    assert_eq!(outcome(first()).await, Ok(Outcome::Existing));
    let error = outcome(second(IfExists::Fail)).await.unwrap_err();
    assert_eq!((error.code(), error.retry()), (Code::AlreadyExists, Retry::AfterRead));
    assert_eq!(outcome(second(IfExists::Keep)).await, Ok(Outcome::Existing));
    assert_eq!(outcome(second(IfExists::Fail).replace()).await, Ok(Outcome::Replaced));
    // Each debounce counts, although it says the same.
    for revision in [3, 4] {
        let scheduled = client.debounce(NAMESPACE, first()).await.unwrap();
        assert_eq!(scheduled.outcome, Outcome::Replaced);
        assert_eq!(scheduled.timer.revision, Some(revision));
    }
    let own = client.schedule(NAMESPACE, Schedule::after(HOUR)).await.unwrap().timer.id;
    assert_eq!(own.len(), 36, "{own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_p5_a_timer_is_changed_fired_and_cancelled_and_each_answer_is_definite() {
    let server = Server::start().await;
    let client = server.client();
    client.schedule(NAMESPACE, Schedule::after(HOUR).id("x").text("1").tag("t")).await.unwrap();
    let change = Change::at(moment(4_000_000_000_000))
        .payload(Payload::bytes(vec![0, 255]))
        .headers([("x-a", "1")])
        .reset(TimerField::Tags)
        .if_revision(1);
    let timer = client.reschedule(NAMESPACE, "x", change.clone()).await.unwrap();
    assert_eq!((timer.revision, timer.due_at), (Some(2), Some(moment(4_000_000_000_000))));
    let timer = client.get(NAMESPACE, "x").await.unwrap();
    assert_eq!(timer.payload.map(|payload| payload.form), Some(PayloadForm::Bytes));
    assert_eq!((timer.headers.len(), timer.tags.len()), (1, 0));

    let error = client.reschedule(NAMESPACE, "x", change).await.unwrap_err();
    let refusal = error.refusal().unwrap();
    assert_eq!(refusal.code, Code::RevisionMismatch);
    assert_eq!((refusal.expected_revision, refusal.actual_revision), (Some(1), Some(2)));
    assert!(client.cancel_if(NAMESPACE, "x", 1).await.is_err());

    assert_eq!(client.fire(NAMESPACE, "x").await.unwrap().state, State::Due);
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
async fn a_list_turns_its_pages_by_itself() {
    let server = Server::start().await;
    let client = server.client();
    for number in 0..7 {
        let schedule = Schedule::at(moment(4_000_000_000_000 + number)).id(format!("o:{number}"));
        let schedule = schedule.text("x").tag(if number < 5 { "few" } else { "more" });
        client.schedule(NAMESPACE, schedule).await.unwrap();
    }
    let ids = async |filter: Filter| {
        let timers = client.list(NAMESPACE, filter.page(2)).all().await.unwrap();
        timers.into_iter().map(|timer| timer.id).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(Filter::new()).await, "o:0 o:1 o:2 o:3 o:4 o:5 o:6");
    assert_eq!(ids(Filter::new().tag("few")).await, "o:0 o:1 o:2 o:3 o:4");
    assert_eq!(ids(Filter::new().id_prefix("o:6")).await, "o:6");
    assert_eq!(ids(Filter::new().state(State::Dead)).await, "");
    let (from, to) = (moment(4_000_000_000_002), moment(4_000_000_000_004));
    assert_eq!(ids(Filter::new().due_from(from).due_to(to)).await, "o:2 o:3");
    // As a stream.
    let mut stream = client.list(NAMESPACE, Filter::new());
    let first = StreamExt::next(&mut stream).await.unwrap().unwrap();
    assert_eq!(first.payload, Some(Payload::text("x")));
    // What is wrong is the first and last that comes.
    for (namespace, filter) in [("-", Filter::new()), (NAMESPACE, Filter::new().page(0))] {
        let mut wrong = client.list(namespace, filter);
        assert_eq!(wrong.next().await.unwrap().unwrap_err().code(), Code::InvalidArgument);
        assert!(wrong.next().await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_where_the_next_one_begins() {
    let server = Server::start().await;
    let client = server.client();
    for number in 0..3 {
        let schedule = Schedule::at(moment(4_000_000_000_000 + number)).id(format!("o:{number}"));
        client.schedule(NAMESPACE, schedule).await.unwrap();
    }
    let page = async |cursor: Option<&str>| {
        client.list_page(NAMESPACE, Filter::new().page(2), cursor).await.unwrap()
    };
    let first = page(None).await;
    let ids = |items: &[duly_client::Timer]| {
        items.iter().map(|timer| timer.id.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ids(&first.items), "o:0 o:1");
    let second = page(first.cursor.as_deref()).await;
    assert_eq!((ids(&second.items).as_str(), second.cursor), ("o:2", None));
    let error = client.list_page(NAMESPACE, Filter::new(), Some("x")).await.unwrap_err();
    assert_eq!(error.refusal().unwrap().field.as_deref(), Some("cursor"));
}

#[tokio::test(flavor = "multi_thread")]
async fn unbatched_a_change_answers_the_timer_whole_and_is_refused_in_the_same_words() {
    let server = Server::start().await;
    let batched = server.client();
    let client = batched.unbatched();
    let schedule = || Schedule::after(HOUR).id("x").text("1").header("x-a", "b");
    let scheduled = client.schedule(NAMESPACE, schedule()).await.unwrap();
    assert_eq!(scheduled.timer, client.get(NAMESPACE, "x").await.unwrap());
    assert_eq!(scheduled.timer.payload, Some(Payload::text("1")));
    // The same request is the same timer, either way.
    let again = batched.schedule(NAMESPACE, schedule()).await.unwrap();
    assert_eq!((again.outcome, again.timer.payload), (Outcome::Existing, None));
    let timer = client.reschedule(NAMESPACE, "x", Change::after(2 * HOUR)).await.unwrap();
    assert_eq!((timer.revision, timer.headers.len()), (Some(2), 1));
    let timer = client.fire(NAMESPACE, "x").await.unwrap();
    assert_eq!((timer.state, timer.payload), (State::Due, Some(Payload::text("1"))));
    assert!(!client.cancel(NAMESPACE, "x").await.unwrap().already);
    for wrong in [schedule().tag(""), schedule().payload(Payload::json_text("{"))] {
        let error = client.schedule(NAMESPACE, wrong.clone()).await.unwrap_err();
        assert_eq!(error, batched.schedule(NAMESPACE, wrong).await.unwrap_err());
    }
    for error in [
        client.fire(NAMESPACE, "x").await.unwrap_err(),
        client.reschedule(NAMESPACE, "x", Change::new()).await.unwrap_err(),
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
        Settlement::new(token("retry"), Verdict::Retry { after: Some(wait), reason: None }),
        Settlement::new(token("dead"), Verdict::Dead { reason: "no".to_owned() }),
        Settlement::new(token("extend"), Verdict::Extend { lease: HOUR }),
        Settlement::new(token("extend"), Verdict::Extend { lease: wait }),
        Settlement::ack("no token"),
    ];
    let results = client.settle(NAMESPACE, settlements).await.unwrap();
    let done = [Settled::Done; 4].map(Ok);
    assert_eq!(results[..4], done);
    assert_eq!(results[4].as_ref().unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(results[5], Ok(Settled::InvalidToken));
    let again = client.settle(NAMESPACE, vec![Settlement::ack(token("ack"))]).await.unwrap();
    assert_eq!(again, [Ok(Settled::Already)]);
    assert_eq!(lease(&client, 1).await[0].attempt, 2);
    let dead = client.get(NAMESPACE, "dead").await.unwrap();
    assert_eq!((dead.state, dead.dead_reason.as_deref()), (State::Dead, Some("rejected")));
    let none = Lease::up_to(1).max_bytes(1).lasting(HOUR);
    assert!(client.lease(NAMESPACE, none).await.unwrap().firings.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_written_paused_resumed_and_counted() {
    let server = Server::start().await;
    let client = server.client();
    let settings = Settings {
        fallback: Some(Fallback {
            destination: Destination::http("http://127.0.0.1:9/second"),
            after_attempts: Some(2),
            after_open: None,
        }),
        lease: Some(Duration::from_secs(7)),
        retention: Some(HOUR),
        weight: Some(3),
        limits: Some(Limits { max_pending: Some(10), ..Limits::default() }),
        ..Settings::default()
    };
    let namespace = client.put_namespace(NAMESPACE, settings).await.unwrap();
    assert_eq!(namespace, client.namespace(NAMESPACE).await.unwrap());
    assert_eq!(namespace.settings.lease, Some(Duration::from_secs(7)));
    assert_eq!(namespace.settings.weight, Some(3));
    assert_eq!(namespace.settings.limits.unwrap().max_pending, Some(10));
    later(&client, "x").await;
    assert!(client.pause(NAMESPACE).await.unwrap().paused);
    due(&client, "y").await;
    assert!(client.lease(NAMESPACE, Lease::up_to(1)).await.unwrap().paused);
    let at = SystemTime::now() + HOUR;
    assert!(client.resume_at(NAMESPACE, at).await.unwrap().resumes_at.is_some());
    assert!(!client.resume(NAMESPACE).await.unwrap().paused);
    lease(&client, 1).await;
    let stats = client.stats(NAMESPACE).await.unwrap();
    assert_eq!((stats.scheduled, stats.in_flight, stats.pending), (1, 1, 2));
    assert_eq!((stats.totals.scheduled, stats.lanes[0].lane.as_str()), (2, "pull"));
    assert_eq!(stats.fallback_breaker.as_deref(), Some("closed"));
    client.put_namespace("b", Settings::default()).await.unwrap();
    let names: Vec<_> =
        client.namespaces().all().await.unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, [NAMESPACE, "b"]);
    let cluster = client.cluster().await.unwrap();
    assert_eq!((cluster.ready, cluster.pending), (true, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_changed_in_part_looked_ahead_in_and_deleted() {
    let server = Server::start().await;
    let client = server.client();
    let settings = Settings {
        lease: Some(Duration::from_secs(7)),
        weight: Some(3),
        retention: Some(HOUR),
        ..Settings::default()
    };
    client.put_namespace(NAMESPACE, settings).await.unwrap();
    let change = SettingsChange::from(Settings { weight: Some(5), ..Settings::default() })
        .reset(SettingsField::Lease);
    let namespace = client.patch_namespace(NAMESPACE, change).await.unwrap();
    let Settings { lease, weight, retention, .. } = namespace.settings;
    assert_eq!((lease, weight), (Some(Duration::from_secs(30)), Some(5)));
    assert_eq!(retention, Some(HOUR), "it was not named");
    let nothing = client.patch_namespace(NAMESPACE, SettingsChange::new()).await.unwrap_err();
    assert_eq!(nothing.code(), Code::InvalidArgument);

    later(&client, "x").await;
    due(&client, "y").await;
    let forecast = client.forecast(NAMESPACE, HOUR, 3).await.unwrap();
    assert_eq!((forecast.bucket, forecast.buckets.len()), (HOUR, 3));
    assert_eq!((forecast.overdue, forecast.pending, forecast.later), (1, 2, 0));
    assert_eq!(forecast.buckets.iter().map(|bucket| bucket.due).sum::<u64>(), 1);
    assert!(forecast.buckets[0].from <= forecast.now && forecast.now.is_some());
    assert!(client.forecast(NAMESPACE, HOUR, 1_001).await.is_err());

    let error = client.delete_namespace(NAMESPACE).await.unwrap_err();
    assert_eq!((error.code(), error.retry()), (Code::NamespaceNotEmpty, Retry::AfterRead));
    client.delete_namespace_and_timers(NAMESPACE).await.unwrap();
    assert_eq!(client.namespace(NAMESPACE).await.unwrap_err().code(), Code::NotFound);
    client.put_namespace(NAMESPACE, Settings::default()).await.unwrap();
    client.delete_namespace(NAMESPACE).await.unwrap();
    assert!(client.namespaces().all().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_a_limit_says_when_another_try_can_help() {
    let server = Server::start().await;
    let client = Client::builder(server.url()).retries(duly_client::Retries::none());
    let client = client.build().unwrap();
    let limits = Some(Limits { max_pending: Some(1), ..Limits::default() });
    let settings = Settings { limits, ..Settings::default() };
    client.put_namespace(NAMESPACE, settings).await.unwrap();
    later(&client, "x").await;
    let error = client.schedule(NAMESPACE, Schedule::after(HOUR)).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert!(matches!(error.retry(), Retry::After(_)), "{error:?}");
}

#[tokio::test]
async fn what_is_wrong_is_said_before_anything_is_sent() {
    // Nobody is there.
    let client = Client::new("http://127.0.0.1:1").unwrap();
    let early = UNIX_EPOCH - Duration::from_secs(1);
    let schedule = |schedule| client.schedule(NAMESPACE, schedule);
    let errors: [(Error, &str); 6] = [
        (client.get("no spaces", "x").await.unwrap_err(), "namespace"),
        (client.get(NAMESPACE, "..").await.unwrap_err(), "id"),
        (client.fire(NAMESPACE, "").await.unwrap_err(), "id"),
        (schedule(Schedule::after(HOUR).id("\n")).await.unwrap_err(), "id"),
        (schedule(Schedule::at(early)).await.unwrap_err(), "due_at"),
        (client.consume("", async |_| crate::server::DONE).unwrap_err(), "namespace"),
    ];
    for (error, field) in errors {
        assert!(matches!(&error, Error::Invalid(invalid) if invalid.field == field), "{error}");
        assert_eq!(error.retry(), Retry::Never);
    }
    let map = std::collections::BTreeMap::from([((1, 2), 3)]);
    let error = schedule(Schedule::after(HOUR).json(&map)).await.unwrap_err();
    assert!(error.to_string().starts_with("payload must be"), "{error}");
}

#[test]
fn outside_of_a_runtime_a_call_is_an_error_and_no_panic() {
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
