//! Dead letters: redrive and purge, by name and all of them.

use serde_json::{Value, json};

use crate::bench::Bench;

const REDRIVE: &str = "/v1/namespaces/a/dead/redrive";
const PURGE: &str = "/v1/namespaces/a/dead/purge";

async fn letters(bench: &Bench) -> Vec<Value> {
    let page = bench.get("/v1/namespaces/a/timers?state=dead&limit=1000").await.expect(200);
    page["timers"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_redriven_letter_keeps_its_delivery_id_and_count() {
    let bench = Bench::new();
    bench.timer_in("t", "dead").await;
    let letter = letters(&bench).await.remove(0);
    let done = bench.post(REDRIVE, r#"{"ids":["t","none","."]}"#).await.expect(200);
    assert_eq!(done["redriven"], 1);
    assert_eq!(done["errors"][0]["index"], 1);
    assert_eq!(done["errors"][0]["error"]["code"], "not_found");
    assert_eq!(done["errors"][1]["index"], 2);
    assert_eq!(done["errors"][1]["error"]["field"], "ids[2]");
    assert!(done.get("cursor").is_none());
    let leased = bench.post("/v1/namespaces/a/lease", "{}").await.expect(200);
    let firing = &leased["firings"][0];
    assert_eq!(firing["delivery_id"], letter["delivery_id"]);
    assert_eq!(firing["attempt"], 2);
}

#[tokio::test]
async fn a_delivery_id_names_one_letter() {
    let bench = Bench::new();
    bench.timer_in("t", "dead").await;
    let first = letters(&bench).await.remove(0)["delivery_id"].clone();
    bench.schedule(r#"{"id":"t","delay":"1h","if_exists":"replace"}"#).await.expect(201);
    let body = json!({"delivery_ids": [first, "junk"]}).to_string();
    let done = bench.post(PURGE, &body).await.expect(200);
    assert_eq!(done["purged"], 1);
    assert_eq!(done["errors"][0]["error"]["field"], "delivery_ids[1]");
    assert!(letters(&bench).await.is_empty());
    let timer = bench.get("/v1/namespaces/a/timers/t").await.expect(200);
    assert_eq!(timer["state"], "scheduled");
}

#[tokio::test]
async fn all_letters_are_spaced_in_due_order() {
    let bench = Bench::new();
    for id in ["a", "b", "c"] {
        bench.timer_in(id, "dead").await;
        bench.advance(1);
    }
    let done =
        bench.post(REDRIVE, r#"{"all":true,"delay":"10s","per_second":0.5}"#).await.expect(200);
    assert_eq!(done, json!({"redriven":3}));
    let page = bench.get("/v1/namespaces/a/timers?state=retrying").await.expect(200);
    let times: Vec<_> = page["timers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["next_attempt_at"].as_str().unwrap().to_owned())
        .collect();
    let expected = ["53", "55", "57"].map(|s| format!("2030-03-17T17:46:{s}.000Z"));
    assert_eq!(times, expected);
}

#[tokio::test]
async fn purging_all_leaves_none() {
    let bench = Bench::new();
    for id in ["a", "b", "c"] {
        bench.timer_in(id, "dead").await;
    }
    let done = bench.post(PURGE, r#"{"all":true}"#).await.expect(200);
    assert_eq!(done, json!({"purged":3}));
    assert!(letters(&bench).await.is_empty());
    let stats = bench.get("/v1/namespaces/a/stats").await.expect(200);
    assert_eq!((&stats["dead"], &stats["totals"]["dead"]), (&json!(0), &json!(3)));
}
