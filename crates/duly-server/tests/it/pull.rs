//! Two-phase consumption: lease, settle, and claims that are released.

use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

use crate::bench::{Bench, request};

const LEASE: &str = "/v1/namespaces/a/lease";

#[tokio::test]
async fn a_lease_hands_out_what_is_due() {
    let bench = Bench::new();
    bench.schedule(r#"{"id":"later","delay":"1h"}"#).await.expect(201);
    assert_eq!(bench.post(LEASE, "{}").await.expect(200), json!({"firings":[]}));
    bench.schedule(r#"{"id":"t","delay":0,"payload":[1],"slot_key":"k"}"#).await.expect(201);
    let leased = bench.post(LEASE, r#"{"lease":"10s","max":10}"#).await.expect(200);
    let firing = &leased["firings"][0];
    assert_eq!(leased["firings"].as_array().unwrap().len(), 1);
    assert_eq!(firing["id"], "t");
    assert_eq!((&firing["attempt"], &firing["occurrence"]), (&json!(1), &json!(0)));
    assert_eq!(firing["due_at"], "2030-03-17T17:46:40.000Z");
    assert_eq!(firing["leased_until"], "2030-03-17T17:46:50.000Z");
    assert_eq!(firing["payload"], json!([1]));
    assert_eq!(firing["slot_key"], "k");
    assert_eq!(firing["delivery_id"].as_str().unwrap().len(), 26);
    let timer = bench.get("/v1/namespaces/a/timers/t").await.expect(200);
    assert_eq!(timer["delivery_id"], firing["delivery_id"]);
    assert_eq!(timer["leased_until"], firing["leased_until"]);
    assert_eq!(timer["attempts"], 1);
}

#[tokio::test]
async fn every_verdict_is_taken_once() {
    let bench = Bench::new();
    bench.timer_in("t", "in_flight").await;
    let ended = bench.tokens().await;
    assert!(ended.is_empty());
    bench.advance(31);
    let token = bench.tokens().await.remove(0);
    assert_eq!(bench.settle(&token, r#""extend":{"lease":"1m"}"#).await, "ok");
    bench.advance(45);
    assert_eq!(bench.settle(&token, r#""retry":{"after":"5s","reason":"busy"}"#).await, "ok");
    assert_eq!(bench.settle(&token, r#""retry":{"after":"5s"}"#).await, "already_settled");
    assert_eq!(bench.settle(&token, r#""ack":{}"#).await, "lease_lost");
    let timer = bench.get("/v1/namespaces/a/timers/t").await.expect(200);
    assert_eq!(timer["last_error"], "busy");
    bench.advance(5);
    let token = bench.tokens().await.remove(0);
    assert_eq!(bench.settle(&token, r#""ack":{}"#).await, "ok");
    assert_eq!(bench.settle(&token, r#""ack":{}"#).await, "already_settled");
    assert_eq!(bench.settle("AAAAAAAA", r#""ack":{}"#).await, "invalid_token");
    assert_eq!(bench.settle("no token", r#""ack":{}"#).await, "invalid_token");
}

#[tokio::test]
async fn a_settle_call_leases_the_next_firings() {
    let bench = Bench::new();
    let settle = "/v1/namespaces/a/settle";
    bench.timer_in("t", "in_flight").await;
    bench.advance(31);
    let token = bench.tokens().await.remove(0);
    bench.schedule(r#"{"id":"next","delay":0,"payload_text":"x"}"#).await.expect(201);
    let body = |verdict: &str, lease: &str| {
        format!(r#"{{"settlements":[{{"token":"{token}",{verdict}}}],"lease":{lease}}}"#)
    };
    let refused = bench.post(settle, &body(r#""ack":{}"#, r#"{"max":0}"#)).await;
    assert_eq!(refused.problem("invalid_argument")["field"], "lease.max");
    let refused = bench.post(settle, &body(r#""ack":{}"#, r#"{"namespace":"b"}"#)).await;
    assert_eq!(refused.problem("invalid_argument")["field"], "lease.namespace");
    let answer = bench.post(settle, &body(r#""ack":{}"#, r#"{"max":10}"#)).await.expect(200);
    assert_eq!(answer["results"], json!([{"outcome":"ok"}]), "nothing was settled before");
    assert_eq!(answer["leased"]["firings"][0]["id"], "next");
    assert_eq!(answer["leased"]["firings"][0]["payload_text"], "x");
    let answer = bench.post(settle, &body(r#""ack":{}"#, "{}")).await.expect(200);
    assert_eq!(answer["results"], json!([{"outcome":"already_settled"}]));
    assert_eq!(answer["leased"], json!({"firings":[]}));
    bench.post("/v1/namespaces/a/pause", "").await.expect(200);
    let answer = bench.post(settle, &body(r#""ack":{}"#, "{}")).await.expect(200);
    assert_eq!(answer["leased"], json!({"firings":[],"paused":true}));
}

#[tokio::test]
async fn a_snooze_puts_a_firing_off_and_uses_up_no_attempt() {
    let bench = Bench::new();
    bench.schedule(r#"{"id":"t","delay":0,"retry":{"max_attempts":1}}"#).await.expect(201);
    for round in 1..=3 {
        let token = bench.tokens().await.remove(0);
        let snooze = r#""snooze":{"after":"5m"}"#;
        assert_eq!(bench.settle(&token, snooze).await, "ok");
        assert_eq!(bench.settle(&token, snooze).await, "already_settled");
        let timer = bench.get("/v1/namespaces/a/timers/t").await.expect(200);
        assert_eq!((&timer["state"], &timer["attempts"]), (&json!("retrying"), &json!(round)));
        assert_eq!(timer["uncounted_attempts"], round, "{timer}");
        assert!(bench.tokens().await.is_empty(), "not before its time");
        bench.advance(300);
    }
    let token = bench.tokens().await.remove(0);
    let refused = async |verdict: &str| {
        let body = format!(r#"{{"settlements":[{{"token":"{token}",{verdict}}}]}}"#);
        let settled = bench.post("/v1/namespaces/a/settle", &body).await.expect(200);
        let error = &settled["results"][0]["error"];
        assert_eq!(error["code"], "invalid_argument", "{settled}");
        error["field"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused(r#""snooze":{}"#).await, "settlements[0].snooze.after");
    assert_eq!(refused(r#""snooze":{"after":"31d"}"#).await, "settlements[0].snooze.after");
    refused(r#""snooze":{"after":"1s"},"ack":{}"#).await;
    assert_eq!(bench.settle(&token, r#""retry":{}"#).await, "dead", "the attempt was left");
}

#[tokio::test]
async fn the_last_retry_is_a_dead_letter() {
    let bench = Bench::new();
    bench.schedule(r#"{"id":"t","delay":0,"retry":{"max_attempts":1}}"#).await.expect(201);
    let token = bench.tokens().await.remove(0);
    assert_eq!(bench.settle(&token, r#""retry":{}"#).await, "dead");
}

#[tokio::test]
async fn a_token_of_another_namespace_is_none_of_ours() {
    let bench = Bench::new();
    bench.timer_in("t", "in_flight").await;
    bench.call("PUT", "/v1/namespaces/b", "{}").await.expect(201);
    bench.advance(31);
    let token = bench.tokens().await.remove(0);
    let body = format!(r#"{{"settlements":[{{"token":"{token}","ack":{{}}}}]}}"#);
    let settled = bench.post("/v1/namespaces/b/settle", &body).await.expect(200);
    assert_eq!(settled["results"][0]["outcome"], "invalid_token");
    assert_eq!(bench.settle(&token, r#""ack":{}"#).await, "ok");
}

#[tokio::test]
async fn a_paused_namespace_says_so() {
    let bench = Bench::new();
    bench.timer_in("t", "due").await;
    let paused = bench.post("/v1/namespaces/a/pause", "").await.expect(200);
    assert_eq!(paused["paused"], true);
    let leased = bench.post(LEASE, "{}").await.expect(200);
    assert_eq!(leased, json!({"firings":[],"paused":true}));
    bench.schedule(r#"{"id":"u","delay":0}"#).await.expect(201);
    let resumed = bench.post("/v1/namespaces/a/resume", "{}").await.expect(200);
    assert_eq!(resumed["paused"], false);
    assert_eq!(bench.tokens().await.len(), 2);
}

#[tokio::test]
async fn disconnected_clients_release_claims_uncounted() {
    let bench = Bench::new();
    bench.timer_in("t", "due").await;
    let response = bench.router.clone().oneshot(request("POST", LEASE, "{}")).await.unwrap();
    let timer = bench.get("/v1/namespaces/a/timers/t").await.expect(200);
    assert_eq!(timer["state"], "in_flight");
    drop(response);
    // The release goes through the node's settler: the next lease waits for it.
    let leased = bench.post(LEASE, r#"{"wait":"30s"}"#).await.expect(200);
    assert_eq!(leased["firings"][0]["attempt"], 1, "{leased}");
    let token = leased["firings"][0]["token"].as_str().unwrap();
    assert_eq!(bench.settle(token, r#""ack":{}"#).await, "ok");
}

#[tokio::test]
async fn partly_written_responses_release_their_claims() {
    let bench = Bench::new();
    let payload = "x".repeat(100_000);
    let body = format!(r#"{{"id":"t","delay":0,"payload_text":"{payload}"}}"#);
    bench.schedule(&body).await.expect(201);
    let response = bench.router.clone().oneshot(request("POST", LEASE, "{}")).await.unwrap();
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap();
    assert!(first.data_ref().unwrap().len() < 100_000);
    drop(body);
    let leased = bench.post(LEASE, r#"{"wait":"30s"}"#).await.expect(200);
    assert_eq!(leased["firings"][0]["attempt"], 1);
    assert_eq!(leased["firings"][0]["payload_text"], payload);
    let token = leased["firings"][0]["token"].as_str().unwrap();
    assert_eq!(bench.settle(token, r#""ack":{}"#).await, "ok");
}

#[tokio::test]
async fn a_waiting_lease_is_answered_as_soon_as_one_is_there() {
    let bench = Bench::new();
    bench.call("PUT", "/v1/namespaces/a", "{}").await.expect(201);
    let (leased, ()) = tokio::join!(bench.post(LEASE, r#"{"wait":"60s"}"#), async {
        bench.schedule(r#"{"id":"t","delay":0}"#).await.expect(201);
    });
    assert_eq!(leased.expect(200)["firings"][0]["id"], "t");
}

#[tokio::test]
async fn bytes_bound_an_answer_but_never_to_nothing() {
    let bench = Bench::new();
    for id in ["a", "b", "c"] {
        let body = format!(r#"{{"id":"{id}","delay":0,"payload_text":"{}"}}"#, "x".repeat(100));
        bench.schedule(&body).await.expect(201);
    }
    let leased = bench.post(LEASE, r#"{"max":3,"max_bytes":250}"#).await.expect(200);
    assert_eq!(leased["firings"].as_array().unwrap().len(), 2);
    let leased = bench.post(LEASE, r#"{"max":3,"max_bytes":1}"#).await.expect(200);
    assert_eq!(leased["firings"].as_array().unwrap().len(), 1);
}
