//! Rates, a second receiver, and a namespace that resumes at a time.

use serde_json::json;

use crate::bench::Bench;

const NS: &str = "/v1/namespaces/a";

#[tokio::test]
async fn p10_schedules_over_the_rate_get_a_retry_time() {
    let bench = Bench::new();
    let body =
        r#"{"limits":{"lane":{"deliver_per_second":5},"namespace":{"schedule_per_second":2}}}"#;
    let made = bench.call("PUT", NS, body).await.expect(201);
    assert_eq!(made["limits"]["namespace"]["schedule_per_second"], 2);
    assert_eq!(made["limits"]["lane"]["deliver_per_second"], 5);
    let counter = "duly_limit_refusals_total{limit=\"schedule_per_second\"}";
    let before = bench.metric(counter).await;
    for id in ["t1", "t2"] {
        bench.schedule(&json!({"id":id,"delay":"1h"}).to_string()).await.expect(201);
    }
    let refused = bench.schedule(r#"{"id":"t3","delay":"1h"}"#).await;
    let problem = refused.problem("resource_exhausted");
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["retry_after_ms"], 500);
    assert!(problem["detail"].as_str().is_some_and(|text| text.contains("schedule_per_second")));
    bench.schedule(r#"{"id":"t1","delay":"1h"}"#).await.expect(200);
    let batch = r#"{"operations":[{"cancel":{"id":"t2"}},{"schedule":{"id":"t4","delay":"1h"}}]}"#;
    let results = bench.post(&format!("{NS}/batch"), batch).await.expect(200);
    assert_eq!(results["results"][0]["outcome"], "cancelled");
    assert_eq!(results["results"][1]["error"]["retry_after_ms"], 500);
    assert!(bench.metric(counter).await >= before + 2.0, "the call and the operation");
    bench.advance(1);
    bench.schedule(r#"{"id":"t3","delay":"1h"}"#).await.expect(201);
}

#[tokio::test]
async fn a_fallback_is_taken_shown_and_reset() {
    let bench = Bench::new();
    let body = json!({"fallback":{"destination":{"http":{"url":"https://second.example/",
        "headers":{"x-api-key":"hunter2"}}}}});
    let made = bench.call("PUT", NS, &body.to_string()).await;
    assert!(!made.text.contains("hunter2"), "{}", made.text);
    let made = made.expect(201);
    let fallback = &made["fallback"];
    assert_eq!((&fallback["after_attempts"], &fallback["after_open"]), (&json!(5), &json!("1m")));
    assert_eq!(fallback["destination"]["http"]["url"], "https://second.example/");
    let kept = bench.call("PATCH", NS, r#"{"weight":2}"#).await.expect(200);
    assert_eq!(kept["fallback"], made["fallback"]);
    let stats = async || bench.get(&format!("{NS}/stats")).await.expect(200);
    let unknown = json!({"breaker":"closed","failures_in_a_row":0});
    assert_eq!(stats().await["fallback"], unknown);
    let reset = bench.call("PATCH", NS, r#"{"fallback":null}"#).await.expect(200);
    assert!(reset.get("fallback").is_none());
    assert!(stats().await.get("fallback").is_none());
    let http = r#"{"http":{"url":"http://h/"}}"#;
    for (fallback, field) in [
        (r#"{"destination":{"pull":{}}}"#.to_owned(), "fallback.destination"),
        (format!(r#"{{"destination":{http},"after_attempts":0}}"#), "fallback.after_attempts"),
        (format!(r#"{{"destination":{http},"after_open":"2d"}}"#), "fallback.after_open"),
    ] {
        let body = format!(r#"{{"fallback":{fallback}}}"#);
        let problem = bench.call("PUT", NS, &body).await.problem("invalid_argument");
        assert_eq!(problem["field"], field);
    }
}

#[tokio::test]
async fn a_paused_namespace_resumes_at_its_time() {
    let bench = Bench::new();
    bench.schedule(r#"{"id":"t","delay":0}"#).await.expect(201);
    bench.post(&format!("{NS}/pause"), "").await.expect(200);
    let at = "2030-03-17T17:46:50.000Z";
    let resume = format!("{NS}/resume");
    let waits = bench.post(&resume, &json!({"at":at}).to_string()).await.expect(200);
    assert_eq!((&waits["paused"], &waits["resumes_at"]), (&json!(true), &json!(at)));
    let stats = bench.get(&format!("{NS}/stats")).await.expect(200);
    assert_eq!((&stats["paused"], &stats["dead_letters_full"]), (&json!(true), &json!(false)));
    bench.advance(9);
    let lease = bench.post(&format!("{NS}/lease"), "{}").await.expect(200);
    assert_eq!(lease["paused"], true);
    bench.advance(1);
    let lease = bench.post(&format!("{NS}/lease"), "{}").await.expect(200);
    assert_eq!(lease["firings"].as_array().map(Vec::len), Some(1));
    let known = bench.get(NS).await.expect(200);
    assert_eq!(known["paused"], false);
    assert!(known.get("resumes_at").is_none());
    let problem = bench.post(&resume, r#"{"at":"soon"}"#).await.problem("invalid_argument");
    assert_eq!(problem["field"], "at");
    bench.post(&resume, r#"{"until":0}"#).await.problem("invalid_argument");
    bench.post(&resume, "{}").await.expect(200);
    let repaired = bench.post(&format!("{NS}/repair"), "").await.expect(200);
    assert_eq!((&repaired["restored"], &repaired["pending_lost"]), (&json!(false), &json!(0)));
}

#[tokio::test]
async fn a_refusal_shows_the_delay_as_its_caller_wrote_it() {
    let bench = Bench::new();
    bench.call("PUT", NS, r#"{"limits":{"namespace":{"max_delay":"1h"}}}"#).await.expect(201);
    bench.schedule(r#"{"id":"t","delay":"1m"}"#).await.expect(201);
    let schedule = r#"{"id":"x","delay":"7200s"}"#;
    let line = format!(r#"{{"operations":[{{"schedule":{schedule}}}]}}"#);
    let batch = bench.post(&format!("{NS}/batch"), &line).await.expect(200);
    let at = "2033-05-18T05:33:20+02:00";
    for (problem, seen) in [
        (bench.schedule(schedule).await.problem("invalid_argument"), "\"7200s\""),
        (batch["results"][0]["error"].clone(), "\"7200s\""),
        (
            bench
                .call("PATCH", &format!("{NS}/timers/t"), &format!(r#"{{"due_at":"{at}"}}"#))
                .await
                .problem("invalid_argument"),
            &*format!("{at:?}"),
        ),
    ] {
        assert_eq!(problem["seen"], seen);
        assert!(problem["detail"].as_str().unwrap().ends_with(seen), "{problem}");
    }
}
