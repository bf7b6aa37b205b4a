//! `duly top`: snapshots for scripts, and the screen.

use duly_redis_testkit::server::free_port;
use serde_json::Value;

use crate::{
    harness::{Server, run},
    terminal::{on_a_terminal, with_term},
};

const SHORT: [&str; 3] = ["top", "--interval", "200ms"];

#[test]
fn a_snapshot_counts_what_was_done() {
    let server = Server::start();
    for id in ["a", "b", "c"] {
        server.run(&["schedule", "n", id, "--in", "0"]).ok();
    }
    server.run(&["schedule", "n", "later", "--in", "1h"]).ok();
    server.run(&["schedule", "n", "never", "--in", "1h"]).ok();
    server.run(&["cancel", "n", "never"]).ok();
    server.run(&["schedule", "m", "x", "--in", "1h"]).ok();
    server.until(&["namespace", "stats", "n"], |stats| stats["due"] == 3);
    let leased = server.json(&["lease", "n", "--max", "2", "--wait", "20s"]);
    assert_eq!(leased["firings"].as_array().map(Vec::len), Some(2), "{leased}");
    let token = leased["firings"][0]["token"].as_str().expect("a token");
    server.run(&["settle", "n", token, "--ack"]).ok();

    let seen = server.json(&["top", "--once", "--interval", "200ms"]);
    assert_eq!(
        (&seen["ready"], &seen["version"]),
        (&true.into(), &env!("CARGO_PKG_VERSION").into())
    );
    for (name, count) in
        [("scheduled", 6.0), ("cancelled", 1.0), ("fired", 2.0), ("acknowledged", 1.0)]
    {
        assert_eq!(seen["totals"][name], count, "{name}: {seen}");
        assert_eq!(seen["per_second"][name], 0.0, "nothing happened meanwhile: {seen}");
    }
    for (name, count) in [("pending", 4), ("due", 1), ("in_flight", 1), ("dead", 0)] {
        assert_eq!(seen[name], count, "{name}: {seen}");
    }
    assert!(seen["interval_ms"].as_u64().is_some_and(|ms| ms >= 200), "{seen}");
    assert!(seen["lateness"].is_null(), "nothing fired in the interval: {seen}");
    let row = |place: usize| {
        let row = &seen["namespaces"][place];
        let count = |name: &str| row[name].as_u64().expect("a count");
        (row["name"].as_str().expect("a name"), count("pending"), count("due"), count("in_flight"))
    };
    assert_eq!((row(0), row(1)), (("n", 3, 1, 1), ("m", 1, 0, 0)), "most due comes first");
}

#[test]
fn without_a_terminal_the_requested_snapshots_are_printed() {
    let server = Server::start();
    let plain = server.run(&SHORT).ok();
    assert!(plain.starts_with("ready  http://") && plain.contains("NAMESPACE"), "{plain}");
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let many = [&SHORT[..], &["--count", "3", "--output", "ndjson"]].concat();
    let lines = server.run(&many).ok();
    let documents: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(documents.len(), 3, "{lines}");
    assert!(documents.iter().all(|document| document["ready"] == true), "{lines}");
}

#[test]
fn a_key_ends_the_screen_and_gives_the_terminal_back() {
    let server = Server::start();
    let (code, shown) = on_a_terminal(with_term(server.command(&["top"])), "q");
    assert_eq!(code, Some(0), "{shown:?}");
    assert!(shown.contains("q quit"), "{shown:?}");
    let entered = shown.find("\u{1b}[?1049h").expect("a screen of its own");
    let left = shown.find("\u{1b}[?1049l").expect("the one that was there");
    assert!(entered < left, "{shown:?}");
}

#[test]
fn unreachable_server_and_bad_interval_are_refused() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let message = run(&["--server", &url, "top", "--once"]).refused(1);
    assert!(message.contains("no Duly server answers"), "{message}");
    let message = run(&["top", "--interval", "100ms"]).refused(2);
    assert!(message.contains("200ms to 1m"), "{message}");
}
