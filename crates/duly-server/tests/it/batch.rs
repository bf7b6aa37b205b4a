//! Batches: order per id, one result each, and whole-call limits.

use serde_json::json;

use crate::bench::Bench;

const BATCH: &str = "/v1/namespaces/a/batch";

#[tokio::test]
async fn operations_on_one_id_run_in_order() {
    let bench = Bench::new();
    let body = json!({"operations": [
        {"schedule": {"id": "t", "delay": "1h", "payload": 1}},
        {"schedule": {"id": "t", "delay": "1h", "payload": 1}},
        {"reschedule": {"id": "t", "delay": "2h", "if_revision": 1}},
        {"schedule": {"id": "t", "delay": "3h", "if_exists": "replace"}},
        {"fire": {"id": "t"}},
        {"cancel": {"id": "t", "if_revision": 4}},
        {"cancel": {"id": "t"}},
        {"schedule": {"id": "t", "delay": "1h"}},
        {"cancel": {"id": "u"}},
        {"schedule": {"delay": 0}}
    ]});
    let answer = bench.post(BATCH, &body.to_string()).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 10);
    assert_eq!(results[0]["timer"]["revision"], 1);
    assert_eq!(results[1]["timer"]["existing"], true);
    assert_eq!(results[2]["timer"]["revision"], 2);
    assert_eq!(results[3]["timer"]["replaced"], true);
    assert_eq!(results[4]["timer"]["state"], "due");
    let cancelled = json!({"outcome":"cancelled","attempts":0,"maybe_delivered":false});
    assert_eq!(results[5], cancelled);
    assert_eq!(results[6]["already"], true);
    assert_eq!(results[7]["timer"]["revision"], 1);
    assert_eq!(results[8]["error"]["code"], "not_found");
    assert_eq!(results[8]["error"]["outcome"], "not_found");
    assert!(results[9]["timer"]["id"].is_string());
    for result in results {
        let kinds = ["timer", "outcome", "error"];
        let count = kinds.iter().filter(|kind| result.get(kind).is_some()).count();
        assert_eq!(count, 1, "{result}");
    }
    let timer = bench.get("/v1/namespaces/a/timers/t").await.expect(200);
    assert_eq!(timer["due_at"], "2030-03-17T18:46:40.000Z");
}

#[tokio::test]
async fn ten_thousand_operations_are_taken() {
    let bench = Bench::new();
    let operations: Vec<_> =
        (0..10_000).map(|i| format!(r#"{{"schedule":{{"id":"{i}","delay":"1h"}}}}"#)).collect();
    let body = format!(r#"{{"operations":[{}]}}"#, operations.join(","));
    let answer = bench.post(BATCH, &body).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results.len(), 10_000);
    assert!(results.iter().all(|result| result["timer"]["state"] == "scheduled"));
    let stats = bench.get("/v1/namespaces/a/stats").await.expect(200);
    assert_eq!(stats["pending"], 10_000);
}

#[tokio::test]
async fn an_empty_batch_is_none() {
    let bench = Bench::new();
    let answer = bench.post(BATCH, r#"{"operations":[]}"#).await.expect(200);
    assert_eq!(answer, json!({"results":[]}));
    let namespaces = bench.get("/v1/namespaces").await.expect(200);
    assert_eq!(namespaces, json!({"namespaces":[]}));
}

#[tokio::test]
async fn refused_operations_do_not_affect_accepted_ones() {
    let bench = Bench::new();
    bench
        .call("PUT", "/v1/namespaces/a", r#"{"limits":{"namespace":{"max_delay":"1d"}}}"#)
        .await
        .expect(201);
    bench.timer_in("old", "scheduled").await;
    bench.timer_in("gone", "cancelled").await;
    // Refused before the store, by the store for a value, and by the store for a state; before, between
    // and after accepted operations.
    let body = json!({"operations": [
        {"schedule": {"id": "bad", "delay": "soon"}},
        {"schedule": {"id": "one", "delay": "1h", "payload": 1}},
        {"schedule": {"id": "late", "delay": "2d"}},
        {"reschedule": {"id": "old", "delay": "3h"}},
        {"fire": {"id": "gone"}},
        7,
        {"schedule": {"id": "two", "delay": "2h"}},
        {"cancel": {"id": "old", "if_revision": 9}}
    ]});
    let answer = bench.post(BATCH, &body.to_string()).await.expect(200);
    let results = answer["results"].as_array().unwrap();
    for (i, expected) in [
        (0, ("invalid_argument", "operations[0].schedule.delay")),
        (2, ("invalid_argument", "operations[2].schedule.delay")),
        (4, ("cancelled", "")),
        (5, ("invalid_argument", "operations[5]")),
        (7, ("revision_mismatch", "operations[7].cancel.if_revision")),
    ] {
        let error = &results[i]["error"];
        let field = error["field"].as_str().unwrap_or_default();
        assert_eq!((error["code"].as_str().unwrap(), field), expected, "{error}");
    }
    for (i, id) in [(1, "one"), (3, "old"), (6, "two")] {
        assert_eq!(results[i]["timer"]["id"], id, "{answer}");
        let timer = bench.get(&format!("/v1/namespaces/a/timers/{id}")).await.expect(200);
        assert_eq!(timer["due_at"], results[i]["timer"]["due_at"], "{timer}");
        assert_eq!(timer["revision"], results[i]["timer"]["revision"], "{timer}");
    }
    for id in ["bad", "late"] {
        bench.get(&format!("/v1/namespaces/a/timers/{id}")).await.expect(404);
    }
    let stats = bench.get("/v1/namespaces/a/stats").await.expect(200);
    assert_eq!(stats["pending"], 3);
    bench.advance(3 * 3600);
    assert_eq!(bench.tokens().await.len(), 3, "all that was accepted fires");
}
