//! Streams of connections without sockets.

use axum::body::HttpBody;
use duly_core::{
    Timestamp,
    access::{Actions, ApiKey, KeyId, NamespacePattern, PresentedKey},
};
use duly_store::AccessRecords;
use http::header::AUTHORIZATION;

use super::*;
use crate::{
    auth::{Auth, Peer},
    connection::{ConnectionKind, WriteProgress},
    operations::{HEALTHZ, METRICS, READYZ},
    tests::{ALLOWED_ORIGIN, REQUEST_MEMORY, TestServer},
};

/// Returns a connection with a budget for strangers.
fn connection(strangers: usize, is_proxy: bool) -> Connection {
    let strangers = (Budget::new(strangers), is_proxy);
    let progress = WriteProgress::new(Duration::from_secs(30));
    Connection::new((ConnectionKind::Main, Peer::default()), progress, None, strangers)
}

fn get(path: &str, key: Option<&PresentedKey>) -> Request<()> {
    let mut request = Request::get(path).body(()).expect("a path");
    if let Some(key) = key {
        let value = format!("Bearer {}", key.reveal()).parse().expect("a value");
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    request
}

fn key() -> PresentedKey {
    PresentedKey::new(KeyId::generate([1; 10]), [1; 32])
}

#[tokio::test]
async fn p10_probes_of_known_callers_pass_a_full_budget() {
    let server = TestServer::start().await;
    let connection = connection(0, false);
    connection.note_caller(&Caller::Anyone);
    let _full = server.budget().reserve_unchecked(REQUEST_MEMORY);
    let admit = |path: &str| connection.admit(&get(path, None), Some(&server.app));
    assert!(matches!(admit("/v1/namespaces"), Err(Refused::OverBudget)));
    for path in [HEALTHZ, READYZ, METRICS, "/grpc.health.v1.Health/Check"] {
        assert!(admit(path).is_ok(), "{path}");
    }
    let open: Vec<_> = (0..PROBES_MAX).map(|_| admit(HEALTHZ).expect("free")).collect();
    assert!(admit(HEALTHZ).is_err(), "they are bounded");
    drop(open);
    assert!(admit(HEALTHZ).is_ok());
}

#[tokio::test]
async fn p10_the_most_streams_of_a_connection_count_until_it_ends() {
    let server = TestServer::start().await;
    let connection = connection(0, false);
    connection.note_caller(&Caller::Anyone);
    let admit = || connection.admit(&get("/v1/namespaces", None), Some(&server.app));
    for _ in 0..2 {
        let open: Vec<_> = (0..KEPT_FREE + 10).map(|_| admit().expect("free")).collect();
        drop(open);
        assert_eq!(server.budget().used(), 10 * KEPT_BYTES);
    }
    drop(connection);
    assert!(server.uses_no_memory());
}

#[tokio::test]
async fn p10_a_connection_whose_calls_find_no_memory_ends() {
    let server = TestServer::start().await;
    let connection = connection(0, false);
    connection.note_caller(&Caller::Anyone);
    let admit = || connection.admit(&get("/v1/namespaces", None), Some(&server.app));
    let refuse = |count: u32| {
        let _full = server.budget().reserve_unchecked(REQUEST_MEMORY);
        for _ in 0..count {
            assert!(matches!(admit(), Err(Refused::OverBudget)));
        }
    };
    for _ in 0..10 {
        refuse(8);
        (0..8).for_each(|_| drop(admit().expect("memory")));
    }
    // A call under way gets its response.
    let under_way = admit().expect("memory");
    refuse(OVER_BUDGET_MAX + 1);
    assert!(!connection.signals.stops_reading());
    let ends = connection.tenant_slot.refused();
    tokio::time::timeout(Duration::from_secs(10), ends).await.expect("it ends in order");
    drop(under_way);
    refuse(1);
    assert!(connection.signals.stops_reading(), "it ends at once");
}

#[tokio::test]
async fn p10_keys_that_cannot_be_looked_at_are_no_refusal() {
    let auth = Auth::new(true, Some(&key()), false);
    let damage = Some("asked to by the test".to_owned());
    auth.use_records(AccessRecords { damage, ..AccessRecords::default() });
    let server = TestServer::start_with(auth).await;
    let connection = connection(0, false);
    for _ in 0..10 * REFUSED_MAX {
        let admitted = connection.admit(&get("/v1/namespaces", Some(&key())), Some(&server.app));
        let [refused, again] = [admitted, connection.admit(&get("/a", None), Some(&server.app))]
            .map(|it| it.expect_err("no space"));
        let response = refused.response(false);
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[RETRY_AFTER], "60");
        let response = again.response(true);
        assert_eq!(response.headers()["grpc-status"], "14", "{response:?}");
    }
    assert!(!connection.signals.stops_reading());
}

#[tokio::test]
async fn callers_have_all_streams_while_the_store_opens() {
    let connection = connection(REQUEST_MEMORY, false);
    let admit = || connection.admit(&get("/v1/namespaces", None), None);
    let _open: Vec<_> = (0..STREAMS_MAX).map(|_| admit().expect("free")).collect();
    assert!(matches!(admit(), Err(Refused::OverBudget)));
}

#[tokio::test]
async fn p10_each_stream_of_a_proxy_has_its_own_caller() {
    let server = TestServer::start_with(Auth::new(true, Some(&key()), false)).await;
    let proxy = connection(0, true);
    let admit =
        |key: Option<&PresentedKey>| proxy.admit(&get("/v1/namespaces", key), Some(&server.app));
    let _first = admit(Some(&key())).expect("a valid key");
    for _ in 0..10 * REFUSED_MAX {
        assert!(matches!(admit(None), Err(Refused::WithoutKey)));
    }
    assert!(!proxy.signals.stops_reading(), "others use it too");
    assert!(admit(Some(&key())).is_ok());
    // Its callers without a key share the budget of strangers.
    let proxy = connection(2 * STREAM_BYTES, true);
    let used = server.budget().used();
    let _open = proxy.admit(&get("/v1/namespaces", None), Some(&server.app)).expect("free");
    assert_eq!(server.budget().used(), used);
}

#[tokio::test]
async fn p10_a_preflight_costs_its_bytes_alone() {
    let server = TestServer::start_with(Auth::new(true, Some(&key()), false)).await;
    let mut request = get("/v1/namespaces", None);
    *request.method_mut() = http::Method::OPTIONS;
    let headers = request.headers_mut();
    headers.insert("origin", ALLOWED_ORIGIN.parse().unwrap());
    headers.insert("access-control-request-method", HeaderValue::from_static("GET"));
    for is_proxy in [false, true] {
        let connection = connection(REQUEST_MEMORY, is_proxy);
        let admit = |request| connection.admit(request, Some(&server.app));
        let most: Vec<_> = (0..STREAMS_MAX).map(|_| admit(&request).expect("few")).collect();
        assert!(matches!(admit(&get("/v1/namespaces", None)), Err(Refused::WithoutKey)));
        drop(most);
    }
    let connection = connection(STREAM_BYTES, false);
    let full = connection.admit(&request, Some(&server.app));
    assert!(matches!(full, Err(Refused::OverBudget)), "its head has no space");
}

#[tokio::test]
async fn p10_a_revoked_key_admits_no_streams() {
    let auth = Auth::new(true, Some(&key()), false);
    let server = TestServer::start_with(auth.clone()).await;
    let connection = connection(0, false);
    let admit = || connection.admit(&get("/v1/namespaces", Some(&key())), Some(&server.app));
    assert!(admit().is_ok() && admit().is_ok());
    // An administrator's key ends the root key.
    let admin = PresentedKey::new(KeyId::generate([2; 10]), [2; 32]);
    let rights = (Actions::all(), vec![NamespacePattern::all()]);
    let created = (Timestamp::MIN, String::new());
    let admin = ApiKey::new(&admin, "admin".to_owned(), rights, created);
    let keys = [(admin.id.clone(), admin)].into();
    auth.use_records(AccessRecords { version: 1, keys, ..AccessRecords::default() });
    for _ in 0..=REFUSED_MAX {
        assert!(matches!(admit(), Err(Refused::WithoutKey)));
    }
    assert!(connection.signals.stops_reading(), "it ends as any without a key");
}

#[test]
fn p10_the_authority_of_a_request_counts() {
    let [short, long] = ["a", &"a".repeat(1_000)]
        .map(|host| head_bytes(&get(&format!("http://{host}/v1/namespaces"), None)));
    assert_eq!(long - short, 999);
}

#[tokio::test]
async fn refusals_without_a_body_are_those_of_the_page() {
    let page = include_str!("../../../../../docs/reference/http.md");
    let problem = Problem::temporary(Code::Unavailable, "asked to by the test");
    for refused in
        [Refused::WithoutKey, Refused::OverBudget, Refused::KeysUnavailable(Box::new(problem))]
    {
        let response = refused.response(false);
        assert!(response.headers().contains_key(RETRY_AFTER));
        let (_, rest) = page.split_once("| status without a body | reason |").unwrap();
        let row = format!("\n  | {} | ", response.status().as_u16());
        assert!(rest.split_once("\n\n").unwrap().0.contains(&row), "{row}");
        assert!(HttpBody::is_end_stream(response.body()), "it has no body");
    }
}
