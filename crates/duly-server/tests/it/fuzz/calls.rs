//! The calls to damage: every valid call of the OpenAPI document.
//!
//! A test fails if a call, a query parameter or a content type of the document is missing here.

use std::collections::BTreeSet;

use duly_server::openapi_json;
use serde_json::{Value, json};

use crate::bench::Bench;

pub(super) const JSON: &str = "application/json";
pub(super) const NDJSON: &str = "application/x-ndjson";

/// The body of a call.
#[derive(Debug, Clone)]
pub(super) enum Sent {
    Nothing,
    Document(Value),
    Lines(Vec<Value>),
}

/// A valid call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) method: &'static str,
    /// The path in the document.
    pub(super) path: &'static str,
    pub(super) query: String,
    pub(super) accept: Option<&'static str>,
    pub(super) sent: Sent,
}

impl Call {
    pub(super) const fn content_type(&self) -> Option<&'static str> {
        match self.sent {
            Sent::Nothing => None,
            Sent::Document(_) => Some(JSON),
            Sent::Lines(_) => Some(NDJSON),
        }
    }
}

/// Values for calls that only a server can give.
pub(super) struct CallInputs {
    token: String,
    namespaces_cursor: String,
    timers_cursor: String,
    export_cursor: String,
    /// A directory for a backup.
    backup: String,
}

impl CallInputs {
    /// Fills namespace `a` with a timer of each kind.
    pub(super) async fn of(bench: &Bench, backup: String) -> Self {
        for (id, state) in [("dead", "dead"), ("done", "finished"), ("t", "scheduled")] {
            bench.timer_in(id, state).await;
        }
        bench.schedule(r#"{"id":"held","delay":0,"tags":["red"]}"#).await.expect(201);
        let token = bench.tokens().await.remove(0);
        bench.call("PUT", "/v1/namespaces/b", "{}").await.expect(201);
        let cursor = async |path: &str| {
            let page = bench.get(&format!("/v1/namespaces{path}?limit=1")).await.expect(200);
            page["cursor"].as_str().expect("there is more than one").to_owned()
        };
        Self {
            token,
            namespaces_cursor: cursor("").await,
            timers_cursor: cursor("/a/timers").await,
            export_cursor: cursor("/a/export").await,
            backup,
        }
    }
}

fn schedule() -> Value {
    json!({
        "id": "n", "delay": "1h", "payload": {"a": [1]}, "headers": {"x-a": "b"}, "tags": ["red"],
        "slot_key": "k", "destination": {"http": {"url": "http://localhost/x", "timeout": "3s"}},
        "retry": {"max_attempts": 3, "jitter": 0.5}, "expire_after": "2h", "if_exists": "keep"
    })
}

fn moved() -> Value {
    json!({
        "id": "moved", "due_at": 1_800_000_000_005_u64, "created_at": 1_800_000_000_004_u64,
        "updated_at": "2027-01-15T08:00:00.004Z", "revision": 2, "occurrence": 1,
        "incarnation": "0123456789abcdef", "request_hash": "0123456789abcdef0123456789abcdef",
        "payload_json": "{\n}", "destination": {"http": {"url": "http://localhost/x"}},
        "attempts": 2, "budget_from": 1, "next_attempt_at": 1_800_000_000_009_u64, "maybe_delivered": true,
        "history": [{"attempt": 2, "at": "1970-01-01T00:00:00.005Z", "outcome": "timed_out", "reason": "x"}],
        "fired_at": "1970-01-01T00:00:00.005Z"
    })
}

fn operations() -> Vec<Value> {
    vec![
        json!({"schedule": schedule()}),
        json!({"cancel": {"id": "t", "if_revision": 1}}),
        json!({"reschedule": {"id": "t", "delay": "5ms"}}),
        json!({"fire": {"id": "t"}}),
    ]
}

/// Every call. Those about a timer are about `t`.
pub(super) fn calls(given: &CallInputs) -> Vec<Call> {
    let mut calls = namespaces(given);
    calls.extend(timers(given));
    calls.extend(lists(given));
    calls.extend(keys());
    let service = ["/healthz", "/readyz", "/metrics", "/openapi.json"];
    calls.extend(service.map(|path| call("GET", path, Sent::Nothing)));
    let repair = json!({"shards": [0], "keys": "accept"});
    calls.push(call("POST", "/v1/store/repair", Sent::Document(repair)));
    calls.push(call("POST", "/v1/store/backup", Sent::Document(json!({"path": given.backup}))));
    calls
}

const fn call(method: &'static str, path: &'static str, sent: Sent) -> Call {
    Call { method, path, query: String::new(), accept: None, sent }
}

fn asking(mut call: Call, query: &str) -> Call {
    call.query = query.into();
    call
}

fn namespaces(given: &CallInputs) -> Vec<Call> {
    let one = "/v1/namespaces/{namespace}";
    let put = json!({"weight": 3, "retry": {"delays": ["1s"]}, "limits": {"namespace": {"max_pending": 9, "max_dead": 9}}});
    let patch = json!({"retention": "1d", "signing_secrets": null, "destination": {"pull": {}}});
    let all = call("GET", "/v1/namespaces", Sent::Nothing);
    let forecast = call("GET", "/v1/namespaces/{namespace}/forecast", Sent::Nothing);
    vec![
        asking(all.clone(), "limit=5"),
        asking(all, &format!("limit=1&cursor={}", given.namespaces_cursor)),
        call("GET", one, Sent::Nothing),
        call("PUT", one, Sent::Document(put)),
        call("PATCH", one, Sent::Document(patch)),
        asking(call("DELETE", one, Sent::Nothing), "force=true"),
        call("POST", "/v1/namespaces/{namespace}/pause", Sent::Nothing),
        call(
            "POST",
            "/v1/namespaces/{namespace}/resume",
            Sent::Document(json!({"at": "2100-01-01T00:00:00Z"})),
        ),
        asking(call("POST", "/v1/namespaces/{namespace}/repair", Sent::Nothing), "keep=1.1048577"),
        call("GET", "/v1/namespaces/{namespace}/stats", Sent::Nothing),
        call("GET", "/v1/cluster", Sent::Nothing),
        asking(forecast, "bucket=1m&count=3"),
    ]
}

fn timers(given: &CallInputs) -> Vec<Call> {
    let one = "/v1/namespaces/{namespace}/timers/{id}";
    let batch = "/v1/namespaces/{namespace}/batch";
    let patch = json!({"due_at": "2031-01-01T00:00:00Z", "payload_text": "x", "tags": null});
    let settlements =
        json!([{"token": given.token, "retry": {"after": "5ms"}}, {"token": "AAAA", "ack": {}}]);
    let post = |path, body| call("POST", path, Sent::Document(body));
    let operations = operations();
    vec![
        post("/v1/namespaces/{namespace}/timers", schedule()),
        call("GET", one, Sent::Nothing),
        call("PATCH", one, Sent::Document(patch)),
        asking(call("DELETE", one, Sent::Nothing), "if_revision=1&no_further_attempt=true"),
        post("/v1/namespaces/{namespace}/timers/{id}/fire", json!({})),
        post("/v1/namespaces/{namespace}/timers/{id}/forget", json!({})),
        post(batch, json!({"operations": operations})),
        asking(call("POST", batch, Sent::Lines(operations)), "results=errors"),
        post(
            "/v1/namespaces/{namespace}/cancel",
            json!({"filter": {"tag": "red", "due_from": 1_800_000_000_000_u64, "state": "due"}, "limit": 2, "dry_run": false}),
        ),
        post(
            "/v1/namespaces/{namespace}/lease",
            json!({"max": 2, "max_bytes": 100, "lease": "5s", "wait": 0}),
        ),
        post("/v1/namespaces/{namespace}/settle", json!({"settlements": settlements})),
        post(
            "/v1/namespaces/{namespace}/dead/redrive",
            json!({"ids": ["dead"], "delay": "1s", "per_second": 2.5}),
        ),
        post(
            "/v1/namespaces/{namespace}/dead/purge",
            json!({"delivery_ids": ["aaaaaaaaaaaaaaaaaaaaaaaaaa"]}),
        ),
        post("/v1/namespaces/{namespace}/dead/overdue", json!({"due_by": 1_800_000_000_000_u64})),
    ]
}

fn keys() -> Vec<Call> {
    let (all, one) = ("/v1/keys", "/v1/keys/{id}");
    let create = json!({
        "name": "k", "actions": ["producer"], "namespaces": ["a*"], "networks": ["10.0.0.0/8"],
        "not_before": "2026-01-01T00:00:00Z", "expires_in": "90d"
    });
    let patch = json!({"name": "k", "disabled": true, "expires_at": null, "networks": []});
    let tenant = json!({
        "namespaces": ["acme-*"], "limits": {"max_pending": 5, "call_per_second": 3},
        "implicit_namespaces": true, "destinations": ["*.example.com"]
    });
    vec![
        asking(call("GET", "/v1/tenants", Sent::Nothing), "limit=5&cursor=acme"),
        call("GET", "/v1/tenants/{tenant}", Sent::Nothing),
        call("PUT", "/v1/tenants/{tenant}", Sent::Document(tenant)),
        call("DELETE", "/v1/tenants/{tenant}", Sent::Nothing),
        call("POST", all, Sent::Document(create)),
        asking(call("GET", all, Sent::Nothing), "limit=5&cursor=0123456789"),
        call("GET", one, Sent::Nothing),
        call("PATCH", one, Sent::Document(patch)),
        call("DELETE", one, Sent::Nothing),
        call("POST", "/v1/keys/{id}/rotate", Sent::Document(json!({"keep_old": "1h"}))),
        call("GET", "/v1/whoami", Sent::Nothing),
        asking(
            call("GET", "/v1/audit", Sent::Nothing),
            "limit=5&cursor=00000000000000000000000000000001",
        ),
    ]
}

fn lists(given: &CallInputs) -> Vec<Call> {
    let list = call("GET", "/v1/namespaces/{namespace}/timers", Sent::Nothing);
    let export = call("GET", "/v1/namespaces/{namespace}/export", Sent::Nothing);
    let import = "/v1/namespaces/{namespace}/import";
    let filters =
        "state=pending&limit=5&due_from=1800000000000&due_to=4102444800000&tag=red&id_prefix=h";
    let moved = vec![moved(), json!({"id": "x"})];
    let going_on = format!("limit=1&cursor={}", given.timers_cursor);
    vec![
        asking(list.clone(), filters),
        asking(list.clone(), &going_on),
        Call { accept: Some(NDJSON), ..asking(list.clone(), filters) },
        asking(list, "view=summary"),
        asking(export.clone(), "state=dead&limit=1"),
        asking(export, &format!("limit=1&cursor={}", given.export_cursor)),
        call("POST", import, Sent::Document(json!({"timers": moved}))),
        asking(call("POST", import, Sent::Lines(moved)), "results=all"),
    ]
}

/// Returns all calls of the document: with each content type, each streamed response, and each query
/// parameter.
fn documented() -> BTreeSet<String> {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let mut found = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = format!("{} {path}", method.to_uppercase());
            let bodies = operation["requestBody"]["content"].as_object();
            for kind in bodies.iter().flat_map(|bodies| bodies.keys()) {
                found.insert(format!("{name} sending {kind}"));
            }
            if method == "get" && operation["responses"]["200"]["x-lines"] == NDJSON {
                found.insert(format!("{name} accepting {NDJSON}"));
            }
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                if parameter["in"] == "query" {
                    found.insert(format!("{name} asking {}", parameter["name"].as_str().unwrap()));
                }
            }
            found.insert(name);
        }
    }
    found
}

#[tokio::test]
async fn every_call_of_the_document_is_damaged() {
    let given = CallInputs::of(&Bench::new(), "/nowhere".into()).await;
    let mut known = BTreeSet::new();
    for call in calls(&given) {
        let name = format!("{} {}", call.method, call.path);
        known.extend(call.content_type().map(|kind| format!("{name} sending {kind}")));
        known.extend(call.accept.map(|kind| format!("{name} accepting {kind}")));
        let keys = call.query.split('&').filter_map(|pair| pair.split_once('='));
        known.extend(keys.map(|(key, _)| format!("{name} asking {key}")));
        known.insert(name);
    }
    let documented = documented();
    assert!(documented.len() > 60, "{documented:?}");
    let missing: Vec<_> = documented.difference(&known).collect();
    assert!(missing.is_empty(), "add a row to fuzz/calls.rs for each of {missing:#?}");
}
