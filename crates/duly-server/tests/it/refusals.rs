//! Every rule that refuses a request is a row: the request, and the status, code, field, value seen and
//! allowed values. After each row nothing has changed; in a batch only that item is refused.

mod calls;
mod schedules;

use duly_server::http::ImplicitNamespaces;
use serde_json::Value;

use self::{
    calls::{NONE, ROWS},
    schedules::schedules,
};
use crate::bench::{Answer, Bench};

/// Field, value seen (empty: none is shown) and a part of the allowed values.
type Fault = (&'static str, &'static str, &'static str);

const TIME: &str = "an RFC 3339 time";
const DURATION: &str = "a duration such as";
const ID: &str = "1 to 256 bytes of UTF-8 without control characters";
const INVALID: &str = "invalid_argument";
const T: &str = "/v1/namespaces/a/timers/t";
const LEASE: &str = "/v1/namespaces/a/lease";
const SETTLE: &str = "/v1/namespaces/a/settle";
const BATCH: &str = "/v1/namespaces/a/batch";
const REDRIVE: &str = "/v1/namespaces/a/dead/redrive";
const PURGE: &str = "/v1/namespaces/a/dead/purge";
const NS: &str = "/v1/namespaces/a";

#[track_caller]
fn check_fault(what: &str, problem: &Value, (field, seen, allowed): Fault) {
    assert_eq!(problem["field"], field, "{what}: {problem}");
    let shown = problem["seen"].as_str().unwrap_or_default();
    assert_eq!(shown, seen, "{what}: {problem}");
    let can = problem["allowed"].as_str().unwrap_or_default();
    assert!(can.contains(allowed), "{what}: {problem}");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(!detail.is_empty(), "{what}: {problem}");
}

/// Returns a server with data.
async fn stocked() -> Bench {
    let bench = Bench::new();
    for (id, state) in
        [("dead-1", "dead"), ("done", "finished"), ("gone", "cancelled"), ("t", "scheduled")]
    {
        bench.timer_in(id, state).await;
    }
    bench
}

#[tokio::test]
async fn a_refused_schedule_changes_nothing() {
    let bench = stocked().await;
    let before = bench.picture().await;
    let long = format!(r#"{{"id":"{}","delay":0}}"#, "x".repeat(257));
    let answer = bench.schedule(&long).await;
    assert!(answer.text.contains("1 to 256 bytes"), "{}", answer.text);
    let problem = answer.problem("invalid_argument");
    let seen = problem["seen"].as_str().unwrap();
    assert!(seen.len() < 100 && seen.ends_with("…\""), "shortened: {seen}");
    for (body, fault) in schedules() {
        let answer = bench.schedule(&body).await;
        assert_eq!(answer.status, 400, "{body}");
        check_fault(&body, &answer.problem("invalid_argument"), fault);
        assert_eq!(bench.picture().await, before, "{body}");
    }
}

#[tokio::test]
async fn a_refused_schedule_in_a_batch_refuses_only_itself() {
    let bench = stocked().await;
    let before = bench.get("/v1/namespaces/a/timers").await.text;
    for (i, (body, (field, seen, allowed))) in schedules().into_iter().enumerate() {
        let batch = format!(
            r#"{{"operations":[{{"schedule":{{"id":"ok-{i}","delay":"1h"}}}},{{"schedule":{body}}},{{"cancel":{{"id":"ok-{i}"}}}}]}}"#
        );
        let answer = bench.post("/v1/namespaces/a/batch", &batch).await.expect(200);
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), 3, "{body}");
        assert_eq!(results[0]["timer"]["state"], "scheduled", "{body}");
        assert_eq!(results[2]["outcome"], "cancelled", "{body}");
        let error = &results[1]["error"];
        assert_eq!(error["code"], "invalid_argument", "{body}: {error}");
        let inside = |field: &str| -> &'static str {
            Box::leak(format!("operations[1].schedule.{field}").into_boxed_str())
        };
        let meant = allowed.strip_prefix("left out; did you mean ");
        let allowed = meant.map_or(allowed, inside);
        check_fault(&body, error, (inside(field), seen, allowed));
        assert_eq!(bench.get("/v1/namespaces/a/timers").await.text, before, "{body}");
    }
}

#[tokio::test]
async fn a_refused_call_changes_nothing() {
    let bench = stocked().await;
    let before = bench.picture().await;
    for (method, path, body, status, code, fault) in ROWS {
        let what = format!("{method} {path} {body}");
        let answer: Answer = bench.call(method, path, body).await;
        assert_eq!(answer.status.as_u16(), *status, "{what}: {}", answer.text);
        let problem = answer.problem(code);
        if *fault == NONE {
            assert_eq!(problem["field"], Value::Null, "{what}: {problem}");
        } else {
            check_fault(&what, &problem, *fault);
        }
        assert_eq!(bench.picture().await, before, "{what}");
    }
}

#[tokio::test]
async fn a_refused_operation_of_any_kind_refuses_only_itself() {
    let bench = stocked().await;
    let before = bench.picture().await;
    let rows: &[(&str, &str, Fault)] = &[
        ("7", INVALID, ("operations[0]", "7", "a JSON object")),
        ("{}", INVALID, ("operations[0]", "", "exactly one of schedule, cancel, reschedule, fire")),
        (
            r#"{"cancel":{"id":"t"},"fire":{"id":"t"}}"#,
            INVALID,
            ("operations[0]", "", "exactly one of"),
        ),
        (r#"{"purge":{}}"#, INVALID, ("operations[0].purge", "\"purge\"", "known here")),
        (r#"{"cancel":{}}"#, INVALID, ("operations[0].cancel.id", "", "given")),
        (r#"{"cancel":{"id":".."}}"#, INVALID, ("operations[0].cancel.id", "\"..\"", ID)),
        (
            r#"{"cancel":{"id":"t","if_revision":0}}"#,
            INVALID,
            ("operations[0].cancel.if_revision", "0", "from 1"),
        ),
        (
            r#"{"cancel":{"id":"t","if_revision":9}}"#,
            "revision_mismatch",
            ("operations[0].cancel.if_revision", "9", "1"),
        ),
        (
            r#"{"reschedule":{"id":"t","delay":"1ms","if_revision":9}}"#,
            "revision_mismatch",
            ("operations[0].reschedule.if_revision", "9", "1"),
        ),
        (
            r#"{"reschedule":{"id":"t","delay":"73000d"}}"#,
            INVALID,
            ("operations[0].reschedule.delay", "\"73000d\"", "before 2200-01-01"),
        ),
        (
            r#"{"reschedule":{"delay":"1ms"}}"#,
            INVALID,
            ("operations[0].reschedule.id", "", "given"),
        ),
        (
            r#"{"reschedule":{"id":"t"}}"#,
            INVALID,
            ("operations[0].reschedule", "", "a field to change"),
        ),
        (
            r#"{"reschedule":{"id":"t","delay":null}}"#,
            INVALID,
            ("operations[0].reschedule.delay", "null", "cannot be reset"),
        ),
        (r#"{"fire":{"id":""}}"#, INVALID, ("operations[0].fire.id", "\"\"", ID)),
        (
            r#"{"fire":{"id":"t","at":1}}"#,
            INVALID,
            ("operations[0].fire.at", "\"at\"", "known here: id"),
        ),
    ];
    for (operation, code, fault) in rows {
        let body = format!(r#"{{"operations":[{operation},{{"fire":{{"id":"none"}}}}]}}"#);
        let answer = bench.post(BATCH, &body).await.expect(200);
        let error = &answer["results"][0]["error"];
        assert_eq!(error["code"], *code, "{operation}: {answer}");
        check_fault(operation, error, *fault);
        assert_eq!(answer["results"][1]["error"]["code"], "not_found");
        assert_eq!(bench.picture().await, before, "{operation}");
    }
}

#[tokio::test]
async fn a_refused_settlement_refuses_only_itself() {
    let bench = stocked().await;
    let rows: &[(&str, Fault)] = &[
        ("7", ("settlements[1]", "7", "a JSON object")),
        (r#"{"ack":{}}"#, ("settlements[1].token", "", "given")),
        (
            r#"{"token":"x"}"#,
            ("settlements[1]", "", "exactly one of ack, retry, snooze, dead, extend"),
        ),
        (
            r#"{"token":"x","ack":{},"dead":{"reason":"y"}}"#,
            ("settlements[1]", "", "exactly one of"),
        ),
        (r#"{"token":"x","ack":{"a":1}}"#, ("settlements[1].ack.a", "\"a\"", "no field is known")),
        (r#"{"token":"x","dead":{}}"#, ("settlements[1].dead.reason", "", "given")),
        (
            r#"{"token":"x","retry":{"after":"31d"}}"#,
            ("settlements[1].retry.after", "\"31d\"", "from 0s to 30d"),
        ),
        (r#"{"token":"x","extend":{}}"#, ("settlements[1].extend.lease", "", "given")),
        (
            r#"{"token":"x","extend":{"lease":"0s"}}"#,
            ("settlements[1].extend.lease", "\"0s\"", "from 1s to 12h"),
        ),
        (r#"{"token":7,"ack":{}}"#, ("settlements[1].token", "7", "a string")),
    ];
    for (i, (settlement, fault)) in rows.iter().enumerate() {
        bench.schedule(&format!(r#"{{"id":"s{i}","delay":0}}"#)).await.expect(201);
        let token = bench.tokens().await.remove(0);
        let body = format!(
            r#"{{"settlements":[{{"token":"!","ack":{{}}}},{settlement},{{"token":"{token}","ack":{{}}}}]}}"#
        );
        let answer = bench.post(SETTLE, &body).await.expect(200);
        assert_eq!(answer["results"][0]["outcome"], "invalid_token", "{answer}");
        assert_eq!(answer["results"][1]["error"]["code"], INVALID, "{answer}");
        check_fault(settlement, &answer["results"][1]["error"], *fault);
        assert_eq!(answer["results"][2]["outcome"], "ok", "{answer}");
    }
}

#[tokio::test]
async fn limits_of_size_are_refused_with_413() {
    let bench = Bench::with(ImplicitNamespaces::Create, 600 * 1024);
    bench.timer_in("t", "scheduled").await;
    let before = bench.picture().await;

    let big = format!(r#"{{"id":"x","delay":0,"payload_text":"{}"}}"#, "x".repeat(256 * 1024 + 1));
    let problem = bench.schedule(&big).await.problem("payload_too_large");
    check_fault("payload", &problem, ("payload", "262145 bytes", "at most 262144 bytes"));
    let patch = r#"{"payload_text":""#.to_owned() + &"x".repeat(256 * 1024 + 1) + "\"}";
    let problem = bench.call("PATCH", T, &patch).await.problem("payload_too_large");
    assert_eq!(problem["status"], 413);
    let batch = format!(r#"{{"operations":[{{"schedule":{big}}}]}}"#);
    let answer = bench.post(BATCH, &batch).await.expect(200);
    let problem = &answer["results"][0]["error"];
    assert_eq!(problem["code"], "payload_too_large");
    let path = "operations[0].schedule.payload";
    check_fault("batch", problem, (path, "262145 bytes", "at most 262144 bytes"));

    let huge = " ".repeat(600 * 1024 + 1);
    for path in ["/v1/namespaces/a/timers", BATCH, SETTLE, LEASE] {
        let problem = bench.post(path, &huge).await.problem("request_too_large");
        check_fault(path, &problem, ("body", "", "at most 614400 bytes"));
    }

    let many = vec!["{}"; 10_001].join(",");
    let problem = bench.post(BATCH, &format!(r#"{{"operations":[{many}]}}"#)).await;
    check_fault(
        "batch",
        &problem.problem("request_too_large"),
        ("operations", "10001 entries", "at most 10000"),
    );
    let problem = bench.post(SETTLE, &format!(r#"{{"settlements":[{many}]}}"#)).await;
    check_fault(
        "settle",
        &problem.problem("request_too_large"),
        ("settlements", "10001 entries", "at most 10000"),
    );
    let many = vec!["\"x\""; 10_001].join(",");
    let problem = bench.post(PURGE, &format!(r#"{{"ids":[{many}]}}"#)).await;
    check_fault("purge", &problem.problem(INVALID), ("ids", "10001 entries", "at most 10000"));
    assert_eq!(bench.picture().await, before);
}

#[tokio::test]
async fn limits_of_a_namespace_are_refused_with_429() {
    let bench = Bench::new();
    let limits = r#"{"limits":{"namespace":{"max_pending":1,"max_delay":"1h"}}}"#;
    bench.call("PUT", NS, limits).await.expect(201);
    bench.schedule(r#"{"id":"t","delay":"1h"}"#).await.expect(201);
    let before = bench.picture().await;
    let problem = bench.schedule(r#"{"id":"u","delay":"1h"}"#).await;
    assert_eq!(problem.headers["retry-after"], "1");
    assert_eq!(problem.problem("resource_exhausted")["retry_after_ms"], 1_000);
    let problem = bench.schedule(r#"{"id":"t","delay":"2h","if_exists":"replace"}"#).await;
    assert_eq!(problem.status, 400, "{}", problem.text);
    assert_eq!(bench.picture().await, before);
}

#[tokio::test]
async fn without_implicit_namespaces_a_schedule_says_what_to_do() {
    let bench = Bench::with(ImplicitNamespaces::Refuse, 1024 * 1024);
    let problem = bench.schedule(r#"{"id":"t","delay":0}"#).await.problem("not_found");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("PUT /v1/namespaces/a"), "{detail}");
    let body = r#"{"operations":[{"schedule":{"id":"t","delay":0}}]}"#;
    let results = bench.post(BATCH, body).await.expect(200);
    assert_eq!(results["results"][0]["error"]["code"], "not_found");
    assert_eq!(
        bench.get("/v1/namespaces").await.expect(200)["namespaces"],
        Value::Array(Vec::new())
    );
    bench.call("PUT", NS, "{}").await.expect(201);
    bench.schedule(r#"{"id":"t","delay":0}"#).await.expect(201);
}
