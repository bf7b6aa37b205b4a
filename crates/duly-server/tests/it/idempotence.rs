//! The table of api.md: what a POST of an existing id gets.

use crate::bench::Bench;

/// State of the old one, what the POST is, status, and `existing`, `replaced` or the code.
const TABLE: &[(&str, &str, u16, &str)] = &[
    ("scheduled", "same", 200, "existing"),
    ("scheduled", "fail", 409, "already_exists"),
    ("scheduled", "keep", 200, "existing"),
    ("scheduled", "replace", 200, "replaced"),
    ("due", "same", 200, "existing"),
    ("due", "fail", 409, "already_exists"),
    ("due", "keep", 200, "existing"),
    ("due", "replace", 200, "replaced"),
    ("retrying", "same", 200, "existing"),
    ("retrying", "fail", 409, "already_exists"),
    ("retrying", "keep", 200, "existing"),
    ("retrying", "replace", 200, "replaced"),
    ("in_flight", "same", 200, "existing"),
    ("in_flight", "fail", 409, "already_exists"),
    ("in_flight", "keep", 200, "existing"),
    ("in_flight", "replace", 409, "in_flight"),
    ("finished", "same", 200, "existing"),
    ("finished", "fail", 409, "finished"),
    ("finished", "keep", 200, "existing"),
    ("finished", "replace", 201, ""),
    ("cancelled", "same", 201, ""),
    ("cancelled", "fail", 201, ""),
    ("cancelled", "keep", 201, ""),
    ("cancelled", "replace", 201, ""),
    ("dead", "same", 409, "dead"),
    ("dead", "fail", 409, "dead"),
    ("dead", "keep", 200, "existing"),
    ("dead", "replace", 201, ""),
];

#[tokio::test]
async fn p6_every_row_of_the_table() {
    for (state, post, status, answer) in TABLE {
        let what = format!("{state} {post}");
        let bench = Bench::new();
        bench.timer_in("t", state).await;
        let old = bench.get("/v1/namespaces/a/timers/t").await.expect(200);
        let delay = match *state {
            "scheduled" | "cancelled" => "1h",
            _ => "0s",
        };
        let body = match *post {
            "same" => format!(r#"{{"id":"t","delay":"{delay}"}}"#),
            how => format!(r#"{{"id":"t","delay":"2h","if_exists":"{how}"}}"#),
        };
        let got = bench.schedule(&body).await;
        assert_eq!(got.status.as_u16(), *status, "{what}: {}", got.text);
        if *status == 409 {
            let problem = got.problem(answer);
            assert_eq!(problem["state"], *state, "{what}");
            let has_lease = problem.get("leased_until").is_some();
            assert_eq!(has_lease, *state == "in_flight", "{what}: {problem}");
            continue;
        }
        let timer = got.json();
        for mark in ["existing", "replaced"] {
            assert_eq!(timer.get(mark).is_some(), mark == *answer, "{what}: {timer}");
        }
        match *answer {
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
}

#[tokio::test]
async fn p6_if_exists_is_not_part_of_the_request() {
    let bench = Bench::new();
    bench.schedule(r#"{"id":"t","delay":"1h"}"#).await.expect(201);
    for how in ["fail", "keep", "replace"] {
        let body = format!(r#"{{"id":"t","delay":3600000,"if_exists":"{how}"}}"#);
        let timer = bench.schedule(&body).await.expect(200);
        assert_eq!(timer["existing"], true, "{how}: {timer}");
    }
}
