//! Three masters, each with a coordinator shard, and nodes: the effects of the loss of a master.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use duly_redis_testkit::{cluster::Cluster, server::tell};

use super::nodes::agree;
use crate::harness::{DEADLINE, Server};

/// Time for which a node acts after the last heartbeat that a majority has acknowledged.
const ACTS_FOR: Duration = Duration::from_millis(1_500);

/// Starts three masters without replicas: each continues when another one fails.
fn masters() -> Cluster {
    let cluster = Cluster::start(3, 0);
    for master in &cluster.masters {
        let set = tell(master.port(), "CONFIG SET cluster-require-full-coverage no");
        assert_eq!(set, "+OK");
    }
    cluster
}

/// Leases firings until none came for a while and the wanted ids are among them.
fn leased(node: &Server, wanted: &BTreeSet<String>) -> BTreeSet<String> {
    let (mut leased, deadline) = (BTreeSet::new(), Instant::now() + DEADLINE);
    while !wanted.is_subset(&leased) && Instant::now() < deadline {
        let ran = node.run(&["--output", "json", "lease", "n", "--max", "50", "--wait", "500ms"]);
        let Ok(answer) = serde_json::from_str::<serde_json::Value>(&ran.stdout) else {
            continue;
        };
        let firings = answer["firings"].as_array().cloned().unwrap_or_default();
        leased.extend(firings.iter().filter_map(|firing| firing["id"].as_str().map(str::to_owned)));
    }
    leased
}

#[test]
fn the_loss_of_any_one_master_stops_only_its_own_shards() {
    for lost in 0..3 {
        let mut cluster = masters();
        let nodes = [Server::on_store(&cluster.url()), Server::on_store(&cluster.url())];
        agree(&[&nodes[0], &nodes[1]], 2);
        let ids: Vec<String> = (0..24).map(|i| format!("t{i}")).collect();
        for id in &ids {
            nodes[0].run(&["schedule", "n", id, "--in", "0"]).ok();
        }
        cluster.masters[lost].kill();
        let killed = Instant::now();
        let mut there = BTreeSet::new();
        for id in &ids {
            if nodes[0].run(&["get", "n", id]).code == Some(0) {
                there.insert(id.clone());
            }
        }
        assert!((8..24).contains(&there.len()), "{} of 24 on the others", there.len());
        // By now nodes that needed the lost master would have stopped.
        std::thread::sleep(ACTS_FOR.saturating_sub(killed.elapsed()));
        for node in &nodes {
            let health = node.run(&["health"]);
            assert_eq!(health.code, Some(0), "without master {lost} it acts: {health:?}");
        }
        let leased = leased(&nodes[1], &there);
        assert_eq!(leased, there, "without master {lost}");
        let cluster = nodes[1].json(&["cluster"]);
        assert_eq!(cluster["nodes"].as_array().map(Vec::len), Some(2), "{cluster}");
    }
}

/// Returns the number of commands that nodes have sent to a server so far: scripts, and commands outside
/// of scripts.
fn sent(port: u16) -> u64 {
    let info = tell(port, "INFO commandstats");
    let of = |command: &str| {
        let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
        let calls = line.and_then(|line| line.split_once("calls=")?.1.split(',').next());
        calls.and_then(|calls| calls.parse::<u64>().ok()).unwrap_or(0)
    };
    let scripts = of("evalsha") + of("eval");
    // Each script asks for the time once.
    let times = of("time").saturating_sub(scripts);
    scripts + times + ["ping", "wait", "cluster|slots", "script|load"].map(of).iter().sum::<u64>()
}

#[test]
fn three_idle_nodes_send_at_most_200_commands_a_second() {
    let cluster = masters();
    let nodes: Vec<_> = (0..3).map(|_| Server::on_store(&cluster.url())).collect();
    agree(&nodes.iter().collect::<Vec<_>>(), 3);
    let all = || cluster.masters.iter().map(|master| sent(master.port())).sum::<u64>();
    // After a change of the members, nodes check for a while who holds leases.
    std::thread::sleep(Duration::from_secs(3));
    let (before, began) = (all(), Instant::now());
    std::thread::sleep(Duration::from_secs(10));
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let a_second = (all() - before) as f64 / began.elapsed().as_secs_f64();
    println!("{a_second:.0} commands a second");
    assert!(a_second <= 200.0, "{a_second:.0} commands a second");
    // Heartbeats alone are 36 commands per second.
    assert!(a_second > 36.0, "{a_second:.0} commands a second");
}
