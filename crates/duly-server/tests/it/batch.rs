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
