//! The document names `null` for exactly the fields of requests where the server gives it a meaning.
//!
//! Each field of each body is sent as `null`, and left out. `null` has a meaning of its own if the two calls differ in
//! their effect.

use std::collections::{BTreeMap, BTreeSet};

use duly_server::openapi_json;
use serde_json::{Value, json};

use crate::bench::Bench;

/// The result of a field that is `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Refused,
    AsAbsent,
    OwnMeaning,
}

/// A field of a schema, by both names.
type Field = (String, String);

/// An operation with valid bodies. Together they have each object that a body can have.
struct Call {
    method: &'static str,
    path: &'static str,
    bodies: Vec<Value>,
}

fn call<const N: usize>(method: &'static str, path: &'static str, bodies: [Value; N]) -> Call {
    Call { method, path, bodies: bodies.to_vec() }
}

fn retry() -> Value {
    json!({"max_attempts": 3, "min_backoff": "2s", "max_backoff": "1m", "multiplier": 3, "jitter": 0.5})
}

fn webhook() -> Value {
    json!({"http": {
        "url": "http://localhost/x", "method": "PUT", "timeout": "3s", "headers": {"x-a": "b"}
    }})
}

fn settings() -> Value {
    json!({
        "destination": webhook(), "retry": retry(), "lease": "1m", "retention": "2d", "weight": 5,
        "fallback": {"destination": webhook(), "after_attempts": 3, "after_open": "1m"},
        "signing_secrets": ["whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="],
        "limits": {
            "lane": {"deliver_per_second": 7, "max_in_flight": 8},
            "namespace": {
                "schedule_per_second": 900, "max_pending": 90, "max_payload_bytes": 900,
                "max_delay": "3000d", "max_dead": 9, "max_retained": 9
            }
        }
    })
}

fn schedule(id: &str) -> Value {
    json!({
        "id": id, "delay": "3h", "headers": {"x-a": "b"}, "tags": ["red"],
        "slot_key": "k", "destination": webhook(), "retry": retry(), "expire_after": "2h", "if_exists": "keep"
    })
}

fn change() -> Value {
    json!({"due_at": "2031-01-01T00:00:00Z", "headers": {}, "tags": [], "destination": webhook(), "retry": retry()})
}

/// Returns an object with a further field.
fn with(mut object: Value, name: &str, value: impl Into<Value>) -> Value {
    object[name] = value.into();
    object
}

fn moved() -> Value {
    let time = "1970-01-01T00:00:00.005Z";
    json!({
        "id": "moved", "due_at": time, "created_at": time, "updated_at": time, "revision": 2, "occurrence": 1,
        "incarnation": "0123456789abcdef", "request_hash": "0123456789abcdef0123456789abcdef",
        "headers": {"x-a": "b"}, "tags": ["red"], "slot_key": "k", "destination": webhook(),
        "retry": retry(), "expire_after": "2h", "attempts": 2, "budget_from": 1,
        "trace_parent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "maybe_delivered": true,
        "history": [{"attempt": 2, "at": time, "outcome": "timed_out", "reason": "x"}],
        "fired_at": time, "dead_letter": {"at": time, "reason": "rejected"}
    })
}

/// Returns every call that has a body.
fn calls(server: &Prepared) -> Vec<Call> {
    let token = &*server.token;
    let verdicts = [
        json!({"ack": {}}),
        json!({"retry": {"after": "1m", "reason": "x"}}),
        json!({"dead": {"reason": "x"}}),
        json!({"extend": {"lease": "1m"}}),
        json!({"snooze": {"after": "1m"}}),
    ];
    let settle = |verdict| {
        json!({
            "settlements": [with(verdict, "token", token)],
            "lease": {"max": 1, "max_bytes": 100, "lease": "1m", "wait": 0}
        })
    };
    let tenant = json!({
        "namespaces": ["acme-*"], "implicit_namespaces": true, "destinations": ["*.example.com"],
        "limits": {"max_pending": 5}
    });
    let key = json!({
        "name": "n", "actions": ["producer"], "namespaces": ["a"], "networks": ["10.0.0.0/8"],
        "not_before": "1970-01-01T00:00:00Z"
    });
    let operations = json!([
        {"schedule": schedule("new")},
        {"reschedule": with(change(), "id", "t")},
        {"reschedule": {"id": "u", "delay": "2h", "payload_text": "y", "if_revision": 1}},
        {"cancel": {"id": "v", "if_revision": 1, "no_further_attempt": true}},
        {"fire": {"id": "w"}},
    ]);
    let filter = json!({
        "state": "scheduled", "due_from": "1970-01-01T00:00:00Z", "due_to": "2031-01-01T00:00:00Z",
        "id_prefix": "t", "tag": "red"
    });
    vec![
        call(
            "POST",
            "/v1/keys",
            [with(key.clone(), "expires_in", "1h"), with(key, "subject", "cert:a.example")],
        ),
        call(
            "PATCH",
            "/v1/keys/{id}",
            [json!({
                "name": "o", "actions": ["viewer"], "namespaces": ["b"], "networks": ["10.1.0.0/16"],
                "expires_at": "2040-01-01T00:00:00Z", "disabled": true
            })],
        ),
        call("POST", "/v1/keys/{id}/rotate", [json!({"keep_old": "2h"})]),
        call("PUT", "/v1/tenants/{tenant}", [tenant]),
        call("POST", "/v1/store/backup", [json!({"path": "b"})]),
        call("POST", "/v1/store/repair", [json!({"shards": [0], "keys": "accept"})]),
        call("PUT", "/v1/namespaces/{namespace}", [settings()]),
        call("PATCH", "/v1/namespaces/{namespace}", [settings()]),
        call("POST", "/v1/namespaces/{namespace}/resume", [json!({"at": "2031-01-01T00:00:00Z"})]),
        call("POST", "/v1/namespaces/{namespace}/timers", [schedule("new")]),
        call(
            "PATCH",
            "/v1/namespaces/{namespace}/timers/{timer}",
            [change(), json!({"delay": "2h", "payload_base64": "eA==", "if_revision": 1})],
        ),
        call("POST", "/v1/namespaces/{namespace}/batch", [json!({"operations": operations})]),
        call(
            "POST",
            "/v1/namespaces/{namespace}/cancel",
            [
                json!({"filter": filter, "limit": 2, "dry_run": false, "no_further_attempt": true}),
                json!({"all": true}),
            ],
        ),
        call(
            "POST",
            "/v1/namespaces/{namespace}/lease",
            [json!({"max": 1, "max_bytes": 100, "lease": "1m", "wait": 0})],
        ),
        Call {
            bodies: verdicts.map(settle).to_vec(),
            ..call("POST", "/v1/namespaces/{namespace}/settle", [])
        },
        call(
            "POST",
            "/v1/namespaces/{namespace}/dead/redrive",
            [json!({"ids": ["dead"], "delay": "1s", "per_second": 2.5}), json!({"all": true})],
        ),
        call(
            "POST",
            "/v1/namespaces/{namespace}/dead/purge",
            [json!({"ids": ["dead"]}), json!({"all": true})],
        ),
        call(
            "POST",
            "/v1/namespaces/{namespace}/dead/overdue",
            [json!({"due_by": 1_800_000_000_000_u64})],
        ),
        call(
            "POST",
            "/v1/namespaces/{namespace}/import",
            [
                json!({"timers": [moved()]}),
                json!({"timers": [with(with(moved(), "next_attempt_at", "1970-01-01T00:00:00Z"), "dead_letter", Value::Null)]}),
            ],
        ),
    ]
}

/// A server on which each value that `null` could reset is set.
struct Prepared {
    bench: Bench,
    key: String,
    token: String,
}

impl Prepared {
    async fn new() -> Self {
        let bench = Bench::with_admin().await;
        for (path, body) in [
            ("/v1/namespaces/a", settings()),
            ("/v1/tenants/acme", json!({"namespaces": ["acme-*"]})),
        ] {
            bench.call("PUT", path, &body.to_string()).await.expect(201);
        }
        for id in ["t", "u", "v", "w"] {
            let set = with(with(schedule(id), "delay", "1h"), "payload_text", "x");
            bench.schedule(&set.to_string()).await.expect(201);
        }
        let due = r#"{"id":"due","delay":0,"destination":{"pull":{}}}"#;
        bench.schedule(due).await.expect(201);
        let token = bench.tokens().await.remove(0);
        let key = json!({
            "name": "k", "actions": ["producer"], "namespaces": ["a"], "networks": ["10.0.0.0/8"],
            "expires_at": "2041-01-01T00:00:00Z"
        });
        let key = bench.post("/v1/keys", &key.to_string()).await.expect(201);
        Self { bench, key: key["key"]["id"].as_str().unwrap().to_owned(), token }
    }

    /// Makes a call. Returns its effect, or the response that refuses a value.
    async fn effect(call: &Call, body: &Value) -> Result<String, Value> {
        let server = Self::new().await;
        let path = call.path.replace("{namespace}", "a").replace("{timer}", "t");
        let path = path.replace("{tenant}", "acme").replace("{id}", &server.key);
        // Another server has another token for the same firing.
        let mut body = body.clone();
        if let Some(token) = body.pointer_mut("/settlements/0/token").filter(|it| it.is_string()) {
            *token = json!(server.token);
        }
        let answer = server.bench.call(call.method, &path, &body.to_string()).await;
        let response = answer.json();
        if is_refused(&response) {
            return Err(response);
        }
        let key = server.bench.get(&format!("/v1/keys/{}", server.key)).await.json();
        let tenant = server.bench.get("/v1/tenants/acme").await.json();
        let picture = server.bench.picture().await;
        let mut effect = json!([answer.status.as_u16(), response, key, tenant, picture]);
        // Keys have random ids and secrets, and so does a timer without an id of its caller.
        for place in ["/1", "/1/key", "/2"] {
            if let Some(object) = effect.pointer_mut(place).and_then(Value::as_object_mut) {
                object.retain(|name, _| !["secret", "created_by"].contains(&&**name));
            }
        }
        let results = response["results"].as_array().into_iter().flatten();
        let made = results.map(|it| &it["timer"]).chain([&response["key"], &response]);
        let ids = made.flat_map(|it| [&it["delivery_id"], &it["id"]]).filter_map(Value::as_str);
        let chosen = [&*server.key].into_iter().chain(ids);
        let text = effect.to_string();
        Ok(chosen.fold(text, |text, id| text.replace(id, "chosen")))
    }
}

/// Returns `true` if a call, or an item of it, is refused for a value.
fn is_refused(response: &Value) -> bool {
    let results = response["results"].as_array().into_iter().flatten();
    let mut problems = results.map(|it| &it["error"]).chain([response]);
    problems.any(|problem| problem["code"] == "invalid_argument")
}

/// Returns a schema, through its reference, with its name.
fn resolved<'a>(document: &'a Value, owner: &str, schema: &'a Value) -> (String, &'a Value) {
    let target = schema["$ref"].as_str();
    match target.and_then(|it| it.strip_prefix("#/components/schemas/")) {
        Some(name) => (name.to_owned(), &document["components"]["schemas"][name]),
        None => (owner.to_owned(), schema),
    }
}

/// Returns `true` if the document allows `null` here.
fn allows_null(document: &Value, schema: &Value) -> bool {
    let (_, schema) = resolved(document, "", schema);
    let is_null = |kind: &Value| kind == "null";
    let parts = ["oneOf", "anyOf"].into_iter().filter_map(|key| schema[key].as_array());
    let mut parts = parts.peekable();
    match &schema["type"] {
        Value::Null if parts.peek().is_none() => true,
        Value::Null => parts.flatten().any(|part| allows_null(document, part)),
        Value::Array(kinds) => kinds.iter().any(is_null),
        kind => is_null(kind),
    }
}

/// Finds the fields of a body: the place in it, the field, and if the document allows `null`.
fn fields_of(
    document: &Value,
    (owner, schema): (&str, &Value),
    (place, body): (&str, &Value),
    found: &mut Vec<(String, Field, bool)>,
) {
    let (owner, schema) = resolved(document, owner, schema);
    for (i, item) in body.as_array().into_iter().flatten().enumerate() {
        fields_of(document, (&owner, &schema["items"]), (&format!("{place}/{i}"), item), found);
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if body.is_object() {
            let place = format!("{place}/{name}");
            let is_nullable = allows_null(document, field);
            found.push((place.clone(), (owner.clone(), name.clone()), is_nullable));
            fields_of(document, (&owner, field), (&place, &body[name]), found);
        }
    }
}

/// Finds the fields of all schemas that a part of the document reaches.
fn reach(document: &Value, owner: &str, schema: &Value, found: &mut BTreeSet<Field>) {
    let (owner, schema) = resolved(document, owner, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if found.insert((owner.clone(), name.clone())) {
            reach(document, &owner, field, found);
        }
    }
    if schema["items"].is_object() {
        reach(document, &owner, &schema["items"], found);
    }
}

/// Returns the body without a field, and with `null` in it.
fn edited(body: &Value, place: &str) -> [Value; 2] {
    let (parent, name) = place.rsplit_once('/').unwrap();
    let mut without = body.clone();
    without.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name);
    let mut with = body.clone();
    with.pointer_mut(parent).unwrap()[name] = Value::Null;
    [without, with]
}

#[tokio::test]
async fn the_document_has_null_exactly_where_it_means_something() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let prepared = Prepared::new().await;
    let (mut verdicts, mut reached) = (BTreeMap::new(), BTreeSet::new());
    let mut calls = calls(&prepared);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_null() {
                continue;
            }
            reach(&document, "", schema, &mut reached);
            let path = path.replace("timers/{id}", "timers/{timer}");
            let own = |call: &mut Call| call.method == method.to_uppercase() && call.path == path;
            let call = calls.extract_if(.., own).next().expect("a row of calls()");
            let mut probed = BTreeSet::new();
            for body in &call.bodies {
                let unchanged = Prepared::effect(&call, body).await;
                assert!(unchanged.is_ok(), "{path}: {body} is refused: {unchanged:?}");
                assert!(unchanged == Prepared::effect(&call, body).await, "{path}: by chance");
                let mut fields = Vec::new();
                fields_of(&document, ("", schema), ("", body), &mut fields);
                for (place, field, is_nullable) in fields {
                    // Each field once for each operation.
                    if !probed.insert(field.clone()) {
                        continue;
                    }
                    let [without, with] = edited(body, &place);
                    let with = Prepared::effect(&call, &with).await;
                    let verdict = match with {
                        Err(_) => Verdict::Refused,
                        _ if with == Prepared::effect(&call, &without).await => Verdict::AsAbsent,
                        _ => Verdict::OwnMeaning,
                    };
                    let entry = verdicts.entry(field).or_insert((BTreeSet::new(), is_nullable));
                    entry.0.insert(verdict);
                }
            }
        }
    }
    assert!(calls.is_empty(), "a row of no operation");
    assert_eq!(verdicts.keys().cloned().collect::<BTreeSet<_>>(), reached, "not every field");
    let is_wrong = |(found, is_nullable): &(BTreeSet<Verdict>, bool)| {
        *is_nullable != found.contains(&Verdict::OwnMeaning)
            || *is_nullable && found.contains(&Verdict::Refused)
    };
    let wrong: Vec<_> = verdicts.into_iter().filter(|(_, it)| is_wrong(it)).collect();
    assert!(wrong.is_empty(), "(schema, field), verdicts, is null allowed: {wrong:#?}");
}
