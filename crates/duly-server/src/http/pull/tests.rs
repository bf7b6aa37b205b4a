//! Lease calls over HTTP on a server whose memory is full.

use axum::{body::Body, response::Response};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::tests::{REQUEST_MEMORY, TestServer};

async fn lease(server: &TestServer) -> Response {
    let request = Request::post("/v1/namespaces/a/lease")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Body::from(r#"{"max":10}"#))
        .unwrap();
    crate::http::router(server.app.clone()).oneshot(request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn p10_calls_refused_for_lack_of_memory_claim_nothing() {
    let server = TestServer::start().await;
    server.due(3).await;
    // The rest of the budget is enough for the call, and for a problem.
    let full = server.budget().reserve_unchecked(REQUEST_MEMORY - 10_000);
    let refused = lease(&server).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(server.granted(), 0);
    drop((refused, full));
    let leased = lease(&server).await;
    assert_eq!(leased.status(), StatusCode::OK);
    assert_eq!(server.granted(), 3);
    let body = leased.into_body().collect().await.unwrap().to_bytes();
    assert!(!server.uses_no_memory(), "its answer is held");
    drop(body);
    assert!(server.uses_no_memory());
}
