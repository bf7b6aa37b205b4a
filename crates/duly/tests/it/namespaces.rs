//! `duly namespace`: `put`, `get`, `list`, `delete`, `pause`, `resume`, `stats`, `forecast`.

use crate::harness::{Process, Server, duly, file_of, run, text};

#[test]
fn settings_are_put_shown_and_listed() {
    let server = Server::start();
    assert_eq!(server.run(&["namespace", "list"]).ok(), "none\n");
    let secret = file_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let put = [
        "namespace",
        "put",
        "orders",
        "--url",
        "http://127.0.0.1:4000/hook",
        "--max-attempts",
        "3",
        "--min-backoff",
        "2s",
        "--retention",
        "1h",
        "--weight",
        "7",
        "--max-pending",
        "10",
        "--signing-secret-file",
        text(secret.path()),
    ];
    let shown = server.run(&put).ok();
    assert!(shown.contains("http://127.0.0.1:4000/hook"), "{shown}");
    assert!(!shown.contains("whsec_"), "{shown}");
    let settings = server.json(&["namespace", "get", "orders"]);
    assert_eq!(settings["retry"]["max_attempts"], 3);
    assert_eq!(settings["weight"], 7);
    assert_eq!(settings["limits"]["namespace"]["max_pending"], 10);
    let file = br#"{"lease":"5s","retry":{"delays":["1s","2s"]}}"#;
    server.run_with_stdin(&["namespace", "put", "mails", "--file", "-"], file).ok();
    assert_eq!(server.json(&["namespace", "get", "mails"])["lease"], "5s");
    let listed = server.json(&["namespace", "list"]);
    assert_eq!(listed["namespaces"][0]["name"], "mails");
    assert_eq!(listed["namespaces"][1]["name"], "orders");
    let table = server.run(&["namespace", "list"]).ok();
    assert!(table.contains("http://127.0.0.1:4000/hook"), "{table}");
    let wrong = ["namespace", "put", "orders", "--weight", "0"];
    assert!(server.run(&wrong).refused(1).contains("weight"));
}

#[test]
fn pause_holds_firings_until_resume() {
    let server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "0"]).ok();
    assert_eq!(server.run(&["namespace", "pause", "n"]).ok(), "n  paused\n");
    assert_eq!(server.run(&["lease", "n"]).ok(), "none: the namespace is paused\n");
    assert_eq!(server.run(&["namespace", "resume", "n"]).ok(), "n  resumed\n");
    let leased = server.json(&["lease", "n", "--wait", "20s"]);
    assert_eq!(leased["firings"][0]["id"], "x");
}

#[test]
fn stats_count_and_delete_needs_force() {
    let server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
    let stats = server.json(&["namespace", "stats", "n"]);
    assert_eq!((&stats["scheduled"], &stats["pending"]), (&1.into(), &1.into()));
    assert!(server.run(&["namespace", "stats", "n"]).ok().contains("totals.scheduled"));
    let message = server.run(&["namespace", "delete", "n"]).refused(1);
    assert!(message.contains("--force"), "{message}");
    let deleted = server.run(&["namespace", "delete", "n", "--force"]).ok();
    assert_eq!(deleted, format!("n  deleted at {}\n", server.url));
    assert!(server.run(&["namespace", "get", "n"]).refused(1).contains("not_found"));
}

#[test]
fn forecast_is_a_chart_or_json() {
    let server = Server::start();
    for (id, after) in [("now", "0"), ("soon", "1h"), ("late", "30d")] {
        server.run(&["schedule", "n", id, "--in", after]).ok();
    }
    let ask = ["namespace", "forecast", "n", "--bucket", "1d", "--count", "2"];
    let forecast = server.json(&ask);
    assert_eq!((&forecast["overdue"], &forecast["later"]), (&1.into(), &1.into()));
    assert_eq!(forecast["buckets"].as_array().map(Vec::len), Some(2));
    assert_eq!((&forecast["bucket"], &forecast["pending"]), (&"1d".into(), &3.into()));
    let drawn = server.run(&ask).ok();
    let lines: Vec<_> = drawn.lines().map(str::trim).collect();
    assert_eq!(lines.len(), 5, "{drawn}");
    assert!(lines[1].starts_with("overdue") && lines[1].contains('█'), "{drawn}");
    assert!(lines[4].starts_with("later") && lines[4].contains('█'), "{drawn}");
    let message = server.run(&["namespace", "forecast", "n", "--count", "1001"]).refused(1);
    assert!(message.contains("from 1 to 1000"), "{message}");
}

#[test]
fn a_schedule_that_makes_its_namespace_prints_a_note() {
    let server = Server::start();
    server.run(&["namespace", "put", "orders"]).ok();
    let made = server.run(&["schedule", "ordres", "a", "--in", "1h"]);
    let note =
        r#"note: there was no namespace "ordres": this call created it; there is "orders" too"#;
    assert_eq!(made.stderr.trim_end(), note);
    assert!(made.stdout.starts_with("a  scheduled"), "{}", made.stdout);
    assert_eq!(server.run(&["schedule", "ordres", "b", "--in", "1h"]).stderr, "");
}

#[test]
fn the_operator_sets_limits_of_namespaces_that_set_none() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let mut command = duly();
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        text(&directory.path().join("data")),
    ]);
    command.env("DULY_DEFAULTS__MAX_PENDING", "1").env("DULY_DEFAULTS__MAX_DEAD", "7");
    let mut process = Process::of(command);
    let (url, _) = process.address();
    let call = |arguments: &[&str]| run(&[arguments, &["--server", &url]].concat());
    let schedule = |name: &str, id: &str| call(&["schedule", name, id, "--in", "1h"]);
    schedule("implicit", "a").ok();
    assert!(schedule("implicit", "b").refused(1).contains("max_pending"));
    let limits = |name: &str| {
        let settings = call(&["namespace", "get", name, "--output", "json"]).json();
        let limits = &settings["limits"]["namespace"];
        (limits["max_pending"].clone(), limits["max_dead"].clone())
    };
    assert_eq!(limits("implicit"), (1.into(), 7.into()));
    call(&["namespace", "put", "put", "--max-pending", "3"]).ok();
    assert_eq!(limits("put"), (3.into(), 7.into()));
    call(&["namespace", "set", "put", "--reset", "limits"]).ok();
    assert_eq!(limits("put"), (1.into(), 7.into()));
}
