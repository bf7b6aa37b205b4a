//! Redis servers that fail while a node runs, and return.

use std::{collections::BTreeSet, time::Instant};

use duly_redis_testkit::{cluster::Cluster, server};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{DEADLINE, Server};

/// Returns the readiness of the node.
fn readiness(node: &Server) -> Value {
    let ran = node.run(&["--output", "json", "health"]);
    let text = if ran.stdout.trim().is_empty() { ran.stderr } else { ran.stdout };
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "it never came that {what}");
    }
}

#[test]
fn p1_node_recovers_by_itself_after_a_redis_outage() {
    let mut redis = server::Server::start(&[]);
    let node = Server::on_store(&redis.url());
    node.run(&["schedule", "n", "before", "--in", "1s"]).ok();
    redis.kill();
    // The first call may have been on its way when the server stopped: then its outcome is unknown.
    until("the store is known to be away", || {
        let ran = node.run(&["--output", "json", "schedule", "n", "away", "--in", "1h"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        ran.stderr.contains(r#""code":"unavailable""#)
    });
    let ran = node.run(&["--output", "json", "schedule", "n", "never", "--in", "1h"]);
    let problem: Value = serde_json::from_str(&ran.stderr).expect("a problem");
    assert_eq!((ran.code, &problem["code"]), (Some(1), &"unavailable".into()), "{problem}");
    assert!(problem["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{problem}");
    until("it says that it is not ready", || {
        let said = readiness(&node).to_string();
        said.contains(&format!("127.0.0.1:{} does not reply", redis.port()))
    });
    redis.start_again();
    // A call is refused until the server has loaded its data.
    until("it is ready again", || node.run(&["health"]).code == Some(0));
    let leased = node.until(&["lease", "n"], |leased| leased["firings"][0]["id"] == "before");
    assert_eq!(leased["firings"][0]["attempt"], 1);
    node.run(&["get", "n", "never"]).refused(1);
}

#[test]
fn hanging_redis_is_detected_and_used_again() {
    let redis = server::Server::start(&[]);
    let node = Server::on_store(&redis.url());
    node.run(&["schedule", "n", "before", "--in", "0"]).ok();
    let pid = redis.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let signal = |signal| kill_process(pid.expect("it runs"), signal).expect("it is there");
    signal(Signal::STOP);
    until("it says that it is not ready", || {
        readiness(&node).to_string().contains("does not reply: no reply for")
    });
    signal(Signal::CONT);
    until("it is ready again", || node.run(&["health"]).code == Some(0));
    node.until(&["lease", "n"], |leased| leased["firings"][0]["id"] == "before");
}

#[test]
fn p1_failover_keeps_replica_confirmed_changes() {
    let mut cluster = Cluster::start(3, 1);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("duly.toml");
    let text = format!(
        "[store]\nurl = \"{}\"\nshards = 16\nmin_replicas = 1\nreplication_timeout = \"500ms\"\n",
        cluster.url()
    );
    std::fs::write(&file, text).expect("written");
    let args = ["serve", "--listen", "127.0.0.1:0", "--config", crate::harness::text(&file)];
    let node = Server::with(&args);
    let mut acknowledged = BTreeSet::new();
    let schedule =
        |node: &Server, id: &str| node.run(&["schedule", "n", id, "--in", "1h"]).is_accepted();
    for i in 0..60 {
        let id = format!("a{i}");
        if schedule(&node, &id) {
            acknowledged.insert(id);
        }
    }
    assert_eq!(acknowledged.len(), 60, "with all servers there every one is answered");
    cluster.masters[0].kill();
    // The new master has no replica itself: changes are made, and no replica confirms them.
    until("a replica has taken over", || {
        let ran = |id: &str| node.run(&["--output", "json", "schedule", "n", id, "--in", "1h"]);
        let codes: Vec<_> = (0..12).map(|i| ran(&format!("b{i}"))).collect();
        let is_served = |ran: &crate::harness::Ran| {
            ran.is_accepted() || ran.stderr.contains("not all required copies")
        };
        codes.iter().all(is_served)
    });
    cluster.masters[0].start_again();
    for i in 0..60 {
        let id = format!("b{i}");
        until("its shard has a replica again", || schedule(&node, &id));
        acknowledged.insert(id);
    }
    until("it is ready again", || node.run(&["health"]).code == Some(0));
    let listed = node.json(&["list", "n", "--limit", "1000"]);
    let listed: BTreeSet<_> = listed["timers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|timer| timer["id"].as_str().expect("an id").to_owned())
        .collect();
    assert_eq!(listed, acknowledged);
}
