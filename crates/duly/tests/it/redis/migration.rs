//! A move from a server with a directory to nodes on a Cluster, as in docs/operate/cluster.md.

use duly_redis_testkit::cluster::Cluster;
use serde_json::Value;

use crate::harness::{Server, text};

/// Returns every timer of a state, with all its fields.
fn all(server: &Server, state: &str) -> Vec<Value> {
    let list = server.json(&["list", "orders", "--state", state, "--limit", "1000"]);
    let ids = list["timers"].as_array().expect("a list").iter();
    let mut timers: Vec<Value> = ids
        .map(|timer| server.json(&["get", "orders", timer["id"].as_str().expect("an id")]))
        .collect();
    timers.sort_by_key(|timer| timer["id"].to_string());
    timers
}

#[test]
fn p7_p11_a_server_moves_to_nodes_with_all_that_is_in_it() {
    let old = Server::start();
    old.run(&["namespace", "put", "orders", "--retention", "2h", "--max-in-flight", "7"]).ok();
    let lines: String = (0..300)
        .map(|i| {
            let payload = match i % 3 {
                0 => format!("\"payload\":{{\"n\": {i}.0}}"),
                1 => format!("\"payload_text\":\"{}\"", "é".repeat(i)),
                _ => "\"payload_base64\":\"AP+A\"".to_owned(),
            };
            format!("{{\"schedule\":{{\"id\":\"t{i:03}\",\"delay\":\"{}m\",{payload}}}}}\n", 60 + i)
        })
        .collect();
    old.run_with_stdin(&["batch", "orders"], lines.as_bytes()).ok();
    for (id, verdict) in
        [("dead", ["--dead", "--reason", "gone"]), ("retry", ["--retry", "--after", "1h"])]
    {
        old.run(&["schedule", "orders", id, "--in", "0", "--payload", "[1, 2.50]"]).ok();
        let leased = old.json(&["lease", "orders", "--wait", "20s"]);
        let token = leased["firings"][0]["token"].as_str().expect("a token").to_owned();
        old.run(&[&["settle", "orders", &token][..], &verdict].concat()).ok();
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("all.ndjson");
    old.run(&["export", "--all", "--to", text(&file), "--drain"]).ok();

    let cluster = Cluster::start(3, 0);
    let (node, other) = (Server::on_store(&cluster.url()), Server::on_store(&cluster.url()));
    let import = ["import", text(&file), "--create-namespaces"];
    let said = node.run(&import).ok();
    assert!(said.contains("302 imported, 0 existing"), "{said}");
    let said = other.run(&import).ok();
    assert!(said.contains("0 imported, 302 existing"), "again changes nothing: {said}");
    for state in ["scheduled", "retrying", "dead"] {
        let (was, is) = (all(&old, state), all(&other, state));
        assert_eq!(was.len(), is.len(), "{state}");
        for (was, is) in was.iter().zip(&is) {
            assert_eq!(was, is, "{state}");
        }
    }
    for id in ["t000", "t001", "t002", "retry"] {
        let raw = |server: &Server| server.run(&["get", "orders", id, "--output", "json"]).ok();
        assert_eq!(raw(&old), raw(&node), "byte for byte");
    }
    let counts = |server: &Server| {
        let stats = server.json(&["namespace", "stats", "orders"]);
        ["scheduled", "retrying", "dead", "pending"].map(|name| stats[name].clone())
    };
    assert_eq!(counts(&old), counts(&node));
    let settings = |server: &Server| {
        let namespace = server.json(&["namespace", "get", "orders"]);
        [namespace["retention"].clone(), namespace["limits"]["lane"]["max_in_flight"].clone()]
    };
    assert_eq!(settings(&old), settings(&node));
}
