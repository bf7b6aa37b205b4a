//! Keys of callers at nodes that share a store.

use std::{
    fs,
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

use duly_redis_testkit::{cluster::Cluster, server};
use tempfile::TempDir;

use super::nodes::{agree_with, every_node_calls_every_shard};
use crate::harness::{DEADLINE, Ran, Server, file_of, run, text};

/// Time within which a revoked key is refused at every node.
const REVOKED_WITHIN: Duration = Duration::from_secs(1);

/// The files of a test.
pub(super) struct Files(TempDir);

impl Files {
    pub(super) fn new() -> Self {
        Self(TempDir::new().expect("a temporary directory"))
    }

    /// Writes a file, and returns its path.
    pub(super) fn keep(&self, name: &str, content: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        fs::write(&path, content).expect("written");
        text(&path).to_owned()
    }

    /// Creates an administrator in a store, without a server, and keeps the key.
    pub(super) fn administrator(&self, url: &str) -> String {
        let config = format!("[store]\nurl = {url:?}\nallow = [\"no_replicas\"]\n");
        let config = self.keep("duly.toml", &config);
        let created = run(&["key", "create", "ops", "--admin", "--config", &config]);
        self.keep("ops", &created.ok())
    }

    /// Creates a key at a node, and keeps it. Returns its path and its id.
    pub(super) fn key(&self, node: &Server, ops: &str, name: &str) -> (String, String) {
        let create =
            ["key", "create", name, "--allow", "producer,namespace", "--namespace", "orders"];
        let created = with(node, ops, &create).ok();
        let id = created["duly_".len()..].split('_').next().expect("an id").to_owned();
        (self.keep(name, &created), id)
    }
}

/// Runs a command at a node with the key in a file.
pub(super) fn with(node: &Server, key: &str, arguments: &[&str]) -> Ran {
    node.run(&[arguments, &["--key-file", key]].concat())
}

/// Returns `true` if a node admits a key.
///
/// # Panics
/// If it is refused for another reason than that it is not valid.
pub(super) fn is_admitted(node: &Server, key: &str) -> bool {
    let ran = with(node, key, &["whoami"]);
    assert!(ran.code == Some(0) || ran.stderr.contains("unauthenticated"), "{ran:?}");
    ran.code == Some(0)
}

pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "it never came that {what}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_revoked_key_is_refused_at_every_node_within_a_second() {
    let (mut cluster, files) = (Cluster::start(3, 0), Files::new());
    let ops = files.administrator(&cluster.url());
    // The test calls with a revoked key as fast as it can.
    let unlimited = [("DULY_AUTH__FAILURES_PER_SECOND", "1000000")];
    let node = || Server::on_store_with(&cluster.url(), &unlimited);
    let nodes: Vec<_> = std::iter::repeat_with(node).take(3).collect();
    assert!(nodes[0].run(&["whoami"]).refused(1).contains("unauthenticated"));
    agree_with(&nodes.iter().collect::<Vec<_>>(), 3, &["--key-file", &ops]);
    let (kept, _) = files.key(&nodes[0], &ops, "kept");
    until("every node knows the key", || nodes.iter().all(|node| is_admitted(node, &kept)));
    with(&nodes[1], &kept, &["schedule", "orders", "x", "--in", "1h"]).ok();
    for place in 0..3 {
        let (key, id) = files.key(&nodes[place], &ops, &format!("key-{place}"));
        until("every node knows the key", || nodes.iter().all(|node| is_admitted(node, &key)));
        with(&nodes[place], &ops, &["key", "disable", &id]).ok();
        let revoked = Instant::now();
        assert!(!is_admitted(&nodes[place], &key), "at the node that revoked it");
        until("every node refuses it", || !nodes.iter().any(|node| is_admitted(node, &key)));
        assert!(revoked.elapsed() < REVOKED_WITHIN, "{:?}", revoked.elapsed());
        // A master is lost, and then comes back.
        cluster.masters[place].kill();
        let lost = Instant::now();
        while lost.elapsed() < Duration::from_secs(3) {
            for node in &nodes {
                assert!(is_admitted(node, &kept), "without master {place}");
                assert!(!is_admitted(node, &key), "without master {place}");
            }
        }
        cluster.masters[place].start_again();
        cluster.wait_until_whole();
        every_node_calls_every_shard(&nodes, &["--key-file", &ops]);
        with(&nodes[0], &ops, &["key", "enable", &id]).ok();
        until("every node admits it", || nodes.iter().all(|node| is_admitted(node, &key)));
    }
}

#[test]
fn a_node_without_a_majority_admits_keys_for_a_while() {
    let (mut cluster, files) = (Cluster::start(3, 0), Files::new());
    let ops = files.administrator(&cluster.url());
    let node = Server::on_store_with(&cluster.url(), &[("DULY_AUTH__CACHE", "5s")]);
    assert!(is_admitted(&node, &ops));
    let lost = Instant::now();
    for place in [0, 1] {
        cluster.masters[place].kill();
    }
    while lost.elapsed() < Duration::from_secs(3) {
        assert!(is_admitted(&node, &ops), "within auth.cache");
    }
    let mut message = String::new();
    until("calls are refused", || {
        let ran = with(&node, &ops, &["whoami"]);
        message = ran.stderr;
        ran.code == Some(1)
    });
    // The last poll may have been half a second before.
    assert!(lost.elapsed() >= Duration::from_secs(4), "{:?}", lost.elapsed());
    assert!(message.contains("unavailable") && message.contains("auth.cache"), "{message}");
    for place in [0, 1] {
        cluster.masters[place].start_again();
    }
    cluster.wait_until_whole();
    until("calls are admitted", || with(&node, &ops, &["whoami"]).code == Some(0));
}

#[test]
fn all_keys_of_a_copied_database_can_be_disabled() {
    let (redis, files) = (server::Server::start(&[]), Files::new());
    let old = files.administrator(&redis.url());
    let config = text(&files.0.path().join("duly.toml")).to_owned();
    let node = Server::on_store(&redis.url());
    assert!(is_admitted(&node, &old));
    let disabled = run(&["key", "disable", "--all", "--config", &config]).ok();
    assert!(
        disabled.starts_with("1 keys of the store of ") && disabled.contains(" are disabled; "),
        "{disabled}"
    );
    until("the node refuses it", || !is_admitted(&node, &old));
    let new = files.administrator(&redis.url());
    until("the node admits the new one", || is_admitted(&node, &new));
    let embedded = file_of("[store]\ndata = \"/tmp/none\"\n");
    let refused = run(&["key", "disable", "--all", "--config", text(embedded.path())]).refused(2);
    assert!(refused.contains("duly key confirm"), "{refused}");
}
