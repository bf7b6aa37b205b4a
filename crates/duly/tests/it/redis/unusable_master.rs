//! A master of a Cluster that cannot be used: empty, down, hung, rolled back, with a slot that is half moved. The
//! nodes that run and the nodes that start serve the shards of the other masters.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};

use duly_redis_testkit::{cluster::Cluster, server::tell};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::fault::{Fault, SILENCE, signal};
use crate::harness::{DEADLINE, Server, file_of, http, receiver, run, text};

/// Namespaces of a test, so that each master has coordinator shards of some.
const NAMESPACES: [&str; 6] = ["ns0", "ns1", "ns2", "ns3", "ns4", "ns5"];
/// Timers of a test in each namespace.
const EACH: usize = 12;
/// Wait of a lease call.
const WAIT: Duration = Duration::from_millis(500);
/// Longest start, in the nightly run and in CI, where other tests run beside this one.
const START_MAX: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(15)];
/// Longest time by which a lease call exceeds its wait.
const LONGER_MAX: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// Longest lateness in healthy shards.
const LATE_MAX: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(6)];

/// Returns the bound of this run.
fn bound([nightly, ci]: [Duration; 2]) -> Duration {
    if is_nightly() { nightly } else { ci }
}

fn is_nightly() -> bool {
    std::env::var_os("DULY_NIGHTLY").is_some()
}

/// Starts a Cluster whose healthy masters serve their slots whatever happens to the others.
fn cluster(replicas_each: u32) -> Cluster {
    let cluster = Cluster::start(3, replicas_each);
    for server in cluster.all() {
        assert_eq!(tell(server.port(), "CONFIG SET cluster-require-full-coverage no"), "+OK");
    }
    cluster
}

/// A timer of a test.
type Timer = (&'static str, String);

/// Schedules timers in every namespace. Returns those that were accepted.
fn schedule(node: &Server, prefix: &str) -> Vec<Timer> {
    let schedule =
        |i| serde_json::json!({ "schedule": { "id": format!("{prefix}{i}"), "delay": 0 } });
    let operations: Vec<_> = (0..EACH).map(schedule).collect();
    let body = serde_json::json!({ "operations": operations }).to_string();
    let accepted = NAMESPACES.into_iter().flat_map(|namespace| {
        let path = format!("/v1/namespaces/{namespace}/batch");
        let response = http(&node.url, "POST", &path, &[], &body);
        let response: Value = serde_json::from_str(&response).expect("JSON");
        let results = response["results"].as_array().cloned().unwrap_or_default().into_iter();
        let ids = results.filter_map(|it| Some(it["timer"]["id"].as_str()?.to_owned()));
        ids.map(|id| (namespace, id)).collect::<Vec<_>>()
    });
    accepted.collect()
}

/// Schedules the timers again until every one is accepted: a schedule that is repeated finds the timer.
fn schedule_all(node: &Server, prefix: &str) -> Vec<Timer> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let accepted = schedule(node, prefix);
        if accepted.len() == EACH * NAMESPACES.len() {
            return accepted;
        }
        assert!(Instant::now() < deadline, "only {accepted:?} are accepted");
    }
}

/// Leases in every namespace until all these timers have fired. Returns the duration of the longest call.
fn lease_all(node: &Server, mut expected: Vec<Timer>) -> Duration {
    let mut longest = Duration::ZERO;
    // A firing whose response was lost comes again when its lease of 30 s ends.
    let deadline = Instant::now() + 3 * DEADLINE;
    while !expected.is_empty() {
        assert!(Instant::now() < deadline, "not fired: {expected:?}");
        for namespace in NAMESPACES {
            let (ids, took) = lease(&node.url, namespace);
            longest = longest.max(took);
            expected.retain(|(other, id)| *other != namespace || !ids.contains(id));
        }
    }
    longest
}

/// Leases once with a wait of [`WAIT`]. Returns the ids of the firings, and the duration of the call.
fn lease(url: &str, namespace: &str) -> (Vec<String>, Duration) {
    let began = Instant::now();
    let wait = format!("{}ms", WAIT.as_millis());
    let call = ["--output", "json", "--server", url, "lease", namespace];
    let ran = run(&[&call[..], &["--max", "100", "--wait", &wait]].concat());
    let took = began.elapsed();
    let Ok(leased) = serde_json::from_str::<Value>(&ran.stdout) else {
        return (Vec::new(), took);
    };
    let firings = leased["firings"].as_array().expect("a list").iter();
    let id = |firing: &Value| firing["id"].as_str().expect("an id").to_owned();
    (firings.map(id).collect(), took)
}

/// Returns the places of the masters that get a fault: the nightly run takes every master.
fn places() -> std::ops::Range<usize> {
    0..if is_nightly() { 3 } else { 1 }
}

/// Starts a node while a master has a fault, and lets the new node and a node from before serve timers. In the nightly
/// run also a master with a replica, which takes over for one that is down, hangs or is busy, and for no other.
fn nodes_serve_beside(fault: Fault) {
    for place in places() {
        nodes_serve_beside_one(fault, place, fault.replicas());
        if places().len() > 1
            && fault.replicas() == 0
            && ![Fault::Down, Fault::Hung, Fault::Busy].contains(&fault)
        {
            nodes_serve_beside_one(fault, place, 1);
        }
    }
}

fn nodes_serve_beside_one(fault: Fault, place: usize, replicas_each: u32) {
    let (mut cluster, before) = (cluster(replicas_each), TempDir::new().expect("a directory"));
    let settings = fault.settings(&cluster);
    let running = Server::on_store_with(&cluster.url(), &settings);
    let accepted = schedule(&running, "before");
    assert_eq!(accepted.len(), EACH * NAMESPACES.len());
    cluster.masters[place].copy_data(before.path());
    lease_all(&running, accepted);
    if fault == Fault::RolledBack {
        // A shard that is behind by less counts as one whose last writes a failover lost.
        std::thread::sleep(Duration::from_secs(10));
    }
    fault.make(&mut cluster, place, before.path());
    if fault == Fault::RolledBack {
        waits_for_reason(&running, fault);
    }
    let began = Instant::now();
    let started = Server::on_store_with(&cluster.url(), &settings);
    let start = began.elapsed();
    let mut longest = Duration::ZERO;
    for (node, prefix) in [(&running, "running"), (&started, "started")] {
        let accepted = schedule(node, prefix);
        assert!(accepted.len() > 36, "of 72, and two masters of three: {}", accepted.len());
        longest = longest.max(lease_all(node, accepted));
    }
    eprintln!(
        "{fault:?}, master {place} with {replicas_each} replicas: start {start:.1?}, longest lease call {longest:.1?}"
    );
    assert!(start < bound(START_MAX), "{start:?}");
    assert!(longest < WAIT + bound(LONGER_MAX), "{longest:?}");
    for node in [&running, &started] {
        says_what_is_missing(node, fault);
        every_call_returns(node, fault);
    }
    if fault == Fault::Hung {
        signal(&cluster.masters[place], Signal::CONT);
        let (place, ids) = ("ns0", ["a", "b", "c", "d", "e", "f", "g", "h"]);
        let all_are_accepted = || {
            ids.iter().all(|id| started.run(&["schedule", place, id, "--in", "1h"]).is_accepted())
        };
        let deadline = Instant::now() + DEADLINE;
        while !all_are_accepted() {
            assert!(Instant::now() < deadline, "the master is not used again");
        }
    }
}

/// Calls every operation of the contract. Each returns, whatever its result, within the time of one call to a silent
/// server. `backup` and `repair` have a time limit of their own.
fn every_call_returns(node: &Server, fault: Fault) {
    let contract = include_str!("../../../../../contract/openapi.json");
    let contract: Value = serde_json::from_str(contract).expect("JSON");
    let mut calls: Vec<_> = contract["paths"]
        .as_object()
        .expect("paths")
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().expect("methods").iter().map(move |it| (path, it))
        })
        .filter(|(_, (_, it))| {
            ["usual", "lease"].map(Value::from).contains(&it["x-duly-time-limit"])
        })
        .map(|(path, (method, _))| (method.to_uppercase(), path))
        .collect();
    assert!(calls.len() > 35, "{calls:?}");
    // What a call removes is there for the others.
    calls.sort_by_key(|(method, _)| method == "DELETE");
    let mut slowest = (Duration::ZERO, String::new());
    for (method, path) in calls {
        let body = body_of(&method, path);
        let namespace = if method == "DELETE" { "ns9" } else { "ns0" };
        let path = path.replace("{namespace}", namespace).replace("{tenant}", "acme");
        let path =
            path.replace("{id}", if path.contains("/keys/") { "0123456789" } else { "late" });
        let began = Instant::now();
        let response = http(&node.url, &method, &path, &[], body);
        slowest = slowest.max((began.elapsed(), format!("{method} {path}")));
        assert!(
            !response.contains(r#""code":"invalid_argument""#),
            "{method} {path} {body}: {response}"
        );
    }
    eprintln!("{fault:?}: the slowest call took {:.1?} ({})", slowest.0, slowest.1);
    assert!(slowest.0 < WAIT + bound(LONGER_MAX), "{slowest:?}");
}

/// Returns a body that the operation takes.
fn body_of(method: &str, path: &str) -> &'static str {
    const SCHEDULE: &str = r#"{"id":"late","delay":"1h"}"#;
    match (method, path.rsplit('/').next()) {
        ("GET" | "DELETE", _) | (_, Some("pause" | "repair" | "fire" | "forget")) => "",
        ("POST", Some("keys")) => r#"{"name":"k","actions":["schedule"],"namespaces":["ns0"]}"#,
        ("POST", Some("timers")) => SCHEDULE,
        ("POST", Some("batch")) => r#"{"operations":[{"schedule":{"id":"later","delay":"1h"}}]}"#,
        ("POST", Some("import")) => r#"{"timers":[]}"#,
        ("POST", Some("lease")) => r#"{"wait":"500ms"}"#,
        ("POST", Some("settle")) => r#"{"settlements":[]}"#,
        ("POST", Some("cancel" | "redrive" | "purge")) => r#"{"all":true}"#,
        ("PUT", Some("{tenant}")) => r#"{"namespaces":["acme-*"]}"#,
        ("PATCH", Some("{namespace}")) => r#"{"lease":"40s"}"#,
        ("PATCH", Some("{id}")) if path.contains("/keys/") => r#"{"name":"renamed"}"#,
        ("PATCH", _) => r#"{"delay":"2h"}"#,
        _ => "{}",
    }
}

fn waits_for_reason(node: &Server, fault: Fault) {
    let deadline = Instant::now() + DEADLINE;
    while !node.run(&["--output", "json", "health"]).stdout.contains(fault.reason()) {
        assert!(Instant::now() < deadline, "the fault is not noticed");
    }
    let (name, reason) = ("duly_deployment_shards_unavailable", fault.gauge());
    let counts = node.json(&["metrics", name]);
    let of_reason = |metric: &&Value| metric["labels"]["reason"] == reason;
    let count = counts["metrics"].as_array().and_then(|all| all.iter().find(of_reason));
    assert!(count.is_some_and(|it| it["value"].as_u64() > Some(0)), "{reason}: {counts}");
}

/// Checks that the health, lists and counts of a node say which shards are missing.
fn says_what_is_missing(node: &Server, fault: Fault) {
    waits_for_reason(node, fault);
    if fault.has_reads() {
        return;
    }
    for namespace in NAMESPACES {
        let stats = node.json(&["namespace", "stats", namespace]);
        let missing = stats["unavailable_shards"].as_array().map_or(0, Vec::len);
        assert!((1..40).contains(&missing), "{stats}");
        let page = node.json(&["list", namespace]);
        assert_eq!(page["unavailable_shards"], stats["unavailable_shards"], "{page}");
        let listed = node.run(&["list", namespace]);
        assert_eq!(listed.code, Some(0), "{}", listed.stderr);
        assert!(listed.stderr.contains("timers are missing from the result"), "{}", listed.stderr);
    }
}

/// Gives a master a fault while timers fall due. Returns the lateness of the firings by pull and by webhook, and
/// the longest lease call.
fn lateness_beside(fault: Fault, place: usize) -> ([Vec<Duration>; 2], Duration) {
    const STEP: Duration = Duration::from_millis(200);
    const STEPS: u32 = 20;
    let mut cluster = cluster(fault.replicas());
    let node = Server::on_store_with(&cluster.url(), &fault.settings(&cluster));
    let (hook, heads) = receiver();
    let begin = Instant::now() + Duration::from_secs(8);
    let mut due_at = HashMap::new();
    for (n, namespace) in NAMESPACES.into_iter().enumerate() {
        let mut lines = String::new();
        for i in 0..STEPS {
            let (id, due) = (format!("t{i}"), begin + STEP * i);
            let delay = format!("{}ms", due.duration_since(Instant::now()).as_millis());
            let destination = match n % 2 {
                0 => serde_json::json!({ "pull": {} }),
                _ => serde_json::json!({ "http": { "url": hook } }),
            };
            let schedule =
                serde_json::json!({ "id": id, "delay": delay, "destination": destination });
            lines += &format!("{}\n", serde_json::json!({ "schedule": schedule }));
            due_at.insert((namespace.to_owned(), id), due);
        }
        let file = file_of(&lines);
        node.run(&["batch", namespace, "--file", text(file.path())]).ok();
    }
    assert!(Instant::now() < begin, "scheduling took too long for the test");
    let end = begin + STEP * STEPS + Duration::from_secs(6);
    let pulled = NAMESPACES.iter().step_by(2).map(|namespace| {
        let url = &node.url;
        move || {
            let (mut seen, mut longest) = (Vec::new(), Duration::ZERO);
            while Instant::now() < end {
                let (ids, took) = lease(url, namespace);
                longest = longest.max(took);
                let now = Instant::now();
                seen.extend(ids.into_iter().map(|id| ((namespace.to_string(), id), now)));
            }
            (seen, longest)
        }
    });
    let (pulled, pushed) = std::thread::scope(|scope| {
        let threads: Vec<_> = pulled.map(|pull| scope.spawn(pull)).collect();
        std::thread::sleep((begin + Duration::from_secs(1)).duration_since(Instant::now()));
        fault.make(&mut cluster, place, Path::new(""));
        let mut pushed = Vec::new();
        while let Ok(head) = heads.recv_timeout(end.saturating_duration_since(Instant::now())) {
            let value = |name: &str| {
                let line = head.lines().find_map(|line| line.strip_prefix(name));
                line.expect("a header").trim().to_owned()
            };
            let namespace = value("ce-source:").replace("/namespaces/", "");
            pushed.push(((namespace, value("ce-subject:")), Instant::now()));
        }
        let pulled: Vec<_> =
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect();
        (pulled, pushed)
    });
    if fault == Fault::Hung {
        signal(&cluster.masters[place], Signal::CONT);
    }
    let longest = pulled.iter().map(|(_, longest)| *longest).max().unwrap_or_default();
    let pulled = pulled.into_iter().flat_map(|(seen, _)| seen).collect::<Vec<_>>();
    let late = |seen: Vec<((String, String), Instant)>| {
        seen.iter().map(|(timer, at)| at.saturating_duration_since(due_at[timer])).collect()
    };
    ([late(pulled), late(pushed)], longest)
}

fn firings_are_late_at_most(fault: Fault, place: usize) {
    let (late, longest) = lateness_beside(fault, place);
    for (late, kind) in late.iter().zip(["pull", "webhook"]) {
        let worst = late.iter().max().copied().unwrap_or_default();
        eprintln!(
            "{fault:?}, master {place}: {} of 60 by {kind}, worst {worst:.1?}, longest call {longest:.1?}",
            late.len()
        );
        assert!(late.len() > 30, "two masters of three: {}", late.len());
        assert!(worst < bound(LATE_MAX), "{worst:?}");
    }
    assert!(longest < WAIT + bound(LONGER_MAX), "{longest:?}");
}

#[test]
fn nodes_serve_beside_an_empty_master() {
    nodes_serve_beside(Fault::Empty);
}

#[test]
fn shards_are_repaired_in_the_store_without_a_server() {
    let mut cluster = cluster(0);
    let node = Server::on_store_with(&cluster.url(), &SILENCE);
    schedule(&node, "before");
    drop(node);
    let master = &mut cluster.masters[0];
    master.kill();
    master.lose_data();
    master.start_again();
    cluster.wait_until_whole();
    let config =
        file_of(&format!("[store]\nurl = \"{}\"\nallow = [\"no_replicas\"]\n", cluster.url()));
    let config = text(config.path());
    // The shards of the first of three masters: by the warnings of a command that needs them.
    let node = Server::on_store_with(&cluster.url(), &SILENCE);
    // The node is ready once its first heartbeats are acknowledged.
    let deadline = Instant::now() + DEADLINE;
    while node.run(&["health"]).code != Some(0) {
        assert!(Instant::now() < deadline, "the node is not ready");
    }
    let health = node.json(&["health"]);
    let warning = health["warnings"][0].as_str().expect("a warning");
    let shards = warning.split("--shard ").nth(1).expect("shards").trim_end_matches('`').to_owned();
    drop(node);
    let repaired = run(&["store", "repair", "--shard", &shards, "--config", config]).ok();
    assert_eq!(repaired.lines().count(), shards.split(',').count(), "{repaired}");
    assert!(repaired.lines().all(|line| line.contains("restored")), "{repaired}");
    let again = run(&["namespace", "repair", "ns0", "--config", config]).ok();
    assert_eq!(again, "ns0  its record is intact\n");
    let data = file_of("[store]\ndata = \"/nowhere\"\n");
    let refused = run(&["store", "repair", "--shard", "0", "--config", text(data.path())]);
    assert!(refused.refused(2).contains("store.url"));
    let node = Server::on_store_with(&cluster.url(), &SILENCE);
    assert_eq!(schedule(&node, "after").len(), EACH * NAMESPACES.len());
    // Without a shard, new limits of the namespace would stop its deliveries.
    cluster.masters[1].kill();
    let refused = run(&["namespace", "repair", "ns0", "--config", config]).refused(1);
    let port = cluster.masters[1].port().to_string();
    for part in [&*port, "needs every shard", "Start its master", "duly store repair"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
}

#[test]
fn nodes_serve_beside_a_master_that_is_down() {
    nodes_serve_beside(Fault::Down);
}

#[test]
fn nodes_serve_beside_a_master_that_hangs() {
    nodes_serve_beside(Fault::Hung);
}

#[test]
fn nodes_serve_beside_a_master_that_is_rolled_back() {
    nodes_serve_beside(Fault::RolledBack);
}

#[test]
fn nodes_serve_beside_a_slot_that_is_half_moved() {
    nodes_serve_beside(Fault::HalfMoved);
}

/// Gives a master with a replica a fault: the replica takes over, and nodes serve every timer.
fn a_replica_takes_over(fault: Fault, place: usize) {
    let mut cluster = cluster(1);
    let running = Server::on_store_with(&cluster.url(), &SILENCE);
    // The replicas of a new Cluster may not have confirmed yet.
    let before = schedule_all(&running, "before");
    fault.make(&mut cluster, place, Path::new(""));
    let began = Instant::now();
    let started = Server::on_store_with(&cluster.url(), &SILENCE);
    let accepted = [schedule_all(&running, "running"), schedule_all(&started, "started")].concat();
    eprintln!("{fault:?} with a replica, master {place}: whole after {:.1?}", began.elapsed());
    if fault == Fault::Hung {
        // The former master comes back with an older view of the Cluster.
        signal(&cluster.masters[place], Signal::CONT);
    }
    lease_all(&started, [before, accepted].concat());
}

#[test]
fn a_replica_takes_over_for_a_master_that_hangs() {
    places().for_each(|place| a_replica_takes_over(Fault::Hung, place));
}

#[test]
fn a_replica_takes_over_for_a_master_that_is_down() {
    places().for_each(|place| a_replica_takes_over(Fault::Down, place));
}

#[test]
fn nodes_serve_beside_a_master_without_its_replica() {
    nodes_serve_beside(Fault::NoReplica);
}

#[test]
fn a_lost_replica_delays_others_for_two_seconds() {
    places().for_each(|place| firings_are_late_at_most(Fault::NoReplica, place));
}

#[test]
fn nodes_serve_beside_a_master_that_withholds_changes() {
    nodes_serve_beside(Fault::Paused);
}

#[test]
fn nodes_serve_beside_a_master_that_denies_commands() {
    nodes_serve_beside(Fault::Denied);
}

#[test]
fn nodes_serve_beside_a_master_that_is_busy() {
    nodes_serve_beside(Fault::Busy);
}

#[test]
fn nodes_serve_beside_a_slot_without_an_owner() {
    nodes_serve_beside(Fault::NoOwner);
}

#[test]
fn withheld_changes_delay_others_for_two_seconds() {
    places().for_each(|place| firings_are_late_at_most(Fault::Paused, place));
}

#[test]
fn a_master_that_is_down_delays_others_for_two_seconds() {
    places().for_each(|place| firings_are_late_at_most(Fault::Down, place));
}

#[test]
fn a_master_that_hangs_delays_others_for_two_seconds() {
    places().for_each(|place| firings_are_late_at_most(Fault::Hung, place));
}
