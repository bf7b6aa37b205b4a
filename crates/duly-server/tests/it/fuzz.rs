//! Bodies and queries that nobody would send: never a fault, and what is refused changes nothing.
//!
//! The bodies of every call are taken as they should be and damaged: fields gone, doubled, of
//! another type, at the edges of what is allowed, or cut off in the middle. `PROPTEST_CASES` and
//! `PROPTEST_RNG_SEED` make it longer, and repeat it.

use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};

use crate::bench::Bench;

/// Calls before the picture is of a fresh server again.
const CALLS: usize = 12;

/// Method, path below the namespace, and a body that is allowed.
fn calls() -> Vec<(&'static str, &'static str, Value)> {
    let schedule = json!({
        "id": "n", "delay": "1h", "payload": {"a": [1]}, "headers": {"x-a": "b"}, "tags": ["red"],
        "slot_key": "k", "destination": {"http": {"url": "http://localhost/x", "timeout": "3s"}},
        "retry": {"max_attempts": 3, "jitter": 0.5}, "expire_after": "2h", "if_exists": "keep"
    });
    let moved = json!({
        "id": "moved", "due_at": 5, "created_at": 4, "updated_at": 4, "revision": 2, "occurrence": 1,
        "incarnation": "0123456789abcdef", "request_hash": "0123456789abcdef0123456789abcdef",
        "payload_json": "{\n}", "destination": {"http": {"url": "http://localhost/x"}},
        "attempts": 2, "budget_from": 1, "next_attempt_at": 9, "maybe_delivered": true,
        "history": [{"attempt": 2, "at": 5, "outcome": "timed_out", "reason": "x"}], "fired_at": 5
    });
    let patch = json!({"due_at": "2031-01-01T00:00:00Z", "payload_text": "x", "tags": null});
    vec![
        ("POST", "timers", schedule.clone()),
        ("PATCH", "timers/t", patch.clone()),
        ("POST", "timers/t/fire", json!({})),
        ("DELETE", "timers/t", Value::Null),
        (
            "POST",
            "batch",
            json!({"operations": [{"schedule": schedule}, {"cancel": {"id": "t", "if_revision": 1}},
                {"reschedule": {"id": "t", "delay": 5}}, {"fire": {"id": "t"}}]}),
        ),
        (
            "POST",
            "cancel",
            json!({"filter": {"tag": "red", "due_from": 5, "state": "due"}, "limit": 2, "dry_run": false}),
        ),
        ("POST", "lease", json!({"max": 2, "max_bytes": 100, "lease": "5s", "wait": 0})),
        (
            "POST",
            "settle",
            json!({"settlements": [{"token": "AAAA", "ack": {}}, {"token": "x", "retry": {"after": 5}}]}),
        ),
        ("POST", "dead/redrive", json!({"ids": ["dead"], "delay": "1s", "per_second": 2.5})),
        ("POST", "dead/purge", json!({"delivery_ids": ["aaaaaaaaaaaaaaaaaaaaaaaaaa"]})),
        ("POST", "dead/overdue", json!({"due_by": 5})),
        (
            "PUT",
            "",
            json!({"weight": 3, "retry": {"schedule": ["1s"]}, "limits": {"max_pending": 9, "max_dead": 9}}),
        ),
        (
            "PATCH",
            "",
            json!({"retention": "1d", "signing_secrets": null, "destination": {"pull": {}}}),
        ),
        ("GET", "timers?state=pending&limit=5&due_from=7&tag=red", Value::Null),
        ("GET", "forecast?bucket=1m&count=3", Value::Null),
        ("GET", "export?state=dead&limit=1", Value::Null),
        ("POST", "import", json!({"timers": [moved, {"id": "x"}]})),
    ]
}

/// What stands where a value should.
fn odd() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        Just(json!(0)),
        Just(json!(-1)),
        Just(json!(u64::MAX)),
        Just(json!(i64::MIN)),
        Just(json!(1e300)),
        Just(json!(0.1)),
        Just(json!(4_102_444_800_000_u64)),
        Just(json!(7_258_118_400_000_u64)),
        any::<i64>().prop_map(|n| json!(n)),
    ];
    let text = prop_oneof![
        Just(json!("")),
        Just(json!("\u{0}")),
        Just(json!("..")),
        Just(json!("9".repeat(400))),
        Just(json!("1h1h")),
        Just(json!("99999999999999999999d")),
        Just(json!("2026-02-30T25:61:61Z")),
        Just(json!("http://user:pw@[::ffff:7f00:1]:0/")),
        Just(json!("é\u{202e}%2F")),
        any::<String>().prop_map(|text| json!(text)),
    ];
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number,
        text,
        Just(json!([])),
        Just(json!({})),
        Just(json!([[[[]]]])),
        Just(json!({"a": {"b": null}})),
    ]
}

/// What is done to a body.
#[derive(Debug, Clone)]
enum Damage {
    /// The n-th value becomes another one.
    Put(usize, Value),
    /// The n-th value goes.
    Remove(usize),
    /// A field is added to the n-th object.
    Add(usize, String, Value),
    /// The text ends after so many bytes.
    Cut(usize),
    /// A byte of the text becomes another one.
    Byte(usize, u8),
    /// Nothing.
    None,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        6 => (0..40_usize, odd()).prop_map(|(at, value)| Damage::Put(at, value)),
        2 => (0..40_usize).prop_map(Damage::Remove),
        1 => (0..9_usize, "[a-z_]{0,9}", odd()).prop_map(|(at, name, value)| Damage::Add(at, name, value)),
        1 => (0..400_usize).prop_map(Damage::Cut),
        1 => (0..400_usize, any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        1 => Just(Damage::None),
    ]
}

/// Visits the values of a tree, those below before those above; `false` ends it.
fn visit(value: &mut Value, change: &mut impl FnMut(&mut Value) -> bool) -> bool {
    let go_on = match value {
        Value::Array(items) => items.iter_mut().all(|item| visit(item, change)),
        Value::Object(fields) => fields.values_mut().all(|field| visit(field, change)),
        _ => true,
    };
    go_on && change(value)
}

fn count(value: &Value) -> usize {
    let mut count = 0;
    visit(&mut value.clone(), &mut |_| {
        count += 1;
        true
    });
    count
}

fn damaged(mut body: Value, damage: &Damage) -> Vec<u8> {
    if body.is_null() {
        return Vec::new();
    }
    let total = count(&body);
    let mut left = match damage {
        Damage::Put(at, _) | Damage::Remove(at) | Damage::Add(at, ..) => at % total,
        _ => 0,
    };
    visit(&mut body, &mut |value| {
        if left > 0 {
            left -= 1;
            return true;
        }
        match damage {
            Damage::Put(_, odd) => value.clone_from(odd),
            Damage::Remove(_) => match value {
                Value::Object(fields) => fields.clear(),
                Value::Array(items) => items.clear(),
                other => *other = Value::Null,
            },
            Damage::Add(_, name, odd) => match value {
                Value::Object(fields) => drop(fields.insert(name.clone(), odd.clone())),
                other => *other = json!({name: odd}),
            },
            Damage::Cut(_) | Damage::Byte(..) | Damage::None => {}
        }
        false
    });
    let mut text = serde_json::to_vec(&body).unwrap();
    match damage {
        Damage::Cut(at) => text.truncate(at % text.len()),
        Damage::Byte(at, byte) => {
            let at = at % text.len();
            text[at] = *byte;
        }
        _ => {}
    }
    text
}

/// Sends one call; answers what is wrong about it, if anything is.
async fn attack(
    bench: &Bench,
    (method, path, body): &(&str, &str, Value),
    damage: &Damage,
) -> Result<(), String> {
    let text = damaged(body.clone(), damage);
    let what = format!("{method} {path} {}", String::from_utf8_lossy(&text));
    let below = if path.is_empty() { String::new() } else { format!("/{path}") };
    let request = http::Request::builder()
        .method(*method)
        .uri(format!("/v1/namespaces/a{below}"))
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(axum::body::Body::from(text))
        .unwrap();
    let before = bench.picture().await;
    let answer = bench.send(request).await;
    let status = answer.status.as_u16();
    if status >= 500 {
        return Err(format!("{what}: {}", answer.text));
    }
    if status < 400 {
        return Ok(());
    }
    let problem = answer.json();
    for member in ["type", "title", "detail", "code"] {
        if problem[member].as_str().is_none_or(str::is_empty) {
            return Err(format!("{what}: no {member} in {}", answer.text));
        }
    }
    if bench.picture().await == before {
        Ok(())
    } else {
        Err(format!("{what} was refused and changed something: {}", answer.text))
    }
}

#[test]
fn damaged_calls_are_never_a_fault_and_what_is_refused_changes_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: Config::default().cases.min(100_000),
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, random);
    let calls = calls();
    let one = (0..calls.len(), damage());
    let many = proptest::collection::vec(one, 1..CALLS);
    let ran = runner.run(&many, |sequence| {
        runtime.block_on(async {
            let bench = Bench::new();
            for (id, state) in [("dead", "dead"), ("done", "finished"), ("t", "scheduled")] {
                bench.timer_in(id, state).await;
            }
            for (call, damage) in &sequence {
                attack(&bench, &calls[*call], damage).await.map_err(TestCaseError::fail)?;
            }
            Ok(())
        })
    });
    if let Err(error) = ran {
        panic!("seed {seed} (PROPTEST_RNG_SEED repeats it): {error}");
    }
}
