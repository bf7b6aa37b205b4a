//! The table of api.md: the response to a POST of an existing id.

use crate::bench::{Answer, Bench, request};

/// A test for each row: state of the old timer, kind of the POST, status, and `existing`, `replaced` or
/// the code.
macro_rules! rows {
    ($($name:ident: $state:literal $post:literal => $status:literal $answer:literal;)*) => {$(
        #[tokio::test]
        async fn $name() {
            row($state, $post, $status, $answer).await;
        }
    )*};
}

rows! {
    p6_scheduled_gets_the_same_request: "scheduled" "same" => 200 "existing";
    p6_scheduled_gets_another_request: "scheduled" "fail" => 409 "already_exists";
    p6_scheduled_gets_keep: "scheduled" "keep" => 200 "existing";
    p6_scheduled_gets_replace: "scheduled" "replace" => 200 "replaced";
    p6_scheduled_gets_an_equal_restart: "scheduled" "restart" => 200 "replaced";
    p6_due_gets_the_same_request: "due" "same" => 200 "existing";
    p6_due_gets_another_request: "due" "fail" => 409 "already_exists";
    p6_due_gets_keep: "due" "keep" => 200 "existing";
    p6_due_gets_replace: "due" "replace" => 200 "replaced";
    p6_due_gets_an_equal_restart: "due" "restart" => 200 "replaced";
    p6_retrying_gets_the_same_request: "retrying" "same" => 200 "existing";
    p6_retrying_gets_another_request: "retrying" "fail" => 409 "already_exists";
    p6_retrying_gets_keep: "retrying" "keep" => 200 "existing";
    p6_retrying_gets_replace: "retrying" "replace" => 200 "replaced";
    p6_retrying_gets_an_equal_restart: "retrying" "restart" => 200 "replaced";
    p6_in_flight_gets_the_same_request: "in_flight" "same" => 200 "existing";
    p6_in_flight_gets_another_request: "in_flight" "fail" => 409 "already_exists";
    p6_in_flight_gets_keep: "in_flight" "keep" => 200 "existing";
    p6_in_flight_gets_replace: "in_flight" "replace" => 409 "in_flight";
    p6_in_flight_gets_an_equal_restart: "in_flight" "restart" => 409 "in_flight";
    p6_finished_gets_the_same_request: "finished" "same" => 200 "existing";
    p6_finished_gets_another_request: "finished" "fail" => 409 "finished";
    p6_finished_gets_keep: "finished" "keep" => 200 "existing";
    p6_finished_gets_replace: "finished" "replace" => 201 "";
    p6_finished_gets_an_equal_restart: "finished" "restart" => 201 "";
    p6_cancelled_gets_the_same_request: "cancelled" "same" => 201 "";
    p6_cancelled_gets_another_request: "cancelled" "fail" => 201 "";
    p6_cancelled_gets_keep: "cancelled" "keep" => 201 "";
    p6_cancelled_gets_replace: "cancelled" "replace" => 201 "";
    p6_cancelled_gets_an_equal_restart: "cancelled" "restart" => 201 "";
    p6_dead_gets_the_same_request: "dead" "same" => 409 "dead";
    p6_dead_gets_another_request: "dead" "fail" => 409 "dead";
    p6_dead_gets_keep: "dead" "keep" => 200 "existing";
    p6_dead_gets_replace: "dead" "replace" => 201 "";
    p6_dead_gets_an_equal_restart: "dead" "restart" => 201 "";
}

async fn row(state: &str, post: &str, status: u16, answer: &str) {
    let what = format!("{state} {post}");
    let bench = Bench::new();
    bench.timer_in("t", state).await;
    let old = bench.get("/v1/namespaces/a/timers/t").await.expect(200);
    let delay = match state {
        "scheduled" | "cancelled" => "1h",
        _ => "0s",
    };
    let body = match post {
        "same" => format!(r#"{{"id":"t","delay":"{delay}"}}"#),
        "restart" => format!(r#"{{"id":"t","delay":"{delay}","if_exists":"restart"}}"#),
        how => format!(r#"{{"id":"t","delay":"2h","if_exists":"{how}"}}"#),
    };
    let got = bench.schedule(&body).await;
    assert_eq!(got.status.as_u16(), status, "{what}: {}", got.text);
    if status == 409 {
        let problem = got.problem(answer);
        assert_eq!(problem["state"], state, "{what}");
        let has_lease = problem.get("leased_until").is_some();
        assert_eq!(has_lease, state == "in_flight", "{what}: {problem}");
        return;
    }
    let timer = got.json();
    for mark in ["existing", "replaced"] {
        assert_eq!(timer.get(mark).is_some(), mark == answer, "{what}: {timer}");
    }
    match answer {
        "existing" => assert_eq!(timer["due_at"], old["due_at"], "{what}"),
        "replaced" => {
            let revision = old["revision"].as_u64().unwrap();
            assert_eq!(timer["revision"], revision + 1, "{what}");
            assert_ne!(timer["delivery_id"], old["delivery_id"], "{what}");
        }
        _ => {
            assert_eq!(timer["revision"], 1, "{what}");
            assert_ne!(timer["delivery_id"], old["delivery_id"], "{what}");
        }
    }
}

#[tokio::test]
async fn p6_if_exists_is_not_part_of_the_request() {
    let bench = Bench::new();
    bench.schedule(r#"{"id":"t","delay":"1h"}"#).await.expect(201);
    for how in ["fail", "keep", "replace"] {
        let body = format!(r#"{{"id":"t","delay":"1h","if_exists":"{how}"}}"#);
        let timer = bench.schedule(&body).await.expect(200);
        assert_eq!(timer["existing"], true, "{how}: {timer}");
    }
}

/// Makes a call with an `Idempotency-Key`.
async fn with_key(bench: &Bench, path: &str, key: &str, body: &str) -> Answer {
    let mut request = request("POST", path, body);
    request.headers_mut().insert("idempotency-key", key.parse().unwrap());
    bench.send(request).await
}

#[tokio::test]
async fn p6_an_idempotency_key_is_the_id_of_a_timer_without_one() {
    let bench = Bench::new();
    let timers = "/v1/namespaces/a/timers";
    let body = r#"{"delay":"1h","payload":1}"#;
    let made = with_key(&bench, timers, "8e03978e-40d5", body).await.expect(201);
    assert_eq!(made["id"], "8e03978e-40d5");
    // A repetition makes no second timer, in the quotes of RFC 8941 too.
    for key in ["8e03978e-40d5", "\"8e03978e-40d5\""] {
        let again = with_key(&bench, timers, key, body).await.expect(200);
        assert_eq!(again["existing"], true);
    }
    let other = with_key(&bench, timers, "8e03978e-40d5", r#"{"delay":"2h"}"#).await;
    other.problem("already_exists");
    // The id in the body stands above it, and other ids are no keys.
    let own = with_key(&bench, timers, "8e03978e-40d5", r#"{"id":"own","delay":"1h"}"#).await;
    assert_eq!(own.expect(201)["id"], "own");
    let problem = with_key(&bench, timers, "", body).await.problem("invalid_argument");
    assert_eq!(problem["field"], "idempotency-key");
    let page = bench.get(timers).await.expect(200);
    assert_eq!(page["timers"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_idempotency_key_without_effect_gets_a_notice() {
    let bench = Bench::new();
    bench.timer_in("t", "scheduled").await;
    for (path, body, condition) in [
        (
            "/v1/namespaces/a/batch",
            r#"{"operations":[]}"#,
            Some(", unless every item has an id of its own"),
        ),
        ("/v1/namespaces/a/timers/t/fire", "", Some("")),
        ("/v1/namespaces/a/lease", "{}", Some("")),
        (
            "/v1/namespaces/a/settle",
            r#"{"settlements":[],"lease":{}}"#,
            Some(", if it has a lease"),
        ),
        // A repetition does no harm.
        ("/v1/namespaces/a/pause", "", None),
        ("/v1/namespaces/a/timers", r#"{"delay":"1h"}"#, None),
    ] {
        let answer = with_key(&bench, path, "k", body).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.text);
        let notice = answer.headers.get("duly-notice").map(|it| it.to_str().unwrap());
        let said = condition.map(|condition| {
            format!(
                "idempotency-key has no effect on this call: repeated, it may act again{condition}"
            )
        });
        assert_eq!(notice, said.as_deref(), "{path}");
    }
}

#[tokio::test]
async fn p6_of_equal_calls_with_restart_only_the_last_counts() {
    let bench = Bench::new();
    let body = r#"{"id":"t","delay":"1h","if_exists":"restart"}"#;
    let mut due = Vec::new();
    for _ in 0..4 {
        due.push(bench.schedule(body).await.json()["due_at"].clone());
        bench.advance(60);
    }
    let timer = bench.get("/v1/namespaces/a/timers/t").await.expect(200);
    assert_eq!((&timer["due_at"], &timer["revision"]), (&due[3], &4.into()));
    due.dedup();
    assert_eq!(due.len(), 4, "each call started the time again: {due:?}");
}

#[tokio::test]
async fn a_call_that_changes_nothing_says_why() {
    let bench = Bench::new();
    let said = |got: &Answer| {
        let notice = got.headers.get("duly-notice").map(|it| it.to_str().unwrap().to_owned());
        (got.json()["unchanged"].as_str().map(str::to_owned), notice)
    };
    let made = bench.schedule(r#"{"id":"t","delay":"1h"}"#).await;
    assert_eq!(said(&made).0, None);
    let due_at = made.json()["due_at"].as_str().unwrap().to_owned();
    for how in ["fail", "replace"] {
        let body = format!(r#"{{"id":"t","delay":"1h","if_exists":"{how}"}}"#);
        let (reason, notice) = said(&bench.schedule(&body).await);
        assert_eq!(reason.as_deref(), Some("same_request"), "{how}");
        let expected = format!(
            "nothing changed: the same request made this timer, due at {due_at}; if_exists \"restart\" \
             starts its time again"
        );
        assert_eq!(notice, Some(expected), "{how}");
    }
    let (reason, notice) =
        said(&bench.schedule(r#"{"id":"t","delay":"2h","if_exists":"keep"}"#).await);
    assert_eq!(reason.as_deref(), Some("kept"));
    assert!(notice.unwrap().contains("if_exists is \"keep\""));
    let fire = async || bench.call("POST", "/v1/namespaces/a/timers/t/fire", "").await;
    assert_eq!(said(&fire().await), (None, None));
    let (reason, notice) = said(&fire().await);
    assert_eq!(reason.as_deref(), Some("already_due"));
    assert_eq!(notice.as_deref(), Some("nothing changed: the timer is due already"));
}

#[tokio::test]
async fn a_lease_of_a_namespace_that_pushes_says_so() {
    let bench = Bench::new();
    let to = r#"{"destination":{"http":{"url":"http://93.184.215.14/secret-path"}}}"#;
    bench.call("PUT", "/v1/namespaces/pushed", to).await.expect(201);
    bench.call("PUT", "/v1/namespaces/pulled", "{}").await.expect(201);
    let expected = "pushed delivers to a webhook: only timers with the destination pull are leased";
    for (name, expected) in [("pushed", Some(expected)), ("pulled", None)] {
        for (call, body) in [("lease", "{}"), ("settle", r#"{"settlements":[],"lease":{}}"#)] {
            let got = bench.call("POST", &format!("/v1/namespaces/{name}/{call}"), body).await;
            let notice = got.headers.get("duly-notice").map(|it| it.to_str().unwrap());
            assert_eq!(notice, expected, "{name} {call}: {}", got.text);
        }
    }
    let pull = r#"{"id":"t","delay":0,"destination":{"pull":{}}}"#;
    bench.call("POST", "/v1/namespaces/pushed/timers", pull).await.expect(201);
    let got = bench.call("POST", "/v1/namespaces/pushed/lease", r#"{"wait":"10s"}"#).await;
    assert_eq!(got.headers.get("duly-notice"), None, "{}", got.text);
    assert_eq!(got.json()["firings"][0]["id"], "t");
}
