//! Export and import: a namespace moves from one server to another.

use duly_core::Incarnation;
use serde_json::{Value, json};

use crate::bench::Bench;

const EXPORT: &str = "/v1/namespaces/a/export";
const IMPORT: &str = "/v1/namespaces/a/import";

/// Returns every page of an export with the smallest pages.
async fn exported(bench: &Bench, state: &str) -> Vec<Value> {
    let mut timers = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = bench.get(&format!("{EXPORT}?state={state}&limit=1{cursor}")).await.expect(200);
        assert_eq!(page.get("namespace").is_some(), cursor.is_empty(), "on the first page only");
        timers.extend(page["timers"].as_array().unwrap().clone());
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return timers,
        }
    }
}

async fn import(bench: &Bench, timers: &[Value]) -> Vec<Value> {
    let body = json!({ "timers": timers }).to_string();
    let answer = bench.post(IMPORT, &body).await.expect(200);
    answer["results"].as_array().unwrap().clone()
}

/// Returns a server with one timer of each exported kind, and others that are not exported.
async fn filled() -> Bench {
    let bench = Bench::new();
    bench
        .schedule(
            r#"{"id":"far","delay":"2h","payload":{
              "kept": 1.0 },"headers":{"x-token":"mine"},
              "destination":{"http":{"url":"http://localhost/x","headers":{"authorization":"Bearer s3cret"}}}}"#,
        )
        .await
        .expect(201);
    for state in ["dead", "retrying", "finished", "cancelled", "in_flight", "due"] {
        bench.timer_in(state, state).await;
    }
    bench
}

async fn get(bench: &Bench, id: &str) -> Value {
    bench.get(&format!("/v1/namespaces/a/timers/{id}")).await.expect(200)
}

#[tokio::test]
async fn p7_p11_a_namespace_moves_with_every_state() {
    let (old, new) = (filled().await, Bench::new());
    let mut timers = exported(&old, "pending").await;
    assert_eq!(timers.len(), 4);
    timers.extend(exported(&old, "dead").await);
    let results = import(&new, &timers).await;
    assert_eq!(results, vec![json!({"imported": true}); 5]);
    for id in ["far", "due", "retrying", "dead"] {
        let (there, here) = (get(&old, id).await, get(&new, id).await);
        assert_eq!(there, here, "{id}");
    }
    let text = new.get("/v1/namespaces/a/timers/far").await.text;
    assert!(text.contains("{\n              \"kept\": 1.0 }"), "{text}");
    let (there, here) = (get(&old, "in_flight").await, get(&new, "in_flight").await);
    assert_eq!(here["state"], "retrying");
    assert_eq!(here["delivery_id"], there["delivery_id"]);
    assert_eq!((&here["attempts"], &here["maybe_delivered"]), (&json!(1), &json!(true)));
    assert_eq!(here["next_attempt_at"], there["leased_until"]);
    for id in ["finished", "cancelled"] {
        new.get(&format!("/v1/namespaces/a/timers/{id}")).await.problem("not_found");
    }
    // The same request is recognised (P6), the count of attempts continues, and a dead letter is
    // redriven with the same delivery id.
    new.schedule(r#"{"id":"due","delay":"0s"}"#).await.expect(200);
    new.post("/v1/namespaces/a/dead/redrive", r#"{"ids":["dead"]}"#).await.expect(200);
    new.advance(3_600);
    let leased = new.post("/v1/namespaces/a/lease", r#"{"max":9}"#).await.expect(200);
    let firings = leased["firings"].as_array().unwrap();
    assert_eq!(firings.len(), 4, "{leased}");
    for firing in firings {
        let id = firing["id"].as_str().unwrap();
        let there = get(&old, id).await;
        assert_eq!(firing["delivery_id"], there["delivery_id"], "{id}");
        let made = there["attempts"].as_u64().unwrap();
        assert_eq!(firing["attempt"], made + 1, "{id}");
    }
}

#[tokio::test]
async fn p11_exports_hold_credentials_but_no_signing_secrets() {
    let bench = filled().await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let settings = json!({
        "destination": {"http": {"url": "http://localhost/y", "headers": {"x-key": "k3y"}}},
        "fallback": {"destination": {"http": {"url": "http://localhost/z", "headers": {"x-key": "z3y"}}}},
        "signing_secrets": [secret], "weight": 3, "limits": {"namespace": {"max_pending": 77}}
    });
    bench.call("PUT", "/v1/namespaces/a", &settings.to_string()).await.expect(200);
    let answer = bench.get(EXPORT).await;
    for shown in ["Bearer s3cret", "k3y", "z3y"] {
        assert!(answer.text.contains(shown), "{shown}: {}", answer.text);
    }
    assert!(!answer.text.contains(secret) && !answer.text.contains("last_settled"));
    assert!(!answer.text.trim_end().contains('\n'), "each part of it is a line of a file");
    let export = answer.expect(200);
    let namespace = &export["namespace"];
    assert_eq!((&namespace["name"], &namespace["paused"]), (&json!("a"), &json!(false)));
    assert_eq!(namespace["signing_secret_fingerprints"].as_array().map(Vec::len), Some(1));
    // Another server creates the same namespace from it.
    let other = Bench::new();
    let settings = namespace["settings"].to_string();
    other.call("PUT", "/v1/namespaces/a", &settings).await.expect(201);
    let there = other.get(EXPORT).await.expect(200);
    assert_eq!(there["namespace"]["settings"], namespace["settings"]);
}

#[tokio::test]
async fn p4_repeated_imports_do_not_restore_cancelled_timers() {
    let (old, new) = (filled().await, Bench::new());
    let mut timers = exported(&old, "pending").await;
    timers.extend(exported(&old, "dead").await);
    import(&new, &timers).await;
    new.call("DELETE", "/v1/namespaces/a/timers/far", "").await.expect(200);
    let before = new.picture().await;
    let results = import(&new, &timers).await;
    for (timer, result) in timers.iter().zip(&results) {
        assert_eq!(result["existing"], true, "{timer} {result}");
    }
    let states: Vec<_> = results.iter().map(|result| result["state"].as_str().unwrap()).collect();
    assert_eq!(states.iter().filter(|state| **state == "cancelled").count(), 1, "{states:?}");
    assert_eq!(new.picture().await, before, "nothing changed");
}

#[tokio::test]
async fn refused_timers_do_not_affect_the_rest_of_an_import() {
    let old = filled().await;
    let timers = exported(&old, "pending").await;
    let mut wrong = timers[0].clone();
    wrong["revision"] = json!(0);
    let mut taken = timers[1].clone();
    taken["incarnation"] = json!(format!("{:016x}", Incarnation(1).0));
    let mixed = [wrong, timers[1].clone(), taken, json!({"id": "x"}), json!(7)];
    let new = Bench::new();
    let results = import(&new, &mixed).await;
    let faults = [
        (0, "invalid_argument", "timers[0].revision"),
        (2, "already_exists", ""),
        (3, "invalid_argument", "timers[3].due_at"),
        (4, "invalid_argument", "timers[4]"),
    ];
    for (i, code, field) in faults {
        let error = &results[i]["error"];
        let at = error["field"].as_str().unwrap_or_default();
        assert_eq!((error["code"].as_str().unwrap(), at), (code, field), "{error}");
    }
    assert_eq!(results[1], json!({"imported": true}));

    let lines: String = mixed.iter().map(|timer| format!("{timer}\n\n")).collect();
    let new = Bench::new();
    let request = http::Request::builder()
        .method("POST")
        .uri(format!("{IMPORT}?results=errors"))
        .header("host", "localhost")
        .header("content-type", "application/x-ndjson");
    let answer = new.send(request.body(axum::body::Body::from(lines)).unwrap()).await;
    let answers: Vec<Value> =
        answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let places: Vec<_> = answers.iter().filter_map(|line| line["line"].as_u64()).collect();
    assert_eq!(places, [1, 5, 7, 9], "{}", answer.text);
    assert_eq!(answers[0]["error"]["field"], "revision");
    assert_eq!(answers[4], json!({"summary": {"lines": 5, "accepted": 1, "refused": 4}}));
    let stats = new.get("/v1/namespaces/a/stats").await.expect(200);
    assert_eq!(stats["pending"], 1, "made as at a schedule");
}

#[tokio::test]
async fn an_export_of_nothing_and_of_what_is_not_there() {
    let bench = Bench::new();
    bench.get(EXPORT).await.problem("not_found");
    bench.call("PUT", "/v1/namespaces/a", "{}").await.expect(201);
    let export = bench.get(EXPORT).await.expect(200);
    assert_eq!(export["timers"], json!([]));
    for (query, field) in
        [("state=due", "state"), ("limit=1001", "limit"), ("cursor=x", "cursor"), ("tag=x", "tag")]
    {
        let problem = bench.get(&format!("{EXPORT}?{query}")).await.problem("invalid_argument");
        assert_eq!(problem["field"], field);
    }
    let page = bench.get(&format!("{EXPORT}?state=dead")).await.expect(200);
    assert_eq!(page["timers"], json!([]));
}
