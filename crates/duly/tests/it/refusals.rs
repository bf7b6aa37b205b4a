//! The text of a refusal is the same over HTTP and gRPC, and on every store.

use std::{collections::BTreeMap, time::Duration};

use duly_client::{
    Client, Code, DeadLetterError, Error, PurgeRequest, RedriveRequest, Reschedule, Schedule,
};
use duly_redis_testkit::server;
use serde_json::{Value, json};

use crate::harness::{self, Server};

/// Longest delay that a timer may have.
const DELAY_MAX: Duration = Duration::from_secs(200 * 366 * 86_400);

/// A call that is refused, over HTTP and over gRPC.
#[derive(Debug, Clone, Copy)]
enum Call {
    /// A schedule of the id `t`, this long from now, with a payload of this many bytes.
    Schedule(Duration, usize),
    /// A change of the due time.
    Reschedule(Duration),
    /// A change of the due time if the timer has this revision.
    RescheduleIf(u32),
    Cancel,
    CancelIf(u32),
    Fire,
    Redrive,
    Purge,
}

/// Limits of the namespace, the state of the timer `t` before the call, and the call.
type Case = (&'static str, Value, &'static str, Call);

fn cases() -> Vec<Case> {
    let soon = Duration::from_secs(60);
    let free = || json!({});
    let mut cases = vec![
        (
            "a delay",
            json!({"namespace": {"max_delay": "1h"}}),
            "absent",
            Call::Schedule(2 * 60 * soon, 0),
        ),
        (
            "a longer delay",
            json!({"namespace": {"max_delay": "1h"}}),
            "scheduled",
            Call::Reschedule(2 * 60 * soon),
        ),
        ("a delay past 2200", free(), "absent", Call::Schedule(DELAY_MAX, 0)),
        (
            "a payload",
            json!({"namespace": {"max_payload_bytes": 9}}),
            "absent",
            Call::Schedule(soon, 10),
        ),
        ("one more", json!({"namespace": {"max_pending": 1}}), "one", Call::Schedule(soon, 0)),
        (
            "too fast",
            json!({"namespace": {"schedule_per_second": 1}}),
            "one",
            Call::Schedule(soon, 0),
        ),
        ("a revision", free(), "scheduled", Call::RescheduleIf(9)),
        ("another revision", free(), "scheduled", Call::CancelIf(9)),
        ("redriving another", free(), "scheduled", Call::Redrive),
        ("purging another", free(), "scheduled", Call::Purge),
    ];
    for state in ["absent", "in_flight", "finished", "dead", "cancelled"] {
        for (what, call) in [
            ("reschedule", Call::Reschedule(soon)),
            ("cancel", Call::Cancel),
            ("fire", Call::Fire),
            ("schedule", Call::Schedule(soon, 0)),
        ] {
            let is_done = matches!(
                (state, what),
                ("absent" | "cancelled", "schedule")
                    | ("cancelled", "cancel")
                    | ("in_flight", "fire")
            );
            if !is_done {
                cases.push((what, free(), state, call));
            }
        }
    }
    cases
}

/// Calls the server over HTTP; returns the JSON of the response.
fn http(url: &str, method: &str, path: &str, body: &Value) -> Value {
    let text = harness::http(url, method, path, &[], &body.to_string());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Creates the namespace, and brings its timer to the state.
fn set_up(url: &str, namespace: &str, limits: &Value, state: &str) {
    let base = format!("/v1/namespaces/{namespace}");
    http(url, "PUT", &base, &json!({ "limits": limits }));
    let id = if state == "one" { "other" } else { "t" };
    let delay = if matches!(state, "scheduled" | "cancelled" | "one") { "1h" } else { "0s" };
    if state == "absent" {
        return;
    }
    let made = http(url, "POST", &format!("{base}/timers"), &json!({"id": id, "delay": delay}));
    assert_eq!(made["id"], id, "{made}");
    match state {
        "scheduled" | "one" => {}
        "cancelled" => drop(http(url, "DELETE", &format!("{base}/timers/t"), &json!({}))),
        _ => {
            let wanted = json!({"max": 1, "wait": "20s"});
            let leased = http(url, "POST", &format!("{base}/lease"), &wanted);
            let token = &leased["firings"][0]["token"];
            let settled = match state {
                "finished" => json!({"settlements": [{"token": token, "ack": {}}]}),
                "dead" => json!({"settlements": [{"token": token, "dead": {"reason": "no"}}]}),
                _ => return,
            };
            let settled = http(url, "POST", &format!("{base}/settle"), &settled);
            assert_eq!(settled["results"][0]["outcome"], "ok", "{settled}");
        }
    }
}

fn over_http(url: &str, namespace: &str, call: Call) -> Value {
    let base = format!("/v1/namespaces/{namespace}");
    let timer = format!("{base}/timers/t");
    // In Duly's own spelling: a refusal over HTTP repeats the caller's text, and protobuf has no
    // spelling.
    let delay = |delay: Duration| json!(Schedule::after(delay).delay);
    match call {
        Call::Schedule(after, bytes) => {
            let body = json!({"id": "t", "delay": delay(after), "payload_text": "x".repeat(bytes)});
            http(url, "POST", &format!("{base}/timers"), &body)
        }
        Call::Reschedule(after) => http(url, "PATCH", &timer, &json!({"delay": delay(after)})),
        Call::RescheduleIf(revision) => {
            http(url, "PATCH", &timer, &json!({"delay": "1m", "if_revision": revision}))
        }
        Call::Cancel => http(url, "DELETE", &timer, &json!({})),
        Call::CancelIf(revision) => {
            http(url, "DELETE", &format!("{timer}?if_revision={revision}"), &json!({}))
        }
        Call::Fire => http(url, "POST", &format!("{timer}/fire"), &json!({})),
        Call::Redrive | Call::Purge => {
            let what = if matches!(call, Call::Redrive) { "redrive" } else { "purge" };
            let done = http(url, "POST", &format!("{base}/dead/{what}"), &json!({"ids": ["t"]}));
            done["errors"][0]["error"].clone()
        }
    }
}

async fn over_grpc(client: &Client, namespace: &str, call: Call) -> Option<Error> {
    let result = match call {
        Call::Schedule(after, bytes) => {
            let schedule = Schedule::after(after).with_id("t").with_text("x".repeat(bytes));
            client.schedule(namespace, schedule).await.map(drop)
        }
        Call::Reschedule(after) => {
            client.reschedule(namespace, "t", Reschedule::after(after)).await.map(drop)
        }
        Call::RescheduleIf(revision) => {
            let change = Reschedule::after(Duration::from_secs(60)).with_if_revision(revision);
            client.reschedule(namespace, "t", change).await.map(drop)
        }
        Call::Cancel => client.cancel(namespace, "t").await.map(drop),
        Call::CancelIf(revision) => client.cancel_if(namespace, "t", revision).await.map(drop),
        Call::Fire => client.fire(namespace, "t").await.map(drop),
        Call::Redrive => {
            let done = client.redrive(namespace, RedriveRequest::ids(["t"])).await;
            return done.map_or_else(Some, |done| refused(done.errors));
        }
        Call::Purge => {
            let done = client.purge(namespace, PurgeRequest::ids(["t"])).await;
            return done.map_or_else(Some, |done| refused(done.errors));
        }
    };
    result.err()
}

/// Returns the error of the one dead letter that was named.
fn refused(errors: Vec<DeadLetterError>) -> Option<Error> {
    errors.into_iter().next()?.error.map(Error::from)
}

/// Returns a text without its times.
fn without_times(text: &str) -> String {
    let is_time = |word: &str| word.len() > 20 && word.starts_with("20") && word.contains('T');
    let words = text.split(' ').map(|word| match word.trim_end_matches([':', ',']) {
        bare if is_time(bare) => word.replace(bare, "TIME"),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns all refusals of a server, by case.
fn refusals(server: &Server) -> BTreeMap<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let client = runtime.block_on(async { Client::new(&server.url) }).expect("a URL");
    // Shorter than the wait of any refusal: so the client does not repeat the call.
    let client = client.with_timeout(Duration::from_millis(500)).expect("a timeout").unbatched();
    let mut texts = BTreeMap::new();
    for (number, (what, limits, state, call)) in cases().into_iter().enumerate() {
        let namespace = format!("case-{number}");
        set_up(&server.url, &namespace, &limits, state);
        let problem = over_http(&server.url, &namespace, call);
        let detail = problem["detail"].as_str();
        let detail = detail.unwrap_or_else(|| panic!("{what} of {state}: {problem}"));
        // A loaded machine may need longer than this timeout; a refused call changes nothing, so it is made again.
        let asked =
            std::iter::repeat_with(|| runtime.block_on(over_grpc(&client, &namespace, call)));
        let is_answer = |answer: &Option<Error>| {
            answer.as_ref().is_none_or(|error| error.code() != Code::DeadlineExceeded)
        };
        let refused = asked.take(50).find(is_answer).flatten();
        let Some(Error::Refused(refusal)) = refused else {
            panic!("{what} of {state}, over gRPC: {refused:?}")
        };
        assert_eq!(problem["code"], refusal.code.as_str(), "{what} of {state}");
        // A field has the path of its message as a prefix.
        let message = ["schedule.", "reschedule.", "cancel."]
            .iter()
            .fold(refusal.problem.detail.clone(), |text, path| text.replacen(path, "", 1));
        assert_eq!(without_times(&message), without_times(detail), "{what} of {state}");
        texts.insert(format!("{number}: {what} of {state}"), without_times(detail));
    }
    texts
}

#[test]
fn every_refusal_reads_the_same_on_every_store_and_interface() {
    let embedded = refusals(&Server::start());
    let redis = server::Server::start(&[]);
    let shared = refusals(&Server::on_store(&redis.url()));
    for (case, text) in &embedded {
        assert_eq!(shared[case], *text, "{case}");
    }
    assert_eq!(embedded.len(), shared.len());
    let text = |part: &str| {
        let found = embedded.iter().find(|(case, _)| case.ends_with(part));
        found.unwrap_or_else(|| panic!("there is no case {part:?}")).1.as_str()
    };
    assert_eq!(
        text("a delay of absent"),
        "delay must be at most 1h from now (limits.namespace.max_delay of namespace case-0); got \"2h\""
    );
    assert_eq!(
        text("one more of one"),
        "namespace case-4 has 1 pending timers, its limit: cancel some, wait until some have fired, \
         or raise limits.namespace.max_pending (action namespace)"
    );
    assert!(text("cancel of absent").starts_with("there is no timer \"t\" in namespace case-"));
    assert!(text("fire of dead").starts_with("timer \"t\" is a dead letter: "));
}
