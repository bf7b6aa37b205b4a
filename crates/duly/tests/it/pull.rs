//! `duly lease` and `duly settle`.

use serde_json::Value;

use crate::harness::Server;

fn token(leased: &Value) -> String {
    leased["firings"][0]["token"].as_str().expect("a firing").to_owned()
}

#[test]
fn a_leased_firing_is_acknowledged_once() {
    let server = Server::start();
    assert_eq!(server.run(&["lease", "n"]).code, Some(1), "no such namespace");
    server.run(&["schedule", "n", "x", "--in", "100ms", "--payload-text", "hello"]).ok();
    let leased = server.json(&["lease", "n", "--wait", "20s"]);
    assert_eq!(leased["firings"][0]["id"], "x");
    assert_eq!(leased["firings"][0]["payload_text"], "hello");
    let token = token(&leased);
    assert_eq!(server.run(&["settle", "n", &token, "--ack"]).ok(), "ok\n");
    assert_eq!(server.run(&["settle", "n", &token, "--ack"]).ok(), "already_settled\n");
    assert_eq!(server.run(&["lease", "n"]).ok(), "none\n");
    assert_eq!(server.json(&["get", "n", "x"])["state"], "finished");
}

#[test]
fn firing_is_retried_extended_and_dead_lettered() {
    let server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "0"]).ok();
    let first = token(&server.json(&["lease", "n", "--wait", "20s"]));
    let retry = ["settle", "n", &first, "--retry", "--after", "0", "--reason", "busy"];
    assert_eq!(server.run(&retry).ok(), "ok\n");
    let leased = server.json(&["lease", "n", "--wait", "20s", "--lease", "10s"]);
    assert_eq!(leased["firings"][0]["attempt"], 2);
    let second = token(&leased);
    assert_eq!(server.run(&["settle", "n", &second, "--extend", "1m"]).ok(), "ok\n");
    let stale = server.run(&["settle", "n", &first, "--ack"]);
    assert!(stale.refused(1).contains("lease_lost"));
    let dead = ["settle", "n", &second, "--dead", "--reason", "bad address"];
    server.run(&dead).ok();
    assert_eq!(server.json(&["get", "n", "x"])["state"], "dead");
    let unknown = server.run(&["settle", "n", "nonsense", "--ack"]);
    assert!(unknown.refused(1).contains("invalid_token"));
}

#[test]
fn lease_can_acknowledge_what_it_printed() {
    let server = Server::start();
    for id in ["a", "b"] {
        server.run(&["schedule", "n", id, "--in", "0"]).ok();
    }
    server.until(&["namespace", "stats", "n"], |stats| stats["due"] == 2);
    let table = server.run(&["lease", "n", "--max", "10", "--wait", "20s", "--ack"]).ok();
    assert!(table.contains("TOKEN"), "{table}");
    for id in ["a", "b"] {
        assert_eq!(server.json(&["get", "n", id])["state"], "finished");
    }
}
