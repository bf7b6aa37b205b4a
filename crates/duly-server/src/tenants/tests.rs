mod reasons;

use duly_core::{
    NamespaceName, Payload, TimerId,
    access::{Actions, HostPattern, Role},
    payload::Form,
    schedule::{Change, IfExists, Patch, Schedule, When},
    timer::DeadLetterId,
};
use duly_store::{AccessChange, ChangeOrigin, Command, Error, Operation, Outcome, command::Answer};
use http::StatusCode;
use serde_json::json;

use super::*;
use crate::{
    auth::{
        Auth,
        tests::{call_http, key, presented, records},
    },
    tests::TestServer,
};

pub(crate) fn tenant(name: &str, namespaces: &[&str], limits: TenantLimits) -> Tenant {
    let patterns = namespaces.iter().map(|text| NamespacePattern::new(text).unwrap());
    Tenant {
        name: TenantName::new(name).unwrap(),
        namespaces: patterns.collect(),
        limits,
        implicit_namespaces: false,
        destinations: None,
    }
}

fn state(limits: TenantLimits) -> Arc<TenantState> {
    Arc::new(TenantState::new(tenant("acme", &["acme-*"], limits)))
}

fn schedule(id: &str) -> Command {
    let schedule =
        Box::new(Schedule::new(TimerId::new(id).unwrap(), When::After(Millis::from_secs(60))));
    Command {
        namespace: NamespaceName::new("acme-a").unwrap(),
        operation: Operation::Schedule { schedule, if_exists: IfExists::Keep },
        answer: Answer::Brief,
    }
}

fn limits(set: &[(TenantLimit, u64)]) -> TenantLimits {
    set.iter()
        .fold(TenantLimits::default(), |limits, (limit, value)| limits.with(*limit, Some(*value)))
}

/// An administrator, a key of the tenant `acme`, and one of another team.
fn with_tenant(tenant: Tenant) -> AccessRecords {
    let of_tenant = key(2, Actions::all(), &["acme-*"]);
    let all =
        records([key(1, Actions::all(), &["*"]), of_tenant, key(3, Actions::all(), &["b-*"])]);
    let put = AccessChange::PutTenant(Box::new(tenant));
    all.changed(put, ChangeOrigin::Offline, Timestamp::MIN).unwrap()
}

async fn server(tenant: Tenant) -> TestServer {
    let auth = Auth::new(true, None, false);
    auth.use_records(with_tenant(tenant));
    TestServer::start_with(auth).await
}

#[test]
fn a_namespace_has_at_most_one_tenant() {
    let mut all = with_tenant(tenant("acme", &["acme-*", "shop"], TenantLimits::default()));
    for (name, pattern, fits) in
        [("b", "acme-x", false), ("b", "a*", false), ("b", "b-*", true), ("c", "*", false)]
    {
        let other = tenant(name, &[pattern], TenantLimits::default());
        let put = AccessChange::PutTenant(Box::new(other));
        let changed = all.changed(put, ChangeOrigin::Offline, Timestamp::MIN);
        assert_eq!(changed.is_ok(), fits, "{name} {pattern}");
        all = changed.unwrap_or(all);
    }
    let tenants = Tenants::new(&all, &Tenants::default());
    let of = |name| tenants.of_namespace(name).map(|state| state.tenant().name.to_string());
    for (name, expected) in [
        ("acme-", Some("acme")),
        ("acme-a", Some("acme")),
        ("acme", None),
        ("shop", Some("acme")),
        ("shops", None),
        ("b-1", Some("b")),
        ("a", None),
        ("z", None),
    ] {
        assert_eq!(of(name).as_deref(), expected, "{name}");
    }
    let of_key = |digit| tenants.of_key(&presented(digit).id).is_some();
    assert_eq!([1, 2, 3].map(of_key), [false, true, true]);
    // What is known of a tenant is kept when the records change.
    let again = Tenants::new(&all, &tenants);
    let name = TenantName::new("acme").unwrap();
    assert!(Arc::ptr_eq(again.get(&name).unwrap(), tenants.get(&name).unwrap()));
}

#[test]
fn p10_schedules_are_admitted_up_to_each_limit() {
    use TenantLimit::{MaxDead, MaxPending, MaxPendingBytes, SchedulePerSecond};
    let commands = || vec![schedule("1"), schedule("2"), schedule("3")];
    for (limit, max, waits) in [
        (MaxPending, 2, true),
        (MaxPendingBytes, 2 * 129, true),
        (SchedulePerSecond, 2, true),
        (MaxDead, 0, false),
    ] {
        let state = state(limits(&[(limit, max)]));
        let admission = state.admit(&commands(), Duration::ZERO).unwrap();
        let expected = if limit == MaxDead { 0 } else { 2 };
        assert_eq!(admission.admitted(commands()).len(), expected, "{limit:?}");
        let failed = Outcome::Failed(Error::InDoubt { reason: String::new() });
        let outcomes = admission.outcomes(vec![failed; expected]);
        let Outcome::Refused(refusal) = &outcomes[2] else { panic!("{outcomes:?}") };
        let text = refusal.to_string();
        assert!(text.contains("tenant acme") && text.contains(limit.as_str()), "{text}");
        let Refusal::TenantLimit { retry_after, .. } = refusal else { panic!("{refusal:?}") };
        assert_eq!(retry_after.is_some(), waits, "{text}");
    }
    assert!(state(TenantLimits::default()).admit(&commands(), Duration::ZERO).is_none());
}

#[test]
fn what_was_not_created_is_given_back() {
    let state = state(limits(&[(TenantLimit::MaxPending, 2)]));
    for _ in 0..3 {
        let admission = state.admit(&[schedule("1")], Duration::ZERO).unwrap();
        let refused = Refusal::UnknownNamespace(NamespaceName::new("acme-a").unwrap());
        admission.outcomes(vec![Outcome::Refused(refused)]);
        assert_eq!(state.usage().counted.pending, 0);
    }
    // A count replaces what was let in before.
    state.admit(&[schedule("1")], Duration::ZERO).unwrap();
    assert_eq!(state.usage().counted.pending, 1);
    state.use_count(Use { pending: 2, ..Use::default() }, Timestamp::MIN);
    assert_eq!(state.usage().counted.pending, 2);
    let admission = state.admit(&[schedule("1")], Duration::ZERO).unwrap();
    assert!(admission.admitted(vec![schedule("1")]).is_empty());
}

#[test]
fn changes_and_redrives_count_too() {
    let namespace = NamespaceName::new("acme-a").unwrap();
    let of = |operation| Command { namespace: namespace.clone(), operation, answer: Answer::Brief };
    let state =
        state(limits(&[(TenantLimit::MaxPending, 1), (TenantLimit::MaxPendingBytes, 1_000)]));
    let payload = |bytes: usize| Payload { form: Form::Binary, bytes: vec![0; bytes].into() };
    let patch = |bytes| {
        let patch = Patch { payload: Change::Set(payload(bytes)), ..Patch::default() };
        let id = TimerId::new("1").unwrap();
        of(Operation::Reschedule { id, patch: Box::new(patch), if_revision: None })
    };
    let admitted = |command: Command| {
        let admission = state.admit(std::slice::from_ref(&command), Duration::ZERO).unwrap();
        !admission.admitted(vec![command]).is_empty()
    };
    assert!(admitted(patch(900)));
    assert!(!admitted(patch(900)), "a larger payload takes its bytes");
    let letter = DeadLetterId::Timer(TimerId::new("1").unwrap());
    let redrive = || of(Operation::Redrive { letter: letter.clone(), delay: Millis::ZERO });
    assert!(admitted(redrive()));
    assert!(!admitted(redrive()), "a redriven timer is pending");
}

/// The size of a field of the calls below, in characters.
const LARGE: usize = 2_000;

/// Every call that makes pending timers larger: its name, method, path and body for the `n`-th timer.
fn growing_calls(n: usize) -> Vec<(&'static str, &'static str, String, serde_json::Value)> {
    let text = "x".repeat(LARGE);
    let http =
        json!({"http": {"url": format!("https://a.example/{text}"), "headers": {"a": text}}});
    let tags: Vec<_> = (0..16).map(|i| format!("{i:060}")).collect();
    let timers = "/v1/namespaces/acme-a/timers";
    let timer = format!("{timers}/{n}");
    let retry = json!({"delays": vec!["1s"; 100]});
    let own = |field: &str, value: serde_json::Value| {
        let mut body = json!({"id": format!("{field}{n}"), "delay": "1h"});
        body[field] = value;
        body
    };
    let replaced = json!({"id": n.to_string(), "delay": format!("{n}h"), "payload_text": text, "if_exists": "replace"});
    vec![
        ("schedule with a payload", "POST", timers.to_owned(), own("payload_text", json!(text))),
        ("schedule with headers", "POST", timers.to_owned(), own("headers", json!({"a": text}))),
        ("schedule with tags", "POST", timers.to_owned(), own("tags", json!(tags))),
        (
            "schedule with a destination",
            "POST",
            timers.to_owned(),
            own("destination", http.clone()),
        ),
        ("schedule with a retry policy", "POST", timers.to_owned(), own("retry", retry.clone())),
        ("replace", "POST", timers.to_owned(), replaced),
        ("change of the payload", "PATCH", timer.clone(), json!({"payload_text": text})),
        ("change of the headers", "PATCH", timer.clone(), json!({"headers": {"a": text}})),
        ("change of the tags", "PATCH", timer.clone(), json!({"tags": tags})),
        ("change of the destination", "PATCH", timer.clone(), json!({"destination": http})),
        ("change of the retry policy", "PATCH", timer, json!({"retry": retry})),
    ]
}

async fn pending_bytes(server: &TestServer) -> u64 {
    let name = NamespaceName::new("acme-a").unwrap();
    let counts = duly_store::Sharded::new(&*server.app.store)
        .counts(&[name])
        .await
        .unwrap()
        .whole()
        .unwrap();
    counts[0].as_ref().unwrap().pending_bytes
}

#[tokio::test]
async fn p10_no_call_makes_a_tenant_exceed_its_bytes() {
    const TIMERS: usize = 40;
    let acme = || tenant("acme", &["acme-*"], TenantLimits::default());
    let server = server(Tenant { implicit_namespaces: true, ..acme() }).await;
    let own = presented(2);
    let ask = async |method: &str, path: &str, body: &serde_json::Value| {
        call_http(&server.app, (method, path), Some(&own), &body.to_string()).await
    };
    let timers = "/v1/namespaces/acme-a/timers";
    for n in 0..TIMERS {
        let dead = json!({"id": format!("d{n}"), "delay": 0, "payload_text": "x".repeat(LARGE)});
        for body in [json!({"id": n.to_string(), "delay": "1h"}), dead] {
            assert_eq!(ask("POST", timers, &body).await.0, StatusCode::CREATED);
        }
    }
    let (status, body) = ask("POST", "/v1/namespaces/acme-a/dead/overdue", &json!({})).await;
    assert_eq!((status, &body["dead_lettered"]), (StatusCode::OK, &json!(TIMERS)), "{body}");
    let count = async || {
        let state = Arc::clone(server.app.auth.tenants().of_namespace("acme-a").unwrap());
        crate::counting::count_tenant(&*server.app.store, &state, &*server.app.clock).await;
    };
    // Sets a limit a little above the present size.
    let limit = async || {
        let most = pending_bytes(&server).await + 15_000;
        let limits = limits(&[(TenantLimit::MaxPendingBytes, most)]);
        let put = AccessChange::PutTenant(Box::new(Tenant { limits, ..acme() }));
        let records = server.app.auth.records();
        let records = records.changed(put, ChangeOrigin::Offline, Timestamp::MIN).unwrap();
        server.app.auth.use_records(records);
        count().await;
        most
    };
    for call in 0..growing_calls(0).len() {
        let most = limit().await;
        let (mut refused, name) = (0, growing_calls(0)[call].0);
        for n in 0..TIMERS {
            // As once a second: an old count adds nothing.
            if n % 20 == 0 {
                count().await;
            }
            let (_, method, path, body) = growing_calls(n).swap_remove(call);
            let (status, body) = ask(method, &path, &body).await;
            refused += usize::from(status == StatusCode::TOO_MANY_REQUESTS);
            assert!(refused > 0 || status.is_success(), "{name}: {status} {body}");
        }
        assert!((1..TIMERS).contains(&refused), "{name}: {refused}");
        assert!(pending_bytes(&server).await <= most, "{name}");
    }
    let most = limit().await;
    let (_, body) = ask("POST", "/v1/namespaces/acme-a/dead/redrive", &json!({"all": true})).await;
    assert_eq!(body["code"], json!("resource_exhausted"), "{body}");
    let step = 16 * (LARGE as u64 + 200);
    assert!(pending_bytes(&server).await <= most + step, "a redrive exceeds it by one step");
}

#[test]
fn an_administrator_of_all_belongs_to_no_tenant() {
    let all = tenant("all", &["*"], limits(&[(TenantLimit::MaxConnections, 1)]));
    let keys = [key(1, Actions::all(), &["*"]), key(2, Role::Operator.actions(), &["*"])];
    let put = AccessChange::PutTenant(Box::new(all));
    let all = records(keys).changed(put, ChangeOrigin::Offline, Timestamp::MIN).unwrap();
    let tenants = Tenants::new(&all, &Tenants::default());
    assert!(tenants.of_key(&presented(1).id).is_none());
    assert!(tenants.of_key(&presented(2).id).is_some());
}

#[test]
fn an_old_count_adds_nothing() {
    let state = state(limits(&[(TenantLimit::MaxPending, 1)]));
    state.use_count(Use::default(), Timestamp::MIN);
    state.admit(&[schedule("1")], Duration::ZERO).unwrap();
    let is_full = || {
        let admission = state.admit(&[schedule("2")], Duration::ZERO).unwrap();
        admission.admitted(vec![schedule("2")]).is_empty()
    };
    assert!(is_full());
    let old = Instant::now() - COUNT_OLD - Duration::from_secs(1);
    state.counts.lock().counted_at = Some((Timestamp::MIN, old));
    assert!(!is_full(), "timers that have ended since are not known");
}

#[test]
fn slots_are_given_back() {
    let state = state(limits(&[
        (TenantLimit::MaxConnections, 1),
        (TenantLimit::MaxWaitingCalls, 1),
        (TenantLimit::CallPerSecond, 2),
        (TenantLimit::MaxNamespaces, 1),
    ]));
    let [first, second] = [ConnectionSlot::default(), ConnectionSlot::default()];
    first.admit(&state).unwrap();
    first.admit(&state).unwrap();
    assert!(second.admit(&state).unwrap_err().into_body().detail.contains("max_connections"));
    drop(first);
    second.admit(&state).unwrap();
    let waiting = state.admit_waiting().unwrap();
    assert!(state.admit_waiting().is_err());
    drop(waiting);
    assert!(state.admit_waiting().is_ok());
    let now = Duration::from_secs(1);
    for group in [CallGroup::Operations, CallGroup::Others] {
        let call = |now| state.admit_call(group, now);
        assert!(call(now).is_ok() && call(now).is_ok(), "{group:?} has a rate of its own");
        let refused = call(now).unwrap_err().into_body();
        assert_eq!(refused.retry_after_ms, Some(500), "{}", refused.detail);
        assert!(call(now + Duration::from_millis(500)).is_ok());
    }
    drop(state.admit_namespace().unwrap());
    state.admit_namespace().unwrap().keep();
    assert!(state.admit_namespace().is_err());
}

#[tokio::test]
async fn a_tenant_cannot_raise_its_own_limits() {
    let server = server(tenant("acme", &["acme-*"], TenantLimits::default())).await;
    let put = r#"{"namespaces":["acme-*"],"limits":{"max_pending":5}}"#;
    let path = "/v1/tenants/acme";
    let own = presented(2);
    let (status, body) = call_http(&server.app, ("PUT", path), Some(&own), put).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{body}");
    let (status, _) = call_http(&server.app, ("DELETE", path), Some(&own), "").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let (status, body) = call_http(&server.app, ("GET", path), Some(&own), "").await;
    assert_eq!((status, &body["name"]), (StatusCode::OK, &json!("acme")), "{body}");
    let (status, _) = call_http(&server.app, ("GET", path), Some(&presented(3)), "").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (_, body) = call_http(&server.app, ("GET", "/v1/tenants"), Some(&presented(3)), "").await;
    assert_eq!(body["tenants"], json!([]));
    let (_, body) = call_http(&server.app, ("GET", "/v1/whoami"), Some(&own), "").await;
    assert_eq!(body["tenant"]["usage"]["pending"], json!(0), "{body}");
}

#[tokio::test]
async fn a_tenant_has_no_backup_of_others() {
    let server = server(tenant("acme", &["acme-*"], TenantLimits::default())).await;
    let backup = ("POST", "/v1/store/backup");
    let (status, body) =
        call_http(&server.app, backup, Some(&presented(2)), r#"{"path":"/tmp/x"}"#).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(body["detail"].as_str().unwrap().contains("of all tenants"), "{body}");
}

#[tokio::test]
async fn destinations_are_those_that_the_administrator_allows() {
    let hosts = vec![HostPattern::new("*.acme.example").unwrap()];
    let acme = tenant("acme", &["acme-*"], TenantLimits::default());
    let server = server(Tenant { destinations: Some(hosts), ..acme }).await;
    let own = presented(2);
    let put = "/v1/namespaces/acme-a";
    let bad = r#"{"destination":{"http":{"url":"https://evil.example/"}}}"#;
    let (status, body) = call_http(&server.app, ("PUT", put), Some(&own), bad).await;
    assert_eq!((status, &body["field"]), (StatusCode::BAD_REQUEST, &json!("destination.http.url")));
    assert!(body["detail"].as_str().unwrap().contains("*.acme.example"), "{body}");
    let good = r#"{"destination":{"http":{"url":"https://hooks.acme.example/"}}}"#;
    let (status, _) = call_http(&server.app, ("PUT", put), Some(&own), good).await;
    assert_eq!(status, StatusCode::CREATED);
    let timers = "/v1/namespaces/acme-a/timers";
    let bad = r#"{"delay":"1h","destination":{"http":{"url":"https://evil.example/"}}}"#;
    let (status, _) = call_http(&server.app, ("POST", timers), Some(&own), bad).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (status, _) =
        call_http(&server.app, ("POST", timers), Some(&own), r#"{"delay":"1h"}"#).await;
    assert_eq!(status, StatusCode::CREATED);
    let fallback = r#"{"fallback":{"destination":{"url":"https://evil.example/"}}}"#;
    let (status, body) = call_http(&server.app, ("PATCH", put), Some(&own), fallback).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
}

#[tokio::test]
async fn a_schedule_creates_the_namespace_of_a_tenant_that_allows_it() {
    let limits = limits(&[(TenantLimit::MaxNamespaces, 1), (TenantLimit::MaxPending, 2)]);
    let acme = tenant("acme", &["acme-*"], limits);
    let server = server(Tenant { implicit_namespaces: true, ..acme }).await;
    let producer = key(4, Role::Producer.actions(), &["acme-*", "b-*"]);
    let put = AccessChange::Put(Box::new(producer));
    let all =
        server.app.auth.records().changed(put, ChangeOrigin::Offline, Timestamp::MIN).unwrap();
    server.app.auth.use_records(all);
    let producer = presented(4);
    let schedule = async |namespace: &str| {
        let path = format!("/v1/namespaces/{namespace}/timers");
        call_http(&server.app, ("POST", &path), Some(&producer), r#"{"delay":"1h"}"#).await
    };
    assert_eq!(schedule("b-1").await.0, StatusCode::FORBIDDEN);
    assert_eq!(schedule("acme-1").await.0, StatusCode::CREATED);
    for (namespace, limit) in
        [("acme-2", "max_namespaces"), ("acme-1", ""), ("acme-1", "max_pending")]
    {
        let (status, body) = schedule(namespace).await;
        let expected = if limit.is_empty() { 201 } else { 429 };
        assert_eq!(status, expected, "{body}");
        assert!(body["detail"].as_str().unwrap_or_default().contains(limit), "{body}");
    }
    // A batch loses only what is over the limit.
    // A repetition adds nothing.
    let path = "/v1/namespaces/acme-1/timers/r";
    let put = r#"{"id":"r","delay":"1h"}"#;
    let timers = ("POST", "/v1/namespaces/acme-1/timers");
    let (status, _) = call_http(&server.app, timers, Some(&producer), put).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    let raised = AccessChange::PutTenant(Box::new(Tenant {
        limits: TenantLimits::default().with(TenantLimit::MaxPending, Some(3)),
        ..(*server.app.auth.tenants().of_namespace("acme-1").unwrap().tenant()).clone()
    }));
    let all = server.app.auth.records().changed(raised, ChangeOrigin::Offline, Timestamp::MIN);
    server.app.auth.use_records(all.unwrap());
    for expected in [StatusCode::CREATED, StatusCode::OK, StatusCode::OK] {
        let (status, body) = call_http(&server.app, timers, Some(&producer), put).await;
        assert_eq!(status, expected, "{body}");
    }
    // Another request with its id is none, and neither is a change of a timer that is there.
    let replace = r#"{"id":"r","delay":"2h","if_exists":"replace"}"#;
    let (status, body) = call_http(&server.app, timers, Some(&producer), replace).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{body}");
    let bytes = AccessChange::PutTenant(Box::new(Tenant {
        limits: TenantLimits::default().with(TenantLimit::MaxPendingBytes, Some(1)),
        ..(*server.app.auth.tenants().of_namespace("acme-1").unwrap().tenant()).clone()
    }));
    let all = server.app.auth.records().changed(bytes, ChangeOrigin::Offline, Timestamp::MIN);
    server.app.auth.use_records(all.unwrap());
    let patch = r#"{"payload_text":"larger"}"#;
    let (status, body) = call_http(&server.app, ("PATCH", path), Some(&producer), patch).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{body}");
    let (status, body) = call_http(&server.app, timers, Some(&producer), put).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let batch = r#"{"operations":[{"cancel":{"id":"none"}},{"schedule":{"id":"x","delay":"1h"}}]}"#;
    let path = ("POST", "/v1/namespaces/acme-1/batch");
    let (status, body) = call_http(&server.app, path, Some(&producer), batch).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let codes = body["results"].as_array().unwrap().iter().map(|it| it["error"]["code"].clone());
    assert_eq!(
        codes.collect::<Vec<_>>(),
        [json!("not_found"), json!("resource_exhausted")],
        "{body}"
    );
}
