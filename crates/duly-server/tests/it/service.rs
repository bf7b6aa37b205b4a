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
async fn the_cluster_is_told_with_counts_over_all_namespaces() {
    let bench = Bench::new();
    for (id, state) in [("d", "dead"), ("f", "in_flight"), ("s", "scheduled"), ("u", "due")] {
        bench.timer_in(id, state).await;
    }
    let counts = json!({"pending":3,"overdue":1,"in_flight":1,"dead":1});
    let mut told = bench.get("/v1/cluster").await.expect(200);
    let version = told["version"].take();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&told["shards"], &told["ready"], &told["reasons"]),
        (&json!(1), &json!(true), &json!([]))
    );
    for (count, value) in counts.as_object().unwrap() {
        assert_eq!(&told[count], value, "{count}");
    }
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
        "duly_deployment_pending ".to_owned(),
        "# TYPE duly_http_seconds histogram".to_owned(),
    ] {
        assert!(answer.text.contains(&line), "{line}\n{}", answer.text);
    }
    for line in answer.text.lines().filter(|line| line.starts_with("duly_")) {
        check_sample(line);
    }
}

/// Checks that a line of the response is of a metric in the table, with its labels and no others.
fn check_sample(line: &str) {
    let (name, labels) = line.split_once(['{', ' ']).unwrap();
    let is = |metric: &&metric_names::Metric| match metric.kind {
        metric_names::Kind::Histogram => {
            ["_bucket", "_sum", "_count"].iter().any(|end| name == format!("{}{end}", metric.name))
        }
        _ => name == metric.name,
    };
    let metric = metric_names::ALL.iter().find(is);
    let metric = metric.unwrap_or_else(|| panic!("{line} is not in metric_names"));
    let Some((labels, _)) = labels.rsplit_once("} ") else {
        assert!(metric.labels.is_empty(), "{line} lacks its labels");
        return;
    };
    let pairs = labels.split("\",").map(|pair| pair.split_once("=\"").unwrap());
    let mut found: Vec<_> = pairs.filter(|(label, _)| *label != "le").collect();
    found.sort_unstable();
    for (label, value) in &found {
        assert!(metric.allows(label, value.trim_end_matches('"')), "{line}: {label}");
    }
    assert_eq!(found.len(), metric.labels.len(), "{line}");
}

#[tokio::test]
async fn namespaces_that_are_stopped_are_counted() {
    let bench = Bench::new();
    bench.timer_in("t", "dead").await;
    bench
        .call("PATCH", "/v1/namespaces/a", r#"{"limits":{"namespace":{"max_dead":1}}}"#)
        .await
        .expect(200);
    for name in ["b", "c"] {
        let path = format!("/v1/namespaces/{name}");
        bench.call("PUT", &path, "{}").await.expect(201);
        bench.post(&format!("{path}/pause"), "").await.expect(200);
    }
    // Other tests of the process scrape as well, and then the gauges have the values of their stores.
    let mut seen = false;
    for _ in 0..100 {
        let text = bench.get("/metrics").await.text;
        let says = |line: &str| text.lines().any(|it| it == line);
        seen |= says("duly_deployment_namespaces_paused 2")
            && says("duly_deployment_namespaces_dead_full 1");
    }
    assert!(seen);
}

#[tokio::test]
async fn counters_begin_at_zero_and_readiness_is_a_gauge() {
    let bench = Bench::new();
    bench.get("/readyz").await.expect(200);
    let text = bench.get("/metrics").await.text;
    for metric in metric_names::ALL {
        let starts = |line: &str| line.strip_prefix(metric.name).map(str::to_owned);
        let is_counter = metric.kind == metric_names::Kind::Counter;
        if is_counter && metric.labels.is_empty() {
            assert!(text.lines().filter_map(starts).any(|rest| rest.starts_with(' ')), "{text}");
        }
    }
    assert!(text.contains("duly_audit_findings_total{kind=\"file\"} "), "{text}");
    assert!(text.contains("\nduly_ready "), "{text}");
}
