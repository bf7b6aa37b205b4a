//! Lease calls over HTTP on a server whose memory is full.

use axum::{body::Body, response::Response};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::world::{BODIES_BYTES, World};

async fn lease(world: &World) -> Response {
    let request = Request::post("/v1/namespaces/a/lease")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Body::from(r#"{"max":10}"#))
        .unwrap();
    crate::http::router(world.app.clone()).oneshot(request).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn p10_calls_refused_for_lack_of_memory_claim_nothing() {
    let world = World::start().await;
    world.due(3).await;
    // The rest of the budget is enough for the call, and for a problem.
    let full = world.app.budget().take_anyway(BODIES_BYTES - 10_000);
    let refused = lease(&world).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(world.granted(), 0);
    drop((refused, full));
    let leased = lease(&world).await;
    assert_eq!(leased.status(), StatusCode::OK);
    assert_eq!(world.granted(), 3);
    let body = leased.into_body().collect().await.unwrap().to_bytes();
    assert!(!world.uses_nothing(), "its answer is held");
    drop(body);
    assert!(world.uses_nothing());
}
