//! `duly namespace`: `set`, `secret`, `lanes`, `pause` and `resume` at a time, fallback; `duly health`,
//! `duly metrics`.

use duly_redis_testkit::server::free_port;

use crate::harness::{Process, Server, file_of, run, text};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn set_changes_what_is_named_and_keeps_the_rest() {
    let server = Server::start();
    let set = |args: &[&str]| server.json(&[&["namespace", "set", "n"], args].concat());
    let message = server.run(&["namespace", "set", "n", "--weight", "2"]).refused(1);
    assert!(message.contains("`duly namespace put n`"), "{message}");
    let put = ["namespace", "put", "n", "--max-dead", "5", "--max-pending", "6", "--lease", "9s"];
    server.run(&[&put[..], &["--max-attempts", "3"]].concat()).ok();
    let settings = set(&["--max-dead", "7", "--min-backoff", "2s", "--deliver-per-second", "8"]);
    assert_eq!(settings["limits"]["namespace"]["max_dead"], 7);
    assert_eq!(settings["limits"]["namespace"]["max_pending"], 6);
    assert_eq!(settings["limits"]["lane"]["deliver_per_second"], 8);
    assert_eq!(settings["lease"], "9s");
    assert_eq!(settings["retry"]["max_attempts"], 3);
    assert_eq!(settings["retry"]["min_backoff"], "2s");
    let settings = set(&["--reset", "max_pending", "--reset", "lease", "--retry-delays", "1s,2s"]);
    assert!(settings["limits"]["namespace"].get("max_pending").is_none(), "{settings}");
    assert_eq!(settings["limits"]["namespace"]["max_dead"], 7);
    assert_eq!(settings["lease"], "30s");
    assert_eq!(settings["retry"]["delays"], serde_json::json!(["1s", "2s"]));
    let settings = set(&["--max-attempts", "4"]);
    assert_eq!(settings["retry"]["max_attempts"], 4);
    assert!(settings["retry"].get("delays").is_none(), "{settings}");
    for (args, part) in [
        (vec![], "nothing to change"),
        (vec!["--reset", "weight", "--weight", "2"], "--reset weight"),
        (vec!["--file", "x", "--reset", "weight"], "--file"),
        (vec!["--reset", "wait"], "max_retained"),
    ] {
        let args = [&["namespace", "set", "n"], args.as_slice()].concat();
        let ran = server.run(&args);
        // A file is read before any other check.
        if !args.contains(&"--file") {
            assert!(ran.refused(2).contains(part), "{args:?}");
        }
    }
}

#[test]
fn a_webhook_has_a_method_headers_a_time_out_and_a_fallback() {
    let secret = file_of("Bearer x\n");
    let authorization = format!("authorization:@{}", text(secret.path()));
    let server = Server::start();
    let put = [
        "namespace",
        "put",
        "n",
        "--url",
        "http://127.0.0.1:4000/a",
        "--url-method",
        "put",
        "--url-header",
        "x-b: 2",
        "--url-header",
        &authorization,
        "--url-timeout",
        "5s",
        "--fallback-url",
        "http://127.0.0.1:4001/b",
        "--fallback-after-attempts",
        "3",
        "--fallback-after-open",
        "2m",
        "--fallback-method",
        "PATCH",
    ];
    let settings = server.json(&put);
    let http = &settings["destination"]["http"];
    assert_eq!((&http["method"], &http["timeout"]), (&"PUT".into(), &"5s".into()));
    assert_eq!(
        (&http["headers"]["x-b"], &http["headers"]["authorization"]),
        (&"***".into(), &"***".into())
    );
    let fallback = &settings["fallback"];
    assert_eq!(fallback["destination"]["http"]["method"], "PATCH");
    assert_eq!((&fallback["after_attempts"], &fallback["after_open"]), (&3.into(), &"2m".into()));
    let stats = server.json(&["namespace", "stats", "n"]);
    assert_eq!(stats["fallback"]["breaker"], "closed");
    let gone = server.json(&["namespace", "set", "n", "--reset", "fallback"]);
    assert!(gone.get("fallback").is_none_or(serde_json::Value::is_null), "{gone}");
    for args in [
        &["--url-method", "PUT"][..],
        &["--fallback-after-open", "1m"],
        &["--url", "http://a", "--url-method", "GET"],
    ] {
        server.run(&[&["namespace", "put", "n"], args].concat()).refused(2);
    }
    // A timer can have its own destination and retry policy too.
    let timer = server.json(&[
        "schedule",
        "n",
        "x",
        "--in",
        "1h",
        "--url",
        "http://127.0.0.1:4000/c",
        "--url-timeout",
        "1s",
        "--max-attempts",
        "2",
        "--slot-key",
        "k",
    ]);
    assert_eq!(timer["destination"]["http"]["timeout"], "1s");
    assert_eq!((&timer["retry"]["max_attempts"], &timer["slot_key"]), (&2.into(), &"k".into()));
    let timer = server.json(&["reschedule", "n", "x", "--retry-delays", "3s"]);
    assert_eq!(timer["retry"]["delays"], serde_json::json!(["3s"]));
    let both = ["reschedule", "n", "x", "--retry-delays", "3s", "--reset", "retry"];
    assert!(server.run(&both).refused(2).contains("--reset retry"));
}

#[test]
fn a_paused_namespace_resumes_at_a_time() {
    let server = Server::start();
    server.run(&["namespace", "put", "n"]).ok();
    let late = "2100-01-01T00:00:00Z";
    let paused = server.run(&["namespace", "pause", "n", "--resume-at", late]).ok();
    assert!(paused.starts_with("n  paused, resumes 2100-01-01T00:00:00.000Z (in "), "{paused}");
    let listed = server.run(&["namespace", "list"]).ok();
    assert!(listed.contains("paused until 2100-01-01"), "{listed}");
    assert_eq!(server.run(&["namespace", "pause", "n"]).ok(), "n  paused\n");
    let resumed = server.run(&["namespace", "resume", "n", "--at", late]).ok();
    assert!(resumed.contains("paused, resumes 2100"), "{resumed}");
    let past = ["namespace", "pause", "n", "--resume-at", "2020-01-01T00:00:00Z"];
    assert!(server.run(&past).refused(2).contains("has passed"));
    assert_eq!(server.json(&["namespace", "get", "n"])["paused"], true);
    let past = server.run(&["namespace", "resume", "n", "--at", "2020-01-01T00:00:00Z"]).ok();
    assert_eq!(past, "n  resumed\n");
    assert_eq!(server.json(&["namespace", "get", "n"])["paused"], false);
}

#[test]
fn signing_secret_rotation_refuses_no_delivery() {
    let server = Server::start();
    server.run(&["namespace", "put", "n"]).ok();
    let none = server.run(&["namespace", "secret", "list", "n"]).ok();
    assert_eq!(none, "none: webhooks are not signed\n");
    let new = run(&["namespace", "secret", "new"]).ok();
    let new = new.trim();
    assert!(new.starts_with("whsec_"), "{new}");
    assert_ne!(run(&["namespace", "secret", "new"]).ok().trim(), new);
    let set = |secrets: &[&str], more: &[&str]| {
        let file = file_of(&secrets.join("\n"));
        let set = ["namespace", "secret", "set", "n", "--file", text(file.path())];
        server.run(&[&set, more].concat())
    };
    // Two receivers: one with the old secret alone, and one with the new secret alone.
    let receiver = |secret: &str| {
        let file = file_of(secret);
        let args = ["receive", "--listen", "127.0.0.1:0", "--secret-file", text(file.path())];
        let mut receiver = Process::start(&args);
        let (url, _) = receiver.address();
        (receiver, url)
    };
    let (mut knows_old, mut knows_new) = (receiver(OLD), receiver(new));
    let delivered = |(receiver, url): &mut (Process, String), said: &str| {
        let schedule = ["schedule", "n", "--in", "0", "--max-attempts", "1", "--url", url.as_str()];
        server.run(&schedule).ok();
        // The payload of the previous delivery is in between.
        let line = std::iter::repeat_with(|| receiver.line())
            .find(|line| line.contains("answered"))
            .expect("a process prints lines or the test ends");
        assert!(line.contains(said), "{line}");
    };
    let valid = "signature valid  answered 200";
    assert!(set(&[OLD], &[]).ok().contains("in use, new"));
    delivered(&mut knows_old, valid);
    delivered(&mut knows_new, "answered 401");
    let message = set(&[new], &[]).refused(1);
    assert!(message.contains("--at-once") && message.contains("together"), "{message}");
    delivered(&mut knows_old, valid);
    let both = set(&[new, OLD], &[]).ok();
    assert!(both.contains("in use, new") && both.lines().count() == 3, "{both}");
    delivered(&mut knows_old, valid);
    delivered(&mut knows_new, valid);
    assert!(set(&[new], &[]).ok().contains("no longer in use"));
    delivered(&mut knows_new, valid);
    delivered(&mut knows_old, "answered 401");
    let shown = server.json(&["namespace", "secret", "list", "n"]);
    assert_eq!(shown["signing_secret_fingerprints"].as_array().map(Vec::len), Some(1));
    let message = set(&[OLD, new, OLD], &[]).refused(1);
    assert!(message.contains("two during a rotation") && !message.contains("MfKQ"), "{message}");
    set(&[OLD], &["--at-once"]).ok();
    let cleared = server.run(&["namespace", "secret", "clear", "n"]).ok();
    assert!(cleared.contains("no longer in use"), "{cleared}");
    let message = set(&["hunter2"], &[]).refused(1);
    assert!(message.contains("whsec_") && !message.contains("hunter2"), "{message}");
}

#[test]
fn lanes_are_shown_with_what_they_do() {
    let server = Server::start();
    assert_eq!(server.run(&["namespace", "lanes", "n"]).code, Some(1), "no such namespace");
    server.run(&["schedule", "n", "x", "--in", "0"]).ok();
    server.until(&["namespace", "stats", "n"], |stats| stats["due"] == 1);
    let lanes = server.run(&["namespace", "lanes", "n"]).ok();
    assert!(lanes.contains("LANE") && lanes.contains("pull"), "{lanes}");
    assert_eq!(server.json(&["namespace", "lanes", "n"])["lanes"][0]["due"], 1);
    let stats = server.run(&["namespace", "stats", "n"]).ok();
    assert!(stats.contains("totals.scheduled") && stats.contains("LANE"), "{stats}");
}

#[test]
fn health_reports_readiness_and_waits_for_it() {
    let server = Server::start();
    assert_eq!(server.run(&["health"]).ok(), "ready\n");
    assert_eq!(server.json(&["health"])["status"], "ready");
    assert_eq!(server.run(&["health", "--alive"]).ok(), "alive\n");
    let nobody = run(&["--server", "http://127.0.0.1:9", "health"]).refused(1);
    assert!(nobody.contains("no Duly server answers"), "{nobody}");
    // A server that does not run yet is waited for.
    let address = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{address}");
    let mut waiting = Process::start(&["--server", &url, "health", "--wait", "30s"]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data");
    let _late = Process::start(&["serve", "--listen", &address, "--data", text(&data)]);
    assert_eq!(waiting.line(), "ready");
    assert!(waiting.ended().0.success());
}

#[test]
fn metrics_are_found_by_name() {
    let server = Server::start();
    let all = server.json(&["metrics"]);
    let all = all["metrics"].as_array().expect("a list");
    assert!(
        all.iter().any(|metric| metric["name"] == "duly_breakers" || metric["value"].is_number())
    );
    let some = server.run(&["metrics", "duly_"]).ok();
    assert!(
        some.contains("NAME") && some.lines().skip(1).all(|line| line.contains("duly_")),
        "{some}"
    );
    assert_eq!(server.run(&["metrics", "no_such_thing"]).ok(), "none\n");
}

#[test]
fn the_servers_openapi_document_is_printed() {
    let server = Server::start();
    assert_eq!(server.json(&["openapi"]), run(&["__openapi"]).json());
}
