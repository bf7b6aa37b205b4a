//! Errors of the framework are problems like any other; rules for callers.

use axum::body::Body;
use http::Request;

use crate::bench::{Answer, Bench};

const TIMERS: &str = "/v1/namespaces/a/timers";

fn plain(method: &str, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path).header("host", "localhost")
}

#[tokio::test]
async fn only_json_is_read() {
    let bench = Bench::new();
    let body = r#"{"id":"t","delay":"1h"}"#;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "application/json; charset=latin1",
        "application/json; profile=x",
        "",
    ] {
        let request = plain("POST", TIMERS).header("content-type", kind);
        let answer = bench.send(request.body(Body::from(body)).unwrap()).await;
        assert_eq!(answer.status, 415, "{kind}");
        let problem = answer.problem("unsupported_media_type");
        assert_eq!(problem["field"], "content-type");
        assert_eq!(problem["seen"], format!("\"{kind}\""));
        assert_eq!(problem["allowed"], "application/json");
    }
    let answer = bench.send(plain("POST", TIMERS).body(Body::from(body)).unwrap()).await;
    answer.problem("unsupported_media_type");
    let fire = plain("POST", "/v1/namespaces/a/timers/t/fire").header("content-type", "text/plain");
    let answer = bench.send(fire.body(Body::from("{}")).unwrap()).await;
    answer.problem("unsupported_media_type");
    assert!(!bench.get("/v1/namespaces").await.text.contains("\"a\""));
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=\"UTF-8\"",
    ] {
        let request = plain("POST", TIMERS).header("content-type", kind);
        let answer = bench.send(request.body(Body::from(body)).unwrap()).await;
        assert!(answer.status.is_success(), "{kind}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_coded_body_is_refused_and_not_read_as_it_is() {
    let bench = Bench::new();
    let call = |encodings: &[&str]| {
        let mut request = plain("POST", TIMERS).header("content-type", "application/json");
        for encoding in encodings {
            request = request.header("content-encoding", *encoding);
        }
        bench.send(request.body(Body::from(r#"{"id":"t","delay":"1h"}"#)).unwrap())
    };
    for encodings in [
        &["gzip"][..],
        &["GZIP"],
        &["br"],
        &["identity, deflate"],
        &["identity", "gzip"],
        &["unheard-of"],
    ] {
        let answer = call(encodings).await;
        assert_eq!(answer.status, 415, "{encodings:?}");
        assert_eq!(answer.problem("unsupported_media_type")["field"], "content-encoding");
    }
    assert!(!bench.get("/v1/namespaces").await.text.contains("\"a\""));
    for encodings in [&["identity"][..], &["Identity, identity"], &[""], &[]] {
        assert!(call(encodings).await.status.is_success(), "{encodings:?}");
    }
}

#[tokio::test]
async fn responses_before_the_body_close_the_connection() {
    let bench = Bench::new();
    for (method, path, name, value, status, closes) in [
        ("POST", TIMERS, "accept", "*/*", 201, false),
        ("POST", TIMERS, "origin", "http://evil", 403, true),
        ("POST", TIMERS, "content-encoding", "gzip", 415, true),
        ("POST", "/v1/namespaces/-/timers", "accept", "*/*", 400, true),
        ("POST", "/v1/namespaces/a/settle", "accept", "*/*", 400, false),
        ("POST", "/nothing", "accept", "*/*", 404, true),
        ("PUT", TIMERS, "accept", "*/*", 405, true),
        ("GET", "/healthz", "accept", "*/*", 200, true),
    ] {
        let text = r#"{"delay":"1h"}"#;
        let parts = futures::stream::iter([Ok::<_, std::convert::Infallible>(text)]);
        for (body, closes) in [(Body::from_stream(parts), closes), (Body::from(text), false)] {
            let request = plain(method, path).header("content-type", "application/json");
            let answer = bench.send(request.header(name, value).body(body).unwrap()).await;
            let said = answer.headers.get("connection").is_some_and(|it| it == "close");
            assert_eq!((answer.status.as_u16(), said), (status, closes), "{method} {path} {name}");
        }
    }
    let answer = bench.schedule(&"x".repeat(32 * 1024 * 1024 + 1)).await;
    assert_eq!(
        (answer.status.as_u16(), answer.headers["connection"].as_bytes()),
        (413, &b"close"[..])
    );
}

#[tokio::test]
async fn a_method_that_is_not_there_names_those_that_are() {
    let bench = Bench::new();
    for (method, path, allow) in [
        ("PUT", "/v1/namespaces/a/timers/t", "GET, HEAD, PATCH, DELETE"),
        ("DELETE", TIMERS, "GET, HEAD, POST"),
        ("GET", "/v1/namespaces/a/settle", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
    ] {
        let answer = bench.call(method, path, "").await;
        assert_eq!(answer.status, 405, "{method} {path}");
        assert_eq!(answer.headers["allow"], allow, "{method} {path}");
        let problem = answer.problem("method_not_allowed");
        assert_eq!(problem["seen"], method);
        assert_eq!(problem["allowed"], allow);
    }
}

#[tokio::test]
async fn a_path_that_is_not_there_says_where_to_look() {
    let bench = Bench::new();
    let problem = bench.get("/v2/a/b/c/d/e/f").await.problem("not_found");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("/openapi.json"), "{detail}");
}

#[tokio::test]
async fn no_web_page_drives_the_server() {
    let bench = Bench::new();
    let send = |host: Option<&'static str>, origin: Option<&'static str>| {
        let bench = &bench;
        async move {
            let mut request = Request::builder()
                .method("POST")
                .uri(TIMERS)
                .header("content-type", "application/json");
            if let Some(host) = host {
                request = request.header("host", host);
            }
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            let body = Body::from(r#"{"delay":"1h"}"#);
            bench.send(request.body(body).unwrap()).await
        }
    };
    for (host, origin) in [
        ("evil.example", None),
        ("evil.example:3859", None),
        ("127.0.0.1.evil.example", None),
        ("192.168.0.1", None),
        ("localhost:3859", Some("http://evil.example")),
        ("localhost:3859", Some("null")),
        ("localhost:3859", Some("http://localhost:8080")),
    ] {
        let answer = send(Some(host), origin).await;
        assert_eq!(answer.status, 403, "{host} {origin:?}");
        let problem = answer.problem("permission_denied");
        let (field, seen) = origin.map_or(("host", host), |origin| ("origin", origin));
        assert_eq!(problem["field"], field);
        assert_eq!(problem["seen"], format!("\"{seen}\""));
        assert!(problem["allowed"].as_str().unwrap().contains("server.allowed_"));
    }
    let answer = send(None, None).await;
    assert_eq!(answer.problem("invalid_argument")["field"], "host");
    assert!(!bench.get("/v1/namespaces").await.text.contains("\"a\""));
    for (host, origin) in [
        ("localhost:3859", None),
        ("127.0.0.1:3859", None),
        ("[::1]:3859", None),
        ("duly.internal", None),
        ("localhost:3859", Some("http://localhost:3859")),
        ("localhost:3859", Some("https://console.example")),
    ] {
        send(Some(host), origin).await.expect(201);
    }
}

#[tokio::test]
async fn a_body_in_parts_is_read_whole() {
    let bench = Bench::new();
    let payload = "x".repeat(200_000);
    let text = format!(r#"{{"id":"t","delay":"1h","payload_text":"{payload}"}}"#);
    let parts: Vec<_> = text.into_bytes().chunks(7_001).map(|p| Ok(p.to_vec())).collect();
    let parts: Vec<Result<Vec<u8>, std::convert::Infallible>> = parts;
    let body = Body::from_stream(futures::stream::iter(parts));
    let request = plain("POST", TIMERS).header("content-type", "application/json");
    let timer = bench.send(request.body(body).unwrap()).await.expect(201);
    assert_eq!(timer["payload_text"], payload);
}

const PAGE: &str = "https://console.example";

async fn from(bench: &Bench, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = plain(method, path).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    bench.send(request.body(Body::from(r#"{"delay":"1h"}"#)).unwrap()).await
}

#[tokio::test]
async fn allowed_origins_get_cors_headers() {
    let bench = Bench::new();
    let asks = [
        ("origin", PAGE),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,traceparent"),
    ];
    let told = from(&bench, "OPTIONS", TIMERS, &asks).await;
    assert_eq!((told.status.as_u16(), told.text.as_str()), (204, ""));
    for (name, value) in [
        ("access-control-allow-origin", PAGE),
        ("access-control-allow-methods", "GET, HEAD, POST"),
        (
            "access-control-allow-headers",
            "accept, authorization, content-type, idempotency-key, traceparent",
        ),
        ("access-control-max-age", "600"),
        ("vary", "origin"),
    ] {
        assert_eq!(told.headers[name], value, "{name}");
    }
    assert!(!bench.get("/v1/namespaces").await.text.contains("\"a\""), "asking changes nothing");
    // The page may read the responses of its calls, and their errors.
    for (method, path, status) in [
        ("POST", TIMERS, 201),
        ("GET", "/v1/namespaces/none", 404),
        ("DELETE", TIMERS, 405),
        ("GET", "/v1/namespaces/a?x=1", 400),
        ("GET", "/healthz", 200),
    ] {
        let answer = from(&bench, method, path, &[("origin", PAGE)]).await;
        assert_eq!(answer.status, status, "{method} {path}");
        assert_eq!(answer.headers["access-control-allow-origin"], PAGE, "{method} {path}");
        assert_eq!(answer.headers["access-control-expose-headers"], "allow, retry-after");
        assert_eq!(answer.headers["vary"], "origin");
    }
}

#[tokio::test]
async fn only_allowed_origins_get_cors_headers() {
    let bench = Bench::new();
    let asks = ("access-control-request-method", "POST");
    for (method, headers, status) in [
        ("OPTIONS", &[("origin", "https://evil.example"), asks][..], 403),
        ("OPTIONS", &[("origin", "https://console.example.evil"), asks], 403),
        ("OPTIONS", &[("origin", "null"), asks], 403),
        ("POST", &[("origin", "https://evil.example")], 403),
        // The server's own pages need no permission; a request without an origin has no preflight.
        ("OPTIONS", &[("origin", "http://localhost"), asks], 405),
        ("OPTIONS", &[asks], 405),
        ("POST", &[("origin", "http://localhost")], 201),
        ("POST", &[], 201),
    ] {
        let answer = from(&bench, method, TIMERS, headers).await;
        assert_eq!(answer.status, status, "{method} {headers:?}: {}", answer.text);
        let said = answer.headers.keys().find(|name| name.as_str().starts_with("access-control-"));
        assert_eq!(said, None, "{method} {headers:?}");
        assert_eq!(answer.headers["vary"], "origin", "answers differ by it all the same");
    }
    // A page whose own name resolves to this machine is foreign, with any origin.
    let rebound = Request::builder().method("OPTIONS").uri(TIMERS).header("host", "evil.example");
    let rebound = rebound.header("origin", PAGE).header(asks.0, asks.1);
    assert_eq!(bench.send(rebound.body(Body::empty()).unwrap()).await.status, 403);
    // An allowed page without a preflight request gets the usual response.
    let wonders = from(&bench, "OPTIONS", TIMERS, &[("origin", PAGE)]).await;
    assert_eq!(wonders.problem("method_not_allowed")["seen"], "OPTIONS");
}
