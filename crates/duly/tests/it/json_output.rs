//! `--output json` prints timers and firings exactly as HTTP returns them, byte for byte.

use crate::harness::{self, Server, file_of, text};

/// Returns the body of the server's response over HTTP.
fn http(server: &Server, method: &str, path: &str, body: &str) -> String {
    harness::http(&server.url, method, &format!("/v1/namespaces/n/{path}"), &[], body)
}

/// Returns the JSON that a command prints, on stdout or stderr.
fn printed(server: &Server, args: &[&str]) -> String {
    let ran = server.run(&[&["--output", "json"], args].concat());
    let text = if ran.code == Some(1) { ran.stderr } else { ran.stdout };
    text.trim_end_matches('\n').to_owned()
}

fn token(server: &Server) -> String {
    let leased = server.json(&["lease", "n", "--wait", "20s", "--lease", "1h"]);
    leased["firings"][0]["token"].as_str().expect("a firing").to_owned()
}

#[track_caller]
fn same(server: &Server, args: &[&str], path: &str) -> String {
    let printed = printed(server, args);
    assert_eq!(printed, http(server, "GET", path, ""), "{args:?}");
    printed
}

#[test]
fn timer_json_equals_the_http_response_in_every_state() {
    let server = Server::start();
    let secret = file_of("secret\n");
    let authorization = format!("authorization:@{}", text(secret.path()));
    let all = [
        "schedule",
        "n",
        "all",
        "--in",
        "1h",
        "--payload",
        r#"{"b": 1.50,"a":[1e3]}"#,
        "--tag",
        "vip",
        "--tag",
        "b",
        "--header",
        "x-b: 2",
        "--header",
        "x-a:1",
        "--slot-key",
        "k",
        "--expire-after",
        "90m",
        "--url",
        "http://127.0.0.1:9/hook",
        "--url-header",
        &authorization,
        "--url-header",
        "x-c:3",
        "--max-attempts",
        "3",
        "--min-backoff",
        "1500ms",
        "--multiplier",
        "2.5",
    ];
    let made = printed(&server, &all);
    assert_eq!(made, http(&server, "GET", "timers/all", ""), "as scheduled");
    let printed_again = printed(&server, &all);
    assert!(
        printed_again
            .contains(r#""state":"scheduled","existing":true,"unchanged":"same_request","due_at""#)
    );
    let change = ["reschedule", "n", "all", "--retry-delays", "1s,1m", "--payload-text", "ä\n"];
    assert_eq!(printed(&server, &change), http(&server, "GET", "timers/all", ""));
    let shown = same(&server, &["get", "n", "all"], "timers/all");
    for part in [
        r#""payload_text":"ä\n""#,
        r#""headers":{"x-b":"2","x-a":"1"}"#,
        r#""http":{"url":"http://127.0.0.1:9/hook","method":"POST""#,
        r#""authorization":"***""#,
        r#""delays":["1s","1m"]"#,
        r#""expire_after":"1h30m""#,
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    let bytes = ["schedule", "n", "bytes", "--in", "1h", "--payload-file", "-", "--pull"];
    server.run_with_stdin(&bytes, &[0xff, 0]).ok();
    same(&server, &["get", "n", "bytes"], "timers/bytes");
    server.run(&["schedule", "n", "retried", "--in", "0"]).ok();
    let retry = ["settle", "n", &token(&server), "--retry", "--after", "1h", "--reason", "busy"];
    server.run(&retry).ok();
    same(&server, &["get", "n", "retried"], "timers/retried");
    server.run(&["schedule", "n", "dead", "--in", "0"]).ok();
    server.run(&["settle", "n", &token(&server), "--dead", "--reason", "no"]).ok();
    same(&server, &["get", "n", "dead"], "timers/dead");
    server.run(&["schedule", "n", "done", "--in", "0"]).ok();
    let held = token(&server);
    same(&server, &["get", "n", "done"], "timers/done");
    server.run(&["settle", "n", &held, "--ack"]).ok();
    same(&server, &["get", "n", "done"], "timers/done");
    // A timer whose lease is lost may have been delivered.
    server.run(&["schedule", "n", "lost", "--in", "0"]).ok();
    server.json(&["lease", "n", "--wait", "20s", "--lease", "1s"]);
    server.until(&["get", "n", "lost"], |timer| timer["state"] == "retrying");
    let lost = same(&server, &["get", "n", "lost"], "timers/lost");
    assert!(lost.contains(r#""maybe_delivered":true"#), "{lost}");
    server.run(&["cancel", "n", "bytes"]).ok();
    same(&server, &["get", "n", "bytes"], "timers/bytes");

    same(&server, &["list", "n"], "timers?limit=100");
    same(&server, &["dead", "list", "n"], "timers?state=dead&limit=100");
    same(&server, &["list", "n", "--state", "finished"], "timers?state=finished&limit=100");
    same(&server, &["list", "n", "--limit", "1"], "timers?limit=1");
    let narrow =
        ["list", "n", "--tag", "vip", "--id-prefix", "a", "--due-to", "2199-01-01T00:00:00Z"];
    let listed =
        same(&server, &narrow, "timers?tag=vip&id_prefix=a&due_to=2199-01-01T00:00:00Z&limit=100");
    assert!(listed.contains(r#""id":"all""#), "{listed}");
}

#[test]
fn lease_settle_and_cancel_json_equals_the_http_response() {
    let server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "0", "--payload", "[1 ]", "--header", "a:b"]).ok();
    let first = server.json(&["lease", "n", "--wait", "20s"]);
    let firing = &first["firings"][0];
    let keys: Vec<_> = firing.as_object().expect("a firing").keys().cloned().collect();
    let back =
        ["settle", "n", firing["token"].as_str().expect("a token"), "--retry", "--after", "0"];
    assert_eq!(printed(&server, &back), r#"{"results":[{"outcome":"ok"}]}"#);
    let second = http(&server, "POST", "lease", r#"{"wait":"20s"}"#);
    let second: serde_json::Value = serde_json::from_str(&second).expect("JSON");
    let same: Vec<_> =
        second["firings"][0].as_object().expect("a firing").keys().cloned().collect();
    assert_eq!(keys, same);
    assert_eq!(second["firings"][0]["payload"], firing["payload"]);
    assert_eq!(printed(&server, &["lease", "n"]), http(&server, "POST", "lease", "{}"));

    server.run(&["schedule", "n", "once", "--in", "0", "--max-attempts", "1"]).ok();
    let last = ["settle", "n", &self::token(&server), "--retry"];
    assert_eq!(printed(&server, &last), r#"{"results":[{"outcome":"dead"}]}"#);

    // Refusals of one settlement, of a cancel, of a schedule, of a change, of a call.
    let token = second["firings"][0]["token"].as_str().expect("a token");
    let long = ["settle", "n", token, "--extend", "13h"];
    let body = format!(r#"{{"settlements":[{{"token":"{token}","extend":{{"lease":"13h"}}}}]}}"#);
    let ran = server.run(&[&["--output", "json"], &long[..]].concat());
    assert_eq!(ran.stdout.trim_end(), http(&server, "POST", "settle", &body));
    let cancel = printed(&server, &["cancel", "n", "x"]);
    assert!(cancel.contains(r#""outcome":"in_flight""#), "{cancel}");
    for (args, method, path, body) in [
        (&["cancel", "n", "x"][..], "DELETE", "timers/x", ""),
        (&["cancel", "n", "none"], "DELETE", "timers/none", ""),
        (&["schedule", "n", "x", "--in", "1h"], "POST", "timers", r#"{"id":"x","delay":"1h"}"#),
        (
            &["schedule", "n", "y", "--in", "1h", "--tag", ""],
            "POST",
            "timers",
            r#"{"id":"y","delay":"1h","tags":[""]}"#,
        ),
        (
            &["reschedule", "n", "x", "--in", "1h", "--if-revision", "9"],
            "PATCH",
            "timers/x",
            r#"{"delay":"1h","if_revision":9}"#,
        ),
        (&["fire", "n", "none"], "POST", "timers/none/fire", ""),
        (&["lease", "n", "--lease", "1ms"], "POST", "lease", r#"{"lease":"1ms"}"#),
        (&["list", "n", "--cursor", "x"], "GET", "timers?cursor=x&limit=100", ""),
        (&["cancel", "n", "--tag", ""], "POST", "cancel", r#"{"filter":{"tag":""}}"#),
        (
            &["dead", "redrive", "n", "--all", "--per-second", "0"],
            "POST",
            "dead/redrive",
            r#"{"all":true,"per_second":0}"#,
        ),
        (&["cancel", "n", "--all"], "POST", "cancel", r#"{"all":true}"#),
    ] {
        assert_eq!(printed(&server, args), http(&server, method, path, body), "{args:?}");
    }
}
