//! Dead letters: redrive and purge, by name and all of them.

use serde_json::{Value, json};

use crate::bench::Bench;

const REDRIVE: &str = "/v1/namespaces/a/dead/redrive";
const PURGE: &str = "/v1/namespaces/a/dead/purge";
const OVERDUE: &str = "/v1/namespaces/a/dead/overdue";

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
async fn a_forgotten_timer_leaves_no_tombstone_and_no_letter() {
    let bench = Bench::new();
    let forget = |id: &str| format!("/v1/namespaces/a/timers/{id}/forget");
    // Two dead letters of one id, then a cancelled timer with it.
    for payload in 0..2 {
        let schedule = json!({"id": "t", "delay": 0, "payload": payload, "if_exists": "replace"});
        bench.schedule(&schedule.to_string()).await.expect(201);
        let leased = bench.post("/v1/namespaces/a/lease", "{}").await.expect(200);
        let token = &leased["firings"][0]["token"];
        let settle = json!({"settlements": [{"token": token, "dead": {"reason": "x"}}]});
        bench.post("/v1/namespaces/a/settle", &settle.to_string()).await.expect(200);
    }
    bench.schedule(r#"{"id":"t","delay":"1h","if_exists":"replace"}"#).await.expect(201);
    let refused = bench.post(&forget("t"), "").await.expect(409);
    assert_eq!(refused["code"], "already_exists");
    assert!(refused["detail"].as_str().unwrap().contains("cancel it first"), "{refused}");
    assert_eq!(letters(&bench).await.len(), 2, "a refused call removes nothing");
    bench.call("DELETE", "/v1/namespaces/a/timers/t", "").await.expect(200);
    let removed = bench.post(&forget("t"), "").await.expect(200);
    assert_eq!(removed, json!({"tombstones": 1, "dead_letters": 2}));
    bench.get("/v1/namespaces/a/timers/t").await.expect(404);
    assert!(letters(&bench).await.is_empty());
    for id in ["t", "never"] {
        let removed = bench.post(&forget(id), "").await.expect(200);
        assert_eq!(removed, json!({"tombstones": 0, "dead_letters": 0}), "a repetition: {id}");
    }
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

#[tokio::test]
async fn only_overdue_timers_become_dead_letters() {
    let bench = Bench::new();
    for state in ["in_flight", "retrying", "scheduled", "due"] {
        bench.timer_in(state, state).await;
    }
    let before = bench.get("/v1/namespaces/a/timers/due").await.expect(200)["due_at"].clone();
    bench.advance(5);
    bench.schedule(r#"{"id":"since","delay":"0s"}"#).await.expect(201);
    let body = json!({ "due_by": before }).to_string();
    let done = bench.post(OVERDUE, &body).await.expect(200);
    assert_eq!(done, json!({ "dead_lettered": 2, "due_by": before }));
    let reasons: Vec<Value> =
        letters(&bench).await.iter().map(|letter| letter["dead_reason"].clone()).collect();
    assert_eq!(reasons, ["overdue", "overdue"]);
    for state in ["in_flight", "scheduled"] {
        let timer = bench.get(&format!("/v1/namespaces/a/timers/{state}")).await.expect(200);
        assert_eq!(timer["state"], *state);
    }
    let again = bench.post(OVERDUE, &body).await.expect(200);
    assert_eq!(again["dead_lettered"], 0);
    // Without a time: timers that are due now.
    let done = bench.post(OVERDUE, "{}").await.expect(200);
    assert_eq!(done["dead_lettered"], 1);
}

#[tokio::test]
async fn overdue_calls_are_bounded_and_continue_by_cursor() {
    let bench = Bench::new();
    for batch in 0..2 {
        let operations: Vec<Value> = (0..6_000)
            .map(|i| json!({ "schedule": { "id": format!("{batch} {i}"), "delay": 0 } }))
            .collect();
        let body = json!({ "operations": operations }).to_string();
        bench.post("/v1/namespaces/a/batch", &body).await.expect(200);
    }
    let first = bench.post(OVERDUE, "{}").await.expect(200);
    assert_eq!(first["dead_lettered"], 10_000);
    let body = json!({ "due_by": first["due_by"], "cursor": first["cursor"] }).to_string();
    let second = bench.post(OVERDUE, &body).await.expect(200);
    assert_eq!((&second["dead_lettered"], second.get("cursor")), (&json!(2_000), None));
}

#[tokio::test]
async fn overdue_refuses_full_namespaces_and_future_times() {
    let bench = Bench::new();
    let limits = r#"{"limits":{"namespace":{"max_dead":2}}}"#;
    bench.call("PUT", "/v1/namespaces/a", limits).await.expect(201);
    for id in ["x", "y", "z"] {
        bench.schedule(&format!(r#"{{"id":"{id}","delay":"0s"}}"#)).await.expect(201);
    }
    let problem = bench.post(OVERDUE, "{}").await.problem("resource_exhausted");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("limits.namespace.max_dead") && detail.contains("2 were dead-lettered"),
        "{detail}"
    );
    let stats = bench.get("/v1/namespaces/a/stats").await.expect(200);
    assert_eq!((&stats["dead"], &stats["due"]), (&json!(2), &json!(1)));

    let problem = bench.post(OVERDUE, r#"{"due_by":"2199-01-01T00:00:00Z"}"#).await;
    assert_eq!(problem.problem("invalid_argument")["field"], "due_by");
    bench.post("/v1/namespaces/none/dead/overdue", "{}").await.problem("not_found");
    bench.post(OVERDUE, r#"{"cursor":"junk"}"#).await.problem("invalid_argument");
}
