//! Health and metrics.

use duly_core::metric_names;
use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn healthy_and_ready() {
    let bench = Bench::new();
    assert_eq!(bench.get("/healthz").await.expect(200), json!({"status":"alive"}));
    assert_eq!(bench.get("/readyz").await.expect(200), json!({"status":"ready"}));
    assert!(bench.store.health().not_ready.is_empty());
}

#[tokio::test]
async fn metrics_tell_of_requests_operations_and_the_store() {
    let bench = Bench::new();
    bench.timer_in("t", "scheduled").await;
    bench.schedule("{").await.problem("invalid_argument");
    let answer = bench.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let kind = answer.headers["content-type"].to_str().unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    let route = r#"route="/v1/namespaces/{namespace}/timers""#;
    for line in [
        format!(r#"duly_http_requests_total{{{route},status="201"}}"#),
        format!(r#"duly_http_requests_total{{{route},status="400"}}"#),
        format!("duly_http_seconds_bucket{{{route},le=\"0.0001\"}}"),
        format!("duly_http_seconds_bucket{{{route},le=\"10\"}}"),
        r#"duly_operations_total{operation="schedule",outcome="created"}"#.to_owned(),
        "duly_pending ".to_owned(),
        "# TYPE duly_http_seconds histogram".to_owned(),
    ] {
        assert!(answer.text.contains(&line), "{line}\n{}", answer.text);
    }
    for line in answer.text.lines().filter(|line| line.starts_with("duly_")) {
        let known = metric_names::ALL.iter().any(|metric| line.starts_with(metric.name));
        assert!(known, "{line} is not in metric_names");
    }
}
