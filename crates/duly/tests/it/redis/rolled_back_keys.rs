//! Keys of callers after all masters were restored from older data, as callers and operators see it.

use duly_redis_testkit::cluster::Cluster;
use tempfile::TempDir;

use super::{
    keys::{Files, is_admitted, until, with},
    nodes::every_node_calls_every_shard,
};
use crate::harness::Server;

/// Returns `true` if a node reports the rollback, in its readiness and in its metrics; `None` if it is not
/// ready.
fn is_reported(node: &Server, ops: &str) -> Option<bool> {
    let run = |arguments: &[&str]| with(node, ops, &[&["--output", "json"], arguments].concat());
    let health = Some(run(&["health"])).filter(|ran| ran.code == Some(0))?.json();
    let is_warned = health["warnings"].to_string().contains("repair --keys write-back");
    let metrics = run(&["metrics", "duly_keys_rolled_back"]).json();
    Some(is_warned && metrics["metrics"][0]["value"] == 1)
}

/// Checks that a node refuses changes of keys and tenants, and names both remedies.
fn expect_refused(node: &Server, ops: &str, id: &str) {
    let changes: [&[&str]; 4] = [
        &["key", "create", "other", "--admin"],
        &["key", "disable", id],
        &["key", "delete", id, "--yes"],
        &["tenant", "put", "acme", "--namespace", "acme-*"],
    ];
    for change in changes {
        let refused = with(node, ops, change).refused(1);
        assert!(refused.contains("unavailable"), "{change:?}: {refused}");
        for remedy in ["store repair --keys write-back", "store repair --keys accept"] {
            assert!(refused.contains(remedy), "{change:?}: {refused}");
        }
    }
}

/// Rolls a deployment back as a whole. Decides with a remedy, and checks that afterwards the keys revoked
/// since the copy are admitted or not.
fn roll_back(remedy: &str, result: &str, are_revived: bool) {
    let (mut cluster, files) = (Cluster::start(3, 0), Files::new());
    let copies = TempDir::new().expect("a folder");
    let ops = files.administrator(&cluster.url());
    let nodes = [(); 2].map(|()| Server::on_store(&cluster.url()));
    let (kept, kept_id) = files.key(&nodes[0], &ops, "kept");
    let (revoked, revoked_id) = files.key(&nodes[0], &ops, "revoked");
    let (deleted, deleted_id) = files.key(&nodes[0], &ops, "deleted");
    let create = ["key", "create", "store", "--allow", "store", "--namespace", "*"];
    let store_only = files.keep("store", &with(&nodes[0], &ops, &create).ok());
    cluster.copy_data(copies.path());
    with(&nodes[0], &ops, &["key", "disable", &revoked_id]).ok();
    with(&nodes[0], &ops, &["key", "delete", &deleted_id, "--yes"]).ok();
    // A node knows at once that its own change was acknowledged.
    until("the other node has the changes", || !is_admitted(&nodes[1], &deleted));
    let (newer, _) = files.key(&nodes[1], &ops, "newer");
    until("the first node has the change", || is_admitted(&nodes[0], &newer));
    cluster.restore_data(copies.path());
    until("every node reports it", || {
        nodes.iter().all(|node| is_reported(node, &ops) == Some(true))
    });
    every_node_calls_every_shard(&nodes, &["--key-file", &ops]);
    for node in &nodes {
        expect_refused(node, &ops, &kept_id);
        for (key, is_valid) in [(&kept, true), (&newer, true), (&revoked, false), (&deleted, false)]
        {
            assert_eq!(is_admitted(node, key), is_valid, "{key}");
        }
    }
    let denied = with(&nodes[1], &store_only, &["store", "repair", "--keys", remedy]).refused(1);
    assert!(denied.contains("permission_denied"), "{denied}");
    let repaired = with(&nodes[1], &ops, &["store", "repair", "--keys", remedy]).ok();
    assert!(repaired.contains(result), "{repaired}");
    for node in &nodes {
        until("the node takes the decision", || {
            is_admitted(node, &newer) != are_revived && is_reported(node, &ops) == Some(false)
        });
        assert_eq!(is_admitted(node, &revoked), are_revived, "a revoked key");
        assert_eq!(is_admitted(node, &deleted), are_revived, "a deleted key");
        with(node, &ops, &["key", "disable", &kept_id]).ok();
        with(node, &ops, &["key", "enable", &kept_id]).ok();
    }
}

#[test]
fn keys_rolled_back_with_all_masters_can_be_written_back() {
    roll_back("write-back", "written back", false);
}

#[test]
fn keys_rolled_back_with_all_masters_can_be_accepted() {
    roll_back("accept", "accepted", true);
}
