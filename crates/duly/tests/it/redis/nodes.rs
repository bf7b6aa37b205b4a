//! Several nodes of one deployment, and their view of each other.

use duly_redis_testkit::{cluster::Cluster, server};
use rustix::process::Signal;

use super::keys::until;
use crate::harness::{Server, duly};

#[test]
fn a_timer_scheduled_at_one_node_fires_once_at_another() {
    let cluster = Cluster::start(3, 0);
    let (one, two) = (Server::on_store(&cluster.url()), Server::on_store(&cluster.url()));
    for i in 0..50 {
        one.run(&["schedule", "orders", &format!("t{i}"), "--in", "300ms"]).ok();
    }
    assert_eq!(two.json(&["get", "orders", "t7"])["id"], "t7");
    one.run(&["schedule", "orders", "gone", "--in", "1h"]).ok();
    assert_eq!(two.json(&["cancel", "orders", "gone"])["outcome"], "cancelled");
    let mut fired = Vec::new();
    for node in [&one, &two].into_iter().cycle() {
        let leased = node.json(&["lease", "orders", "--max", "10", "--wait", "1s"]);
        let firings = leased["firings"].as_array().expect("a list");
        for firing in firings {
            let token = firing["token"].as_str().expect("a token");
            // A verdict is valid at the other node too.
            let other = if std::ptr::eq(node, &raw const one) { &two } else { &one };
            other.run(&["settle", "orders", token, "--ack"]).ok();
            fired.push(firing["id"].as_str().expect("an id").to_owned());
        }
        if fired.len() >= 50 {
            break;
        }
    }
    fired.sort();
    fired.dedup();
    assert_eq!(fired.len(), 50, "each once: {fired:?}");
    for node in [&one, &two] {
        let stats = node.json(&["namespace", "stats", "orders"]);
        assert_eq!((&stats["pending"], &stats["totals"]["delivered"]), (&0.into(), &50.into()));
    }
}

#[test]
fn p1_acknowledged_changes_survive_kill_9_of_node_and_redis() {
    let mut redis = server::Server::start(&[]);
    let url = redis.url();
    let mut node = Server::on_store(&url);
    let mut opening = node.opening.clone();
    while !opening.last().is_some_and(|line| line.contains("duly schedule")) {
        opening.push(node.process.line());
    }
    let opening = opening.join("\n");
    let place = format!("data in {url} (64 shards), opened in");
    assert!(opening.contains(&place) && opening.contains("0 pending"), "{opening}");
    node.run(&["schedule", "n", "far", "--in", "1h", "--payload", r#"{"a": 1.0}"#]).ok();
    node.run(&["schedule", "n", "gone", "--in", "1h"]).ok();
    node.run(&["cancel", "n", "gone"]).ok();
    node.run(&["schedule", "n", "near", "--in", "0"]).ok();
    let before = node.run(&["--output", "json", "get", "n", "far"]).ok();
    node.process.signal(Signal::KILL);
    node.process.ended();
    redis.kill();
    redis.start_again();
    let node = Server::on_store(&url);
    assert_eq!(node.run(&["--output", "json", "get", "n", "far"]).ok(), before);
    assert_eq!(node.json(&["get", "n", "gone"])["state"], "cancelled");
    assert_eq!(node.json(&["lease", "n", "--wait", "20s"])["firings"][0]["id"], "near");
}

#[test]
fn signal_drains_a_node_and_others_take_over() {
    let redis = server::Server::start(&[]);
    let (mut one, two) = (Server::on_store(&redis.url()), Server::on_store(&redis.url()));
    one.run(&["schedule", "n", "x", "--in", "0"]).ok();
    one.process.signal(Signal::TERM);
    let (status, stderr) = one.process.ended();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert_eq!(two.json(&["lease", "n", "--wait", "20s"])["firings"][0]["id"], "x");
}

/// Returns the members that a node sees, with their number of shards.
fn members(node: &Server, arguments: &[&str]) -> Vec<(String, u64)> {
    let cluster = node.json(&[&["cluster"], arguments].concat());
    let nodes = cluster["nodes"].as_array().expect("a list");
    let of = |node: &serde_json::Value| {
        let run = node["member_id"].as_str().expect("a member id").to_owned();
        (run, node["shards"].as_u64().expect("a number"))
    };
    nodes.iter().map(of).collect()
}

/// Waits until the nodes see this many members that share all shards.
pub(super) fn agree(nodes: &[&Server], count: usize) {
    agree_with(nodes, count, &[]);
}

/// Waits until the nodes see this many members that share all shards; the commands have these arguments.
pub(super) fn agree_with(nodes: &[&Server], count: usize, arguments: &[&str]) {
    for _ in 0..600 {
        let seen: Vec<_> = nodes.iter().map(|node| members(node, arguments)).collect();
        let all = |members: &[(String, u64)]| {
            members.len() == count && members.iter().map(|(_, shards)| shards).sum::<u64>() == 64
        };
        let alike = seen.windows(2).all(|two| two[0].len() == two[1].len());
        if alike && seen.iter().all(|members| all(members)) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!(
        "they do not agree: {:?}",
        nodes.iter().map(|node| members(node, arguments)).collect::<Vec<_>>()
    );
}

/// Waits until every node calls every shard; the commands have these arguments.
///
/// Each node ends the fault of a master or shard at its own next trial, so one node may refuse a change for a second
/// after another node has made one.
pub(super) fn every_node_calls_every_shard(nodes: &[Server], arguments: &[&str]) {
    until("every node calls every shard", || {
        nodes.iter().all(|node| {
            let health = node.run(&[&["--output", "json", "health"], arguments].concat());
            // `the keys …` warns of a rollback.
            health.code == Some(0) && !health.json()["warnings"].to_string().contains("\"shard ")
        })
    });
}

#[test]
fn t15_deployment_lists_members_and_evicts_killed_ones() {
    let redis = server::Server::start(&[]);
    let (mut one, two) = (Server::on_store(&redis.url()), Server::on_store(&redis.url()));
    agree(&[&one, &two], 2);
    let shown = two.run(&["cluster"]).ok();
    assert!(shown.contains("(answers)") && shown.contains("SHARDS"), "{shown}");
    one.process.signal(Signal::KILL);
    one.process.ended();
    agree(&[&two], 1);
}

#[test]
fn backup_is_refused_with_a_remedy() {
    let redis = server::Server::start(&[]);
    let node = Server::on_store(&redis.url());
    let message = node.run(&["store", "backup", "/tmp/backup"]).refused(1);
    for part in ["permission_denied", "makes no backups", "Redis", "duly export"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn unused_keys_with_a_shared_store_are_reported() {
    let redis = server::Server::start(&[]);
    let url = redis.url();
    let place = [("DULY_STORE__URL", url.as_str()), ("DULY_STORE__DATA", "/srv/duly")];
    let checked = duly().args(["config", "check"]).envs(place).output().expect("duly starts");
    let warning = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && warning.contains("store.data (environment"), "{warning}");
    let mut command = duly();
    command.args(["serve", "--listen", "127.0.0.1:0"]).envs(place);
    let mut node = crate::harness::Process::of(command);
    node.address();
    node.signal(Signal::TERM);
    let (_, stderr) = node.ended();
    assert!(stderr.contains("store.data (environment variable DULY_STORE__DATA)"), "{stderr}");
}
