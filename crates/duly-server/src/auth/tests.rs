use std::collections::BTreeMap;

use axum::body::Body;
use duly_core::access::Role;
use duly_store::{AccessChange, ChangeOrigin};
use http::{
    HeaderValue, Method, Request, StatusCode,
    header::{HOST, WWW_AUTHENTICATE},
};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::{
    grpc,
    http::{App, router},
    operations::OPERATIONS,
    tests::{ALLOWED_ORIGIN, TestServer},
};

mod rights;

const NOW: Timestamp = Timestamp::MIN;

/// The effect of authorization on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The call got to its handler, whatever that said.
    Permitted,
    Unauthenticated,
    Denied,
    /// As if there were no such namespace.
    Hidden,
}

pub(crate) fn presented(digit: u8) -> PresentedKey {
    PresentedKey::new(duly_core::access::KeyId::generate([digit; 10]), [digit; 32])
}

pub(crate) fn key(digit: u8, actions: Actions, namespaces: &[&str]) -> ApiKey {
    let presented = presented(digit);
    let patterns = namespaces.iter().map(|text| NamespacePattern::new(text).unwrap());
    let rights = (actions, patterns.collect());
    ApiKey::new(&presented, format!("key {digit}"), rights, (NOW, "offline".to_owned()))
}

pub(crate) fn records(keys: impl IntoIterator<Item = ApiKey>) -> AccessRecords {
    let keys = keys.into_iter();
    keys.fold(AccessRecords::default(), |records, key| {
        let put = AccessChange::Put(Box::new(key));
        records.changed(put, ChangeOrigin::Offline, NOW).unwrap()
    })
}

fn headers(value: &str) -> HeaderMap {
    HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(value).unwrap())])
}

fn bearer(key: &PresentedKey) -> String {
    format!("Bearer {}", key.reveal())
}

fn with_key(builder: http::request::Builder, key: Option<&PresentedKey>) -> http::request::Builder {
    match key {
        Some(key) => builder.header(AUTHORIZATION, bearer(key)),
        None => builder,
    }
}

pub(crate) async fn call_http(
    app: &App,
    (method, path): (&str, &str),
    key: Option<&PresentedKey>,
    body: &str,
) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(path).header(HOST, "localhost");
    let request = with_key(request, key).header("content-type", "application/json");
    let response =
        router(app.clone()).oneshot(request.body(Body::from(body.to_owned())).unwrap()).await;
    let response = response.unwrap();
    let status = response.status();
    assert_eq!(status == 401, response.headers().contains_key(WWW_AUTHENTICATE));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn verdict_of(code: &str, detail: &str) -> Verdict {
    match code {
        "unauthenticated" => Verdict::Unauthenticated,
        "permission_denied" => Verdict::Denied,
        "not_found" if detail.contains("for key") => Verdict::Hidden,
        _ => Verdict::Permitted,
    }
}

pub(crate) async fn http_verdict(
    app: &App,
    call: (&str, &str),
    key: Option<&PresentedKey>,
) -> Verdict {
    let (_, body) = call_http(app, call, key, "").await;
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    verdict_of(&text("code"), &text("detail"))
}

pub(crate) async fn grpc_verdict(
    app: &App,
    path: &str,
    namespace: &str,
    key: Option<&PresentedKey>,
) -> Verdict {
    let length = u8::try_from(namespace.len()).unwrap();
    let mut message = vec![0x0a, length];
    message.extend(namespace.as_bytes());
    if path.ends_with("/Consume") {
        // The namespace is in the first field of the first request.
        message.splice(0..0, [0x0a, length + 2]);
    }
    let mut body = vec![0, 0, 0, 0, u8::try_from(message.len()).unwrap()];
    body.extend(message);
    let request = Request::builder().method(Method::POST).uri(path).header(HOST, "localhost");
    let request = with_key(request, key).header("content-type", "application/grpc");
    let response = grpc::router(app.clone()).oneshot(request.body(Body::from(body)).unwrap()).await;
    let (mut parts, body) = response.unwrap().into_parts();
    let collected = tokio::time::timeout(std::time::Duration::from_millis(200), body.collect());
    if let Ok(Ok(collected)) = collected.await
        && let Some(trailers) = collected.trailers()
    {
        parts.headers.extend(trailers.clone());
    }
    let text = |name: &str| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let code = match text("grpc-status").as_str() {
        "16" => "unauthenticated",
        "7" => "permission_denied",
        "5" => "not_found",
        _ => "",
    };
    verdict_of(code, &text("grpc-message").replace("%20", " "))
}

#[test]
fn every_caller_without_a_valid_key_gets_the_same_answer() {
    let auth = Auth::new(true, None, false);
    let everything = key(1, Actions::all(), &["*"]);
    let disabled = ApiKey { disabled: true, ..key(2, Actions::all(), &["*"]) };
    let expired = ApiKey { expires_at: Some(NOW), ..key(3, Actions::all(), &["*"]) };
    auth.use_records(records([everything, disabled, expired]));
    let admit = |headers: &HeaderMap| auth.admit(Right::AnyKey, headers, Peer::default(), NOW).1;
    let good = bearer(&presented(1));
    assert!(admit(&headers(&good)).is_ok());
    assert!(admit(&headers(&good.replace("Bearer", "bearer"))).is_ok());
    let other_secret = PresentedKey::new(presented(1).id, presented(2).secret());
    let mut twice = headers(&good);
    twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer other"));
    let refused = [
        HeaderMap::new(),
        headers(""),
        headers("Bearer"),
        headers("Basic dXNlcjpwYXNz"),
        headers(&good[..good.len() - 1]),
        headers(&good.replace("Bearer ", "")),
        headers(&bearer(&other_secret)),
        headers(&bearer(&presented(2))),
        headers(&bearer(&presented(3))),
        headers(&bearer(&presented(4))),
        twice,
    ];
    let problems = refused.map(|headers| {
        let problem = admit(&headers).expect_err(&format!("{headers:?}"));
        format!("{:?}", problem.into_body())
    });
    assert!(problems.iter().all(|problem| *problem == problems[0]), "{problems:?}");
    assert!(!problems[0].contains("secret"));
}

#[test]
fn the_root_key_ends_with_the_first_administrator() {
    let auth = Auth::new(true, Some(&presented(9)), false);
    let admit = |digit| {
        let headers = headers(&bearer(&presented(digit)));
        auth.admit(Right::Needs(Action::Keys), &headers, Peer::default(), NOW).1.is_ok()
    };
    assert!(admit(9));
    auth.use_records(records([key(1, Role::Producer.actions(), &["*"])]));
    assert!(admit(9) && !admit(1));
    let both = [key(1, Role::Producer.actions(), &["*"]), key(2, Actions::all(), &["*"])];
    auth.use_records(records(both));
    assert!(!admit(9) && admit(2));
}

#[test]
fn restored_keys_admit_no_one() {
    let auth = Auth::new(false, Some(&presented(9)), false);
    let restored = AccessRecords {
        restore: RestoreState::Unconfirmed,
        ..records([key(1, Actions::all(), &["*"])])
    };
    auth.use_records(restored);
    let admit = |digit| {
        let headers = headers(&bearer(&presented(digit)));
        auth.admit(Right::AnyKey, &headers, Peer::default(), NOW).1.is_ok()
    };
    assert!(!admit(1) && admit(9));
    assert!(auth.admit(Right::AnyKey, &HeaderMap::new(), Peer::default(), NOW).1.is_err());
}

#[test]
fn subjects_of_certificates_and_tokens_hold_keys() {
    let issuer = tokens::tests::Issuer::new();
    let modes = AuthModes {
        keys: false,
        certificates: true,
        tokens: Some(Arc::new(tokens::tests::tokens(&issuer.jwks("one")))),
    };
    let now = Timestamp::saturating_from_unix_ms(1_800_000_000_000);
    let auth = Auth::new(true, None, false).with_modes(modes.clone());
    let subject = |text: &str| Subject::new(text).unwrap();
    let of = |digit, text: &str| {
        key(digit, Role::Producer.actions(), &["a"]).with_subject(Some(subject(text)))
    };
    let group =
        ApiKey { networks: vec!["10.0.0.0/8".parse().unwrap()], ..of(3, "jwt:group:orders") };
    auth.use_records(records([
        key(1, Actions::all(), &["*"]),
        of(2, "cert:spiffe://example.org/orders"),
        group,
    ]));
    let peer = |ends_at, address: &str| Peer {
        address: Some(address.parse().unwrap()),
        certificate: Some(Arc::new(PeerCertificate {
            subjects: Arc::new([
                subject("cert:other"),
                subject("cert:spiffe://example.org/orders"),
            ]),
            ends_at,
        })),
    };
    let later = now.saturating_add(Millis::from_secs(1));
    let who = |auth: &Auth, headers: &HeaderMap, peer| {
        let (key, admitted) = auth.admit(Right::AnyKey, headers, peer, now);
        assert_eq!(key.is_some(), admitted.is_ok());
        key.and_then(|caller| caller.key().map(|key| key.id.to_string()))
    };
    let name = |digit: u8| Some(duly_core::access::KeyId::generate([digit; 10]).to_string());
    let none = HeaderMap::new();
    assert_eq!(who(&auth, &none, peer(later, "10.0.0.1")), name(2));
    assert_eq!(who(&auth, &none, peer(now, "10.0.0.1")), None, "the certificate has ended");
    assert_eq!(who(&auth, &none, Peer::default()), None);
    let token = issuer.token(&tokens::tests::header(), &tokens::tests::claims());
    let token = headers(&format!("Bearer {token}"));
    assert_eq!(who(&auth, &token, peer(later, "10.0.0.1")), name(3), "a token goes first");
    assert_eq!(who(&auth, &token, peer(later, "192.0.2.1")), None, "networks hold for tokens too");
    // A key with a secret is no means here.
    assert_eq!(who(&auth, &headers(&bearer(&presented(1))), peer(later, "10.0.0.1")), None);
    // Neither are certificates and tokens where only keys are.
    let keys = Auth::new(true, None, false);
    keys.use_records((*auth.records()).clone());
    for headers in [&none, &token] {
        assert_eq!(who(&keys, headers, peer(later, "10.0.0.1")), None);
    }
    assert_eq!(who(&keys, &headers(&bearer(&presented(1))), Peer::default()), name(1));
    assert_eq!(
        who(&keys, &headers(&bearer(&presented(2))), Peer::default()),
        None,
        "it has no secret"
    );
}

#[test]
fn keys_older_than_not_before_are_refused() {
    let since = Timestamp::saturating_from_unix_ms(1_800_000_000_000);
    let auth = Auth::new(true, Some(&presented(3)), false).not_before(since);
    let newer = ApiKey { created_at: since, ..key(2, Role::Producer.actions(), &["*"]) };
    auth.use_records(records([key(1, Actions::all(), &["*"]), newer]));
    let is_admitted = |digit| {
        let headers = headers(&bearer(&presented(digit)));
        auth.admit(Right::AnyKey, &headers, Peer::default(), NOW).1.is_ok()
    };
    // The root key is valid again, because no administrator is.
    assert_eq!([1, 2, 3].map(is_admitted), [false, true, true]);
}

#[test]
fn keys_are_required_from_the_first_one_on() {
    let auth = Auth::new(false, None, false);
    let admit =
        || auth.admit(Right::Needs(Action::Store), &HeaderMap::new(), Peer::default(), NOW).1;
    assert!(matches!(admit(), Ok(Caller::Anyone)));
    auth.use_records(records([key(1, Actions::all(), &["*"])]));
    assert!(admit().is_err());
    // Older records, or none at all, do not open the server again.
    auth.use_records(AccessRecords::default());
    assert!(admit().is_err());
}

#[tokio::test]
async fn keys_are_managed_within_the_rights_of_the_caller() {
    let server = TestServer::start_with(Auth::new(true, Some(&presented(9)), false)).await;
    let app = &server.app;
    let root = presented(9);
    let call = async |method: &str, path: &str, key: &PresentedKey, body: &'static str| {
        let (status, body) = call_http(app, (method, path), Some(key), body).await;
        (status.as_u16(), body)
    };
    let secret_of =
        |body: &Value| body["secret"].as_str().unwrap().parse::<PresentedKey>().unwrap();
    // The first key must be an administrator.
    let producer = r#"{"name":"orders","actions":["producer"],"namespaces":["orders*"]}"#;
    assert_eq!(call("POST", "/v1/keys", &root, producer).await.0, 400);
    let admin = r#"{"name":"ops","actions":["admin"],"namespaces":["*"]}"#;
    let (status, made) = call("POST", "/v1/keys", &root, admin).await;
    assert_eq!((status, &made["key"]["created_by"]), (201, &json!(root.id.as_str())));
    let admin = secret_of(&made);
    assert_eq!(call("GET", "/v1/whoami", &root, "").await.0, 401);
    let (_, who) = call("GET", "/v1/whoami", &admin, "").await;
    assert_eq!((&who["keys_required"], &who["key"]["name"]), (&json!(true), &json!("ops")));
    let (_, made) = call("POST", "/v1/keys", &admin, producer).await;
    let producer = secret_of(&made);
    let path = format!("/v1/keys/{}", producer.id);
    assert_eq!(call("GET", &path, &producer, "").await.0, 403);
    let (_, shown) = call("GET", &path, &admin, "").await;
    assert!(shown["namespaces"] == json!(["orders*"]) && !shown.to_string().contains("duly_"));
    // A helper with the right to keys makes none that permits more than its own.
    let helper = r#"{"name":"helper","actions":["keys","read"],"namespaces":["a*"]}"#;
    let helper = secret_of(&call("POST", "/v1/keys", &admin, helper).await.1);
    let more = r#"{"name":"more","actions":["admin"],"namespaces":["*"]}"#;
    assert_eq!(call("POST", "/v1/keys", &helper, more).await.0, 403);
    let wider = r#"{"name":"more","actions":["read"],"namespaces":["b"]}"#;
    assert_eq!(call("POST", "/v1/keys", &helper, wider).await.0, 403);
    let same = r#"{"name":"same","actions":["read"],"namespaces":["ab"]}"#;
    assert_eq!(call("POST", "/v1/keys", &helper, same).await.0, 201);
    // It sees no others, and cannot outlive its own end.
    assert_eq!(call("GET", &path, &helper, "").await.0, 404);
    let (_, listed) = call("GET", "/v1/keys", &helper, "").await;
    let names = listed["keys"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap());
    assert_eq!(names.collect::<std::collections::BTreeSet<_>>(), ["helper", "same"].into());
    let short = r#"{"name":"short","actions":["keys"],"namespaces":["*"],"expires_in":"1h"}"#;
    let short = secret_of(&call("POST", "/v1/keys", &admin, short).await.1);
    let longer = r#"{"name":"longer","actions":["keys"],"namespaces":["*"]}"#;
    assert_eq!(call("POST", "/v1/keys", &short, longer).await.0, 403);
    let own = format!("/v1/keys/{}", short.id);
    assert_eq!(call("PATCH", &own, &short, r#"{"expires_at":null}"#).await.0, 403);
    assert_eq!(call("DELETE", &path, &helper, "").await.0, 404);
    assert_eq!(call("POST", &format!("{path}/rotate"), &helper, "").await.0, 404);
    // A rotation keeps the old secret for a time.
    let rotate = format!("{path}/rotate");
    let (_, made) = call("POST", &rotate, &admin, r#"{"keep_old":"1h"}"#).await;
    let newer = secret_of(&made);
    for key in [&producer, &newer] {
        assert_eq!(call("GET", "/v1/whoami", key, "").await.0, 200);
    }
    let (_, made) = call("POST", &rotate, &admin, "").await;
    assert!(made["key"]["old_secret_until"].is_string(), "an hour: {made}");
    let third = secret_of(&made);
    let newest = secret_of(&call("POST", &rotate, &admin, r#"{"keep_old":"0s"}"#).await.1);
    for (key, status) in [(&producer, 401), (&newer, 401), (&third, 401), (&newest, 200)] {
        assert_eq!(call("GET", "/v1/whoami", key, "").await.0, status);
    }
    assert_eq!(call("PATCH", &path, &admin, r#"{"disabled":true}"#).await.0, 200);
    assert_eq!(call("GET", "/v1/whoami", &newest, "").await.0, 401);
    assert_eq!(
        call("PATCH", &path, &admin, r#"{"disabled":false,"expires_at":null}"#).await.0,
        200
    );
    assert_eq!(call("DELETE", &path, &admin, "").await.0, 204);
    assert_eq!(call("DELETE", &path, &admin, "").await.0, 404);
    // The last administrator stays.
    let own = format!("/v1/keys/{}", admin.id);
    let (status, refused) = call("DELETE", &own, &admin, "").await;
    assert!(status == 400 && refused["detail"].as_str().unwrap().contains("admin"), "{refused}");
    assert_eq!(call("PATCH", &own, &admin, r#"{"disabled":true}"#).await.0, 400);
    for (body, field) in [
        (r#"{"name":"","actions":["read"],"namespaces":["*"]}"#, "name"),
        (r#"{"name":"x","actions":["reed"],"namespaces":["*"]}"#, "actions"),
        (r#"{"name":"x","actions":["read"],"namespaces":["a*b"]}"#, "namespaces"),
        (r#"{"name":"x","actions":["read"],"namespaces":["*"],"networks":["ten"]}"#, "networks"),
        (r#"{"name":"x","actions":["read"],"namespaces":["*"],"expires_in":"1"}"#, "expires_in"),
    ] {
        let (status, refused) = call("POST", "/v1/keys", &admin, body).await;
        assert_eq!((status, refused["field"].as_str()), (400, Some(field)), "{refused}");
    }
}

#[tokio::test]
async fn a_key_revoked_before_the_body_arrives_changes_nothing() {
    let auth = Auth::new(true, None, false);
    let server = TestServer::start_with(auth).await;
    let app = &server.app;
    app.auth.use_records(records([key(1, Actions::all(), &["*"]), key(2, Actions::all(), &["*"])]));
    let (sender, arriving) = tokio::sync::oneshot::channel::<&str>();
    let body = Body::from_stream(futures::stream::once(async move {
        Ok::<_, std::convert::Infallible>(arriving.await.unwrap())
    }));
    let request = Request::builder().method("POST").uri("/v1/keys").header(HOST, "localhost");
    let request = with_key(request, Some(&presented(2))).header("content-type", "application/json");
    let slow = tokio::spawn(router(app.clone()).oneshot(request.body(body).unwrap()));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let revoked = AccessRecords { version: 9, ..records([key(1, Actions::all(), &["*"])]) };
    app.auth.use_records(revoked);
    sender.send(r#"{"name":"x","actions":["admin"],"namespaces":["*"]}"#).unwrap();
    assert_eq!(slow.await.unwrap().unwrap().status(), 401);
}

#[tokio::test]
async fn a_revoked_key_ends_its_streams() {
    let auth = Auth::new(true, None, false);
    auth.use_records(records([key(1, Actions::all(), &["*"]), key(2, Actions::all(), &["a"])]));
    let admit =
        || auth.admit(Right::AnyKey, &headers(&bearer(&presented(2))), Peer::default(), NOW).1;
    let caller = admit().unwrap();
    assert!(caller.check_still_valid(NOW).is_ok());
    let narrowed = AccessRecords {
        version: 3,
        ..records([key(1, Actions::all(), &["*"]), key(2, Actions::all(), &["b"])])
    };
    auth.use_records(narrowed);
    assert!(caller.check_still_valid(NOW).is_err() && admit().is_ok());
    let removed = AccessRecords { version: 4, ..records([key(1, Actions::all(), &["*"])]) };
    auth.use_records(removed);
    assert!(caller.check_still_valid(NOW).is_err() && admit().is_err());
}

#[tokio::test]
async fn p10_failures_are_limited_and_valid_keys_are_not() {
    let auth = Auth::new(true, None, false).failures_per_second(1);
    auth.use_records(records([key(1, Actions::all(), &["*"])]));
    let server = TestServer::start_with(auth).await;
    let (valid, unknown) = (presented(1), presented(9));
    let call = |key| call_http(&server.app, ("GET", "/v1/whoami"), key, "");
    for _ in 0..5 {
        assert_eq!(call(Some(&unknown)).await.0, 401);
    }
    for key in [Some(&unknown), None] {
        let (status, body) = call(key).await;
        assert_eq!(status, 429);
        assert!(body["detail"].as_str().unwrap().contains("auth.failures_per_second"), "{body}");
        assert!(body["retry_after_ms"].as_u64().is_some_and(|wait| wait <= 1_000), "{body}");
    }
    assert_eq!(call(Some(&valid)).await.0, 200);
    assert_eq!(call_http(&server.app, ("GET", "/healthz"), None, "").await.0, 200);
}

#[tokio::test]
async fn p10_preflight_requests_are_no_failures() {
    let server = TestServer::start_with(Auth::new(true, None, false).failures_per_second(1)).await;
    let call = |method: &'static str, origin: &'static str| {
        let request = Request::builder().method(method).uri("/v1/namespaces");
        let request = request.header(HOST, "localhost").header("origin", origin);
        let request = request.header("access-control-request-method", "GET");
        router(server.app.clone()).oneshot(request.body(Body::empty()).unwrap())
    };
    for _ in 0..300 {
        assert_eq!(call("OPTIONS", ALLOWED_ORIGIN).await.unwrap().status(), 204);
    }
    // The page learns that it needs a key, not that it asked too often.
    assert_eq!(call("GET", ALLOWED_ORIGIN).await.unwrap().status(), 401);
    assert_eq!(call("OPTIONS", "https://evil.example").await.unwrap().status(), 403);
}
