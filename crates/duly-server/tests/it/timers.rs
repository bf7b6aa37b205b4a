//! Each call on timers follows the contract.

use serde_json::json;

use crate::bench::Bench;

const TIMERS: &str = "/v1/namespaces/a/timers";

#[tokio::test]
async fn a_schedule_answers_the_timer_itself() {
    let bench = Bench::new();
    let body = r#"{"id":"order/42","due_at":"2030-03-17T18:46:40+00:30","payload":{"a":1},
        "headers":{"X-Two":"2","x-One":"1"},"tags":["red","blue"],"slot_key":"k",
        "destination":{"http":{"url":"https://example.com/hook","timeout":"5s"}},
        "retry":{"delays":["10s","1m"]},"expire_after":"1d"}"#;
    let answer = bench.schedule(body).await;
    // Order of headers is kept, names are lower-cased.
    assert!(answer.text.contains(r#""headers":{"x-two":"2","x-one":"1"}"#), "{}", answer.text);
    let timer = answer.expect(201);
    assert_eq!(timer["namespace"], "a");
    assert_eq!(timer["id"], "order/42");
    assert_eq!(timer["state"], "scheduled");
    assert_eq!(timer["due_at"], "2030-03-17T18:16:40.000Z");
    assert_eq!(timer["revision"], 1);
    assert_eq!(timer["payload"], json!({"a":1}));
    assert_eq!(timer["tags"], json!(["red", "blue"]));
    assert_eq!(timer["slot_key"], "k");
    assert_eq!(
        timer["destination"],
        json!({"http":{"url":"https://example.com/hook","method":"POST","timeout":"5s"}})
    );
    assert_eq!(timer["retry"], json!({"delays":["10s","1m"]}));
    assert_eq!(timer["expire_after"], "1d");
    assert_eq!(timer["attempts"], 0);
    assert_eq!(timer["created_at"], "2030-03-17T17:46:40.000Z");
    for absent in ["existing", "replaced", "tombstone", "history", "leased_until", "finished_at"] {
        assert!(timer.get(absent).is_none(), "{absent}: {timer}");
    }
    let got = bench.get("/v1/namespaces/a/timers/order%2F42").await.expect(200);
    assert_eq!(got, timer);
}

#[tokio::test]
async fn an_id_may_hold_any_byte() {
    let bench = Bench::new();
    for (id, path) in [
        ("a/b", "a%2Fb"),
        ("a%2Fb", "a%252Fb"),
        ("50%", "50%25"),
        ("a b", "a%20b"),
        ("a:b_c", "a:b_c"),
        ("größe", "gr%C3%B6%C3%9Fe"),
        ("a?b#c", "a%3Fb%23c"),
        ("...", "..."),
        ("a+b", "a+b"),
    ] {
        let body = json!({"id": id, "delay": "1h"}).to_string();
        bench.schedule(&body).await.expect(201);
        let path = format!("{TIMERS}/{path}");
        assert_eq!(bench.get(&path).await.expect(200)["id"], id);
        let fired = bench.post(&format!("{path}/fire"), "").await.expect(200);
        assert_eq!(fired["id"], id);
        bench.call("DELETE", &path, "").await.expect(200);
    }
}

#[tokio::test]
async fn without_id_the_server_makes_a_uuid() {
    let bench = Bench::new();
    let first = bench.schedule(r#"{"delay":"1h"}"#).await.expect(201);
    let second = bench.schedule(r#"{"delay":"1h"}"#).await.expect(201);
    assert_ne!(first["id"], second["id"]);
    let id = first["id"].as_str().unwrap();
    assert_eq!((id.len(), &id[14..15]), (36, "7"));
}

#[tokio::test]
async fn a_patch_keeps_resets_and_replaces() {
    let bench = Bench::new();
    let body = r#"{"id":"t","delay":"1h","payload":1,"headers":{"a":"1"},"tags":["x"],
        "destination":{"http":{"url":"http://127.0.0.1:1/"}},"retry":{"max_attempts":2}}"#;
    bench.schedule(body).await.expect(201);
    let path = format!("{TIMERS}/t");
    let patch = |body: &'static str| {
        let (bench, path) = (&bench, &path);
        async move { bench.call("PATCH", path, body).await.expect(200) }
    };
    let timer = patch(r#"{"delay":"2h"}"#).await;
    assert_eq!(timer["due_at"], "2030-03-17T19:46:40.000Z");
    assert_eq!((&timer["revision"], &timer["payload"]), (&json!(2), &json!(1)));
    let timer = patch(r#"{"payload_text":"hi","tags":["y","z"],"if_revision":2}"#).await;
    assert_eq!(timer["payload_text"], "hi");
    assert!(timer.get("payload").is_none());
    assert_eq!(timer["tags"], json!(["y", "z"]));
    assert_eq!(timer["headers"], json!({"a":"1"}));
    let reset = r#"{"payload":null,"headers":null,"tags":null,"destination":null,"retry":null}"#;
    let timer = patch(reset).await;
    for field in ["payload", "payload_text", "headers", "tags", "destination", "retry"] {
        assert!(timer.get(field).is_none(), "{field}: {timer}");
    }
    assert_eq!(timer["revision"], 4);
}

/// Makes the rows of the table of payloads in `docs/reference/http.md`.
#[tokio::test]
async fn p11_payload_null_no_payload_and_empty_text_differ() {
    let bench = Bench::new();
    for (id, field, shown) in [
        ("none", r#""payload_text":null"#, json!({})),
        ("null", r#""payload":null"#, json!({"payload":null})),
        ("empty", r#""payload_text":"""#, json!({"payload_text":""})),
    ] {
        bench.schedule(&format!(r#"{{"id":"{id}","delay":"1h",{field}}}"#)).await.expect(201);
        let timer = bench.call("GET", &format!("{TIMERS}/{id}"), "").await.expect(200);
        let fields = timer.as_object().unwrap().clone().into_iter();
        let found: serde_json::Map<_, _> =
            fields.filter(|(name, _)| name.starts_with("payload")).collect();
        assert_eq!(serde_json::Value::Object(found), shown, "{id}");
    }
    for body in [r#"{"payload":null}"#, r#"{"payload_base64":null}"#] {
        let timer = bench.call("PATCH", &format!("{TIMERS}/null"), body).await.expect(200);
        assert!(timer.get("payload").is_none(), "{timer}");
    }
}

#[tokio::test]
async fn a_cancel_is_definite() {
    let bench = Bench::new();
    bench.timer_in("t", "scheduled").await;
    let path = format!("{TIMERS}/t?if_revision=1");
    let first = bench.call("DELETE", &path, "").await.expect(200);
    assert_eq!(first, json!({"outcome":"cancelled","attempts":0,"maybe_delivered":false}));
    let path = format!("{TIMERS}/t");
    let again = bench.call("DELETE", &path, "").await.expect(200);
    assert_eq!(again["already"], true);
    let tombstone = bench.get(&path).await.expect(200);
    assert_eq!((&tombstone["state"], &tombstone["tombstone"]), (&json!("cancelled"), &json!(true)));

    for (state, status) in [("in_flight", 409), ("finished", 409), ("dead", 409)] {
        bench.timer_in(state, state).await;
        let answer = bench.call("DELETE", &format!("{TIMERS}/{state}"), "").await;
        assert_eq!(answer.status, status);
        let problem = answer.problem(state);
        assert_eq!(problem["outcome"], state);
        assert_eq!(problem["state"], state);
        assert_eq!(problem["attempts"], 1);
        assert_eq!(problem["maybe_delivered"], false);
        assert_eq!(problem.get("leased_until").is_some(), state == "in_flight");
        let wait = problem.get("retry_after_ms").and_then(serde_json::Value::as_u64);
        assert_eq!(wait, (state == "in_flight").then_some(1_000), "only there waiting helps");
    }
    let answer = bench.call("DELETE", &format!("{TIMERS}/none"), "").await;
    assert_eq!(answer.problem("not_found")["outcome"], "not_found");
}

#[tokio::test]
async fn p4_a_cancel_in_flight_leaves_no_further_attempt() {
    let bench = Bench::new();
    let path = format!("{TIMERS}/t?no_further_attempt=true");
    let cancel = async |path: &str| bench.call("DELETE", path, "").await;
    for (verdict, outcome, state) in [
        (r#""retry":{"after":"0s"}"#, "cancelled", "cancelled"),
        (r#""dead":{"reason":"no"}"#, "cancelled", "cancelled"),
        (r#""ack":{}"#, "ok", "finished"),
    ] {
        bench.schedule(r#"{"id":"t","delay":"0s"}"#).await.expect(201);
        let token = bench.tokens().await.remove(0);
        let stopped = json!({"outcome":"in_flight","attempts":1,"maybe_delivered":false,
            "no_further_attempt":true});
        assert_eq!(cancel(&path).await.expect(202), stopped, "{verdict}");
        assert_eq!(cancel(&path).await.expect(202)["already"], true, "{verdict}");
        let timer = bench.get(&format!("{TIMERS}/t")).await.expect(200);
        assert_eq!(
            (&timer["state"], &timer["no_further_attempt"]),
            (&json!("in_flight"), &json!(true))
        );
        cancel(&format!("{TIMERS}/t")).await.problem("in_flight");
        assert_eq!(bench.settle(&token, verdict).await, outcome, "{verdict}");
        let timer = bench.get(&format!("{TIMERS}/t")).await.expect(200);
        assert_eq!(timer["state"], state, "{verdict}");
        assert!(bench.tokens().await.is_empty(), "no attempt follows {verdict}");
        match state {
            "finished" => drop(cancel(&path).await.problem("finished")),
            _ => assert_eq!(cancel(&path).await.expect(200)["already"], true, "{verdict}"),
        }
    }
    let stale = format!("{TIMERS}/t?no_further_attempt=true&if_revision=7");
    bench.schedule(r#"{"id":"u","delay":"0s"}"#).await.expect(201);
    bench.tokens().await;
    cancel(&stale.replace("/t?", "/u?")).await.problem("revision_mismatch");
    cancel(&format!("{TIMERS}/u?no_further_attempt=yes")).await.problem("invalid_argument");

    let timers = bench.get("/v1/namespaces/a/timers").await.expect(200);
    assert_eq!(timers["timers"][0].get("no_further_attempt"), None, "nothing was stopped");
    let body = r#"{"all":true,"dry_run":true,"no_further_attempt":true}"#;
    let found = bench.post("/v1/namespaces/a/cancel", body).await.expect(200);
    assert_eq!((&found["cancelled"], &found["stopped"]), (&json!(0), &json!(1)), "{found}");
    let body = r#"{"all":true,"no_further_attempt":true}"#;
    let done = bench.post("/v1/namespaces/a/cancel", body).await.expect(200);
    assert_eq!((&done["stopped"], &done["skipped"]), (&json!(1), &json!(0)), "{done}");
    let body = r#"{"operations":[{"cancel":{"id":"u","no_further_attempt":true}}]}"#;
    let batch = bench.post("/v1/namespaces/a/batch", body).await.expect(200);
    let again = &batch["results"][0];
    assert_eq!((&again["outcome"], &again["already"]), (&json!("in_flight"), &json!(true)));
}

#[tokio::test]
async fn a_lost_lease_is_told_of() {
    let bench = Bench::new();
    bench.timer_in("t", "in_flight").await;
    bench.advance(31);
    let timer = bench.get(&format!("{TIMERS}/t")).await.expect(200);
    assert_eq!(timer["state"], "retrying");
    assert_eq!(timer["history"][0]["outcome"], "lease_lost");
    assert_eq!(timer["maybe_delivered"], true);
    let cancelled = bench.call("DELETE", &format!("{TIMERS}/t"), "").await.expect(200);
    assert_eq!(cancelled, json!({"outcome":"cancelled","attempts":1,"maybe_delivered":true}));
}

#[tokio::test]
async fn fire_means_now() {
    let bench = Bench::new();
    bench.timer_in("t", "scheduled").await;
    let path = format!("{TIMERS}/t/fire");
    let fired = bench.post(&path, "{}").await.expect(200);
    assert_eq!((&fired["state"], &fired["revision"]), (&json!("due"), &json!(2)));
    let again = bench.post(&path, "").await.expect(200);
    assert_eq!(again["revision"], 2);
    assert_eq!(bench.tokens().await.len(), 1);
    let running = bench.post(&path, "").await.expect(200);
    assert_eq!((&running["state"], &running["revision"]), (&json!("in_flight"), &json!(2)));
}

#[tokio::test]
async fn a_list_comes_in_order_and_in_pages() {
    let bench = Bench::new();
    for (id, delay, tag) in [("c", 3, "x"), ("a", 1, "y"), ("b", 2, "x"), ("ab", 1, "x")] {
        let body = format!(r#"{{"id":"{id}","delay":"{delay}h","tags":["{tag}"]}}"#);
        bench.schedule(&body).await.expect(201);
    }
    let ids = |filter: &'static str| {
        let bench = &bench;
        async move {
            let page = bench.get(&format!("{TIMERS}?{filter}")).await.expect(200);
            let timers = page["timers"].as_array().unwrap().clone();
            let ids: Vec<String> =
                timers.iter().map(|t| t["id"].as_str().unwrap().into()).collect();
            ids.join(" ")
        }
    };
    assert_eq!(ids("").await, "a ab b c");
    assert_eq!(ids("tag=x").await, "ab b c");
    assert_eq!(ids("id_prefix=a").await, "a ab");
    assert_eq!(ids("due_from=2030-03-17T19:46:40Z&due_to=1900010800000").await, "b");
    assert_eq!(ids("state=scheduled&limit=1000").await, "a ab b c");
    assert_eq!(ids("state=dead").await, "");

    let mut seen = Vec::new();
    let mut path = format!("{TIMERS}?limit=1");
    loop {
        let page = bench.get(&path).await.expect(200);
        let timers = page["timers"].as_array().unwrap().clone();
        seen.extend(timers.iter().map(|t| t["id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["cursor"].as_str() else {
            break;
        };
        let other = bench.get(&format!("{TIMERS}?tag=x&cursor={cursor}")).await;
        assert_eq!(other.problem("invalid_argument")["field"], "cursor");
        path = format!("{TIMERS}?limit=1&cursor={cursor}");
    }
    assert_eq!(seen, ["a", "ab", "b", "c"]);
}

#[tokio::test]
async fn an_ended_timer_tells_its_history() {
    let bench = Bench::new();
    bench.timer_in("d", "dead").await;
    let dead = bench.get(&format!("{TIMERS}/d")).await.expect(200);
    assert_eq!(dead["last_error"], "broken");
    assert_eq!(dead["dead_reason"], "rejected");
    assert_eq!(dead["history"][0]["attempt"], 1);
    assert_eq!(dead["history"][0]["outcome"], "rejected");
    assert_eq!(dead["history"][0]["reason"], "broken");
    bench.timer_in("f", "finished").await;
    let tombstone = bench.get(&format!("{TIMERS}/f")).await.expect(200);
    assert_eq!(tombstone["tombstone"], true);
    assert_eq!(tombstone["finished_at"], "2030-03-17T17:46:40.000Z");
    assert_eq!(tombstone["history"][0]["outcome"], "delivered");
}

#[tokio::test]
async fn a_summary_lists_timers_without_their_content() {
    let bench = Bench::new();
    let body = r#"{"id":"t","delay":"1h","payload":1,"headers":{"x-a":"1"},"tags":["red"]}"#;
    bench.schedule(body).await.expect(201);
    let page = bench.get(&format!("{TIMERS}?view=summary")).await.expect(200);
    let summary = &page["timers"][0];
    assert_eq!((&summary["id"], &summary["tags"]), (&json!("t"), &json!(["red"])));
    for field in ["payload", "headers", "history"] {
        assert!(summary.get(field).is_none(), "{summary}");
    }
    let full = bench.get(&format!("{TIMERS}?view=full")).await.expect(200);
    assert_eq!(
        (&full["timers"][0]["payload"], &page["timers"][0]["revision"]),
        (&json!(1), &json!(1))
    );
    let refused = bench.get(&format!("{TIMERS}?view=brief")).await;
    assert_eq!(refused.problem("invalid_argument")["allowed"], "full or summary");
}
