//! Bulk cancel: the timers that a filter matches and those that it leaves. An empty filter never means
//! all timers.

use serde_json::{Value, json};

use crate::bench::Bench;

const CANCEL: &str = "/v1/namespaces/a/cancel";

/// Returns a server with timers `x-0` to `x-9`, of which the even ones have the tag `even`, and `y`.
async fn stocked() -> Bench {
    let bench = Bench::new();
    for i in 0..10 {
        let tags = if i % 2 == 0 { r#"["even"]"# } else { "[]" };
        let body = format!(r#"{{"id":"x-{i}","delay":"{}h","tags":{tags}}}"#, i + 1);
        bench.schedule(&body).await.expect(201);
    }
    bench.schedule(r#"{"id":"y","delay":"100h"}"#).await.expect(201);
    bench
}

async fn pending(bench: &Bench) -> Vec<String> {
    let page = bench.get("/v1/namespaces/a/timers").await.expect(200);
    let timers = page["timers"].as_array().unwrap().iter();
    timers.map(|timer| timer["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn every_condition_of_the_filter_has_to_be_met() {
    for (filter, left) in [
        (json!({"tag": "even"}), "x-1 x-3 x-5 x-7 x-9 y"),
        (json!({"id_prefix": "x-"}), "y"),
        (json!({"due_from": "2030-03-17T22:46:40Z"}), "x-0 x-1 x-2 x-3"),
        (json!({"due_to": "2030-03-17T22:46:40Z"}), "x-4 x-5 x-6 x-7 x-8 x-9 y"),
        (
            json!({"due_from": "2030-03-17T19:46:40Z", "due_to": "2030-03-17T22:46:40Z", "tag": "even"}),
            "x-0 x-1 x-3 x-4 x-5 x-6 x-7 x-8 x-9 y",
        ),
        (json!({"state": "scheduled"}), ""),
        (json!({"state": "retrying"}), "x-0 x-1 x-2 x-3 x-4 x-5 x-6 x-7 x-8 x-9 y"),
        (json!({"tag": "none"}), "x-0 x-1 x-2 x-3 x-4 x-5 x-6 x-7 x-8 x-9 y"),
    ] {
        let bench = stocked().await;
        let body = json!({"filter": filter, "dry_run": true}).to_string();
        let before = bench.picture().await;
        let counted = bench.post(CANCEL, &body).await.expect(200);
        assert_eq!(bench.picture().await, before, "a dry run changed something: {filter}");
        let body = json!({ "filter": filter }).to_string();
        let done = bench.post(CANCEL, &body).await.expect(200);
        assert_eq!(counted["cancelled"], done["cancelled"], "{filter}");
        assert_eq!((&counted["dry_run"], &done["dry_run"]), (&json!(true), &Value::Null));
        let left: Vec<_> = left.split_whitespace().collect();
        assert_eq!(done["cancelled"], 11 - left.len(), "{filter}: {done}");
        assert_eq!(pending(&bench).await, left, "{filter}");
        let again = bench.post(CANCEL, &body).await.expect(200);
        assert_eq!(again["cancelled"], 0, "{filter}");
        assert_eq!(again.get("cursor"), None);
    }
}

#[tokio::test]
async fn no_filter_is_never_all() {
    let bench = stocked().await;
    let before = bench.picture().await;
    let choice = "to cancel every pending timer of the namespace send \"all\": true";
    for (body, field, allowed) in [
        ("{}", "filter", choice),
        (r#"{"filter":null}"#, "filter", choice),
        (r#"{"all":false}"#, "filter", choice),
        (r#"{"filter":{}}"#, "filter", choice),
        (r#"{"filter":{"tag":null}}"#, "filter", choice),
        (r#"{"filter":{"tag":""}}"#, "filter.tag", "not empty"),
        (r#"{"filter":{"id_prefix":""}}"#, "filter.id_prefix", "not empty"),
        (r#"{"filter":{"id_prefix":"x"},"all":true}"#, "all", "left out"),
        (r#"{"filter":{"id-prefix":"x"}}"#, "filter.id-prefix", "did you mean filter.id_prefix"),
        (r#"{"filter":{"state":"in_flight"}}"#, "filter.state", "scheduled, due, retrying"),
        (
            r#"{"filter":{"due_from":1800000000000,"due_to":1800000000000}}"#,
            "filter.due_to",
            "later than due_from",
        ),
        (r#"{"filter":{"tag":"even"},"limit":0}"#, "limit", "from 1 to 10000"),
        (r#"{"filter":{"tag":"even"},"limit":10001}"#, "limit", "from 1 to 10000"),
        (r#"{"filter":{"tag":"even"},"cursor":"x"}"#, "cursor", "the cursor of the page before"),
    ] {
        let problem = bench.post(CANCEL, body).await.problem("invalid_argument");
        assert_eq!(problem["field"], field, "{body}: {problem}");
        let can = problem["allowed"].as_str().unwrap();
        assert!(can.contains(allowed), "{body}: {problem}");
        assert_eq!(bench.picture().await, before, "{body}");
    }
    bench.post("/v1/namespaces/nowhere/cancel", r#"{"all":true}"#).await.problem("not_found");
    let done = bench.post(CANCEL, r#"{"all":true}"#).await.expect(200);
    assert_eq!(done["cancelled"], 11);
    assert!(pending(&bench).await.is_empty());
}

#[tokio::test]
async fn p4_bulk_cancel_skips_and_counts_firings_in_flight() {
    let bench = Bench::new();
    bench.timer_in("flies", "in_flight").await;
    bench.timer_in("fails", "retrying").await;
    bench.timer_in("waits", "scheduled").await;
    let done = bench.post(CANCEL, r#"{"all":true}"#).await.expect(200);
    assert_eq!(done["cancelled"], 2, "{done}");
    assert_eq!(done["skipped"], 1, "{done}");
    assert_eq!(pending(&bench).await, ["flies"]);
    for id in ["fails", "waits"] {
        let timer = bench.get(&format!("/v1/namespaces/a/timers/{id}")).await.expect(200);
        assert_eq!(timer["state"], "cancelled");
    }
    bench.advance(3 * 3600);
    assert_eq!(bench.tokens().await.len(), 1, "only the lost lease is claimable");
}

#[tokio::test]
async fn p10_bulk_cancel_is_bounded_and_continues_by_cursor() {
    let bench = stocked().await;
    let mut body = json!({"filter": {"id_prefix": "x-"}, "limit": 3});
    let mut counts = Vec::new();
    loop {
        let done = bench.post(CANCEL, &body.to_string()).await.expect(200);
        counts.push(done["cancelled"].as_u64().unwrap());
        match done.get("cursor") {
            Some(cursor) => body["cursor"] = cursor.clone(),
            None => break,
        }
        // A cursor belongs to its filter.
        let other = json!({"filter": {"id_prefix": "y"}, "cursor": body["cursor"]});
        bench.post(CANCEL, &other.to_string()).await.problem("invalid_argument");
    }
    assert_eq!(counts, [3, 3, 3, 1]);
    assert_eq!(pending(&bench).await, ["y"]);
}
