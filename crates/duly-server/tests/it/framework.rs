//! What the framework itself would answer is a problem like any other; who may call.

use axum::body::Body;
use http::Request;

use crate::bench::Bench;

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
    let problem = bench.get("/v2/timers").await.problem("not_found");
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
