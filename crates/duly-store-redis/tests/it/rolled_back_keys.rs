//! Keys of callers after all masters were restored from older data.

use std::collections::BTreeSet;

use duly_core::{
    access::{ApiKey, KeyId, Role},
    shard::ShardId,
};
use duly_store::{AccessChange, AccessRemedy, Error, Repaired, Store};
use duly_store_redis::{OnRollback, RedisStore};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::{
    access::{SHARDS, change, changed, delete, digits, key, put, records, until_settled},
    calls::{open, options, until},
    cluster::Cluster,
    server::{Server, list, tell},
};

/// Returns the change that revokes a key.
fn disable(digit: u8) -> AccessChange {
    let key = key(digit, Role::Producer.actions());
    AccessChange::Put(Box::new(ApiKey { disabled: true, ..key }))
}

async fn is_disabled(store: &RedisStore, digit: u8) -> bool {
    let keys = records(store).await.expect("they are read").keys;
    keys[&KeyId::generate([digit; 10])].disabled
}

/// Returns `true` if a node that reaches the servers reports that the keys were rolled back.
async fn is_reported(store: &RedisStore) -> bool {
    let health = until("the node is ready", async || {
        store.poll().await;
        Some(store.health()).filter(|health| health.not_ready.is_empty())
    });
    let health = health.await;
    let is_warned = health.warnings.iter().any(|it| it.contains("repair --keys write-back"));
    assert_eq!(health.keys_rolled_back, is_warned, "{health:?}");
    health.keys_rolled_back
}

async fn repair(store: &RedisStore, remedy: AccessRemedy) -> bool {
    store.deployment().expect("shared").repair_access(remedy).await.expect("it is repaired")
}

/// Checks that a node refuses changes of keys and names both remedies.
async fn expect_refused(store: &RedisStore) {
    for wanted in [put(9), delete(0), disable(0)] {
        let refused = change(store, wanted).await;
        let Err(Error::Unavailable { reason, .. }) = refused else { panic!("{refused:?}") };
        for remedy in ["--keys write-back", "--keys accept"] {
            assert!(reason.contains(remedy), "{reason}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_keys_stay_refused_after_a_rollback_of_all_masters() {
    let remedies = [AccessRemedy::WriteBack, AccessRemedy::Accept];
    for (remedy, others) in remedies.iter().flat_map(|it| [(*it, 0), (*it, 1), (*it, 3)]) {
        let (mut cluster, copies) = (Cluster::start(3, 0), TempDir::new().expect("a folder"));
        let store = open(&options(&cluster.url(), SHARDS)).await;
        let other = open(&options(&cluster.url(), SHARDS)).await;
        for digit in [0, 1, 2] {
            changed(&store, put(digit)).await;
        }
        cluster.copy_data(copies.path());
        changed(&store, disable(1)).await;
        changed(&store, delete(2)).await;
        // A node that makes no change learns of them by its polls.
        assert_eq!(digits(&other).await, Ok(BTreeSet::from([0, 1])));
        other.poll().await;
        cluster.restore_data(copies.path());
        // A node that starts now knows the older keys only, and what it changes is another line.
        let fresh = open(&options(&cluster.url(), SHARDS)).await;
        assert_eq!(digits(&fresh).await, Ok(BTreeSet::from([0, 1, 2])));
        let added = 4..4 + others;
        for digit in added.clone() {
            changed(&fresh, put(digit)).await;
        }
        for node in [&store, &other] {
            until("the keys are read", async || digits(node).await.ok()).await;
            expect_refused(node).await;
            assert!(is_reported(node).await, "{remedy:?}, {others}");
            assert_eq!(digits(node).await, Ok(BTreeSet::from([0, 1])), "{remedy:?}, {others}");
            assert!(is_disabled(node, 1).await, "{remedy:?}, {others}");
        }
        assert!(!is_reported(&fresh).await, "it knows nothing newer");
        assert!(!repair(&fresh, remedy).await, "it knows nothing newer");
        assert!(repair(&store, remedy).await);
        assert!(!repair(&store, remedy).await, "it is repaired already");
        let (expected, is_revoked): (BTreeSet<u8>, _) = match remedy {
            AccessRemedy::WriteBack => (BTreeSet::from([0, 1]), true),
            AccessRemedy::Accept => ([0, 1, 2].into_iter().chain(added).collect(), false),
        };
        for node in [&store, &other, &fresh] {
            assert_eq!(digits(node).await, Ok(expected.clone()), "{remedy:?}, {others}");
            assert_eq!(is_disabled(node, 1).await, is_revoked, "{remedy:?}, {others}");
            assert!(!is_reported(node).await, "{remedy:?}, {others}");
        }
        until_settled(&store, &cluster).await;
        for node in [&other, &fresh, &store] {
            changed(node, put(8)).await;
            changed(node, delete(8)).await;
        }
        assert_eq!(digits(&fresh).await, Ok(expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn held_shards_can_be_confirmed_before_the_keys_are_repaired() {
    let (mut server, copy) = (Server::start(&[]), TempDir::new().expect("a folder"));
    let mut wanted = options(&server.url(), SHARDS);
    wanted.on_rollback = OnRollback::Pause;
    let store = open(&wanted).await;
    let deployment = store.deployment().expect("shared");
    let shards: Vec<_> = (0..SHARDS).map(ShardId).collect();
    for digit in [0, 1] {
        changed(&store, put(digit)).await;
    }
    server.copy_data(copy.path());
    changed(&store, delete(1)).await;
    deployment.note_progress(shards.clone()).await.expect("noted");
    server.kill();
    server.restore_data(copy.path());
    server.start_again();
    for marker in list(server.port(), "KEYS duly:*:marker") {
        tell(server.port(), &format!("HINCRBY {marker} progress -60000"));
    }
    until("all shards are held", async || {
        deployment.note_progress(shards.clone()).await.expect("noted");
        (store.health().unavailable_shards.len() == shards.len()).then_some(())
    })
    .await;
    for shard in shards {
        let repaired = deployment.repair(shard).await;
        assert!(matches!(repaired, Ok(Repaired::Confirmed { .. })), "{shard:?}: {repaired:?}");
    }
    assert!(is_reported(&store).await);
    expect_refused(&store).await;
    assert!(repair(&store, AccessRemedy::WriteBack).await);
    assert_eq!(digits(&store).await, Ok(BTreeSet::from([0])));
    changed(&store, put(2)).await;
}

/// A node whose tasks run only during its calls.
struct Node {
    runtime: Runtime,
    store: RedisStore,
}

impl Node {
    fn open(server: &Server) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let store = runtime.block_on(open(&options(&server.url(), SHARDS)));
        Self { runtime, store }
    }

    fn run<T>(&self, call: impl AsyncFnOnce(&RedisStore) -> T) -> T {
        self.runtime.block_on(call(&self.store))
    }

    /// Returns the digits of the keys, once the node reaches the server.
    fn digits(&self) -> Vec<u8> {
        let read = async |store: &RedisStore| {
            until("the keys are read", async || digits(store).await.ok()).await
        };
        self.run(read).into_iter().collect()
    }
}

#[test]
fn the_newest_keys_that_a_node_knows_are_not_lost() {
    let (mut server, copy) = (Server::start(&[]), TempDir::new().expect("a folder"));
    let (less, more) = (Node::open(&server), Node::open(&server));
    for digit in [0, 1, 2, 3] {
        less.run(async |store| changed(store, put(digit)).await);
    }
    server.copy_data(copy.path());
    less.run(async |store| changed(store, delete(1)).await);
    more.run(async |store| changed(store, delete(2)).await);
    server.kill();
    server.restore_data(copy.path());
    server.start_again();
    assert_eq!((less.digits(), more.digits()), (vec![0, 2, 3], vec![0, 3]));
    assert!(less.run(async |store| is_reported(store).await));
    assert!(less.run(async |store| repair(store, AccessRemedy::WriteBack).await));
    // Its next state has the number of the one that only the other node knows.
    for expected in [vec![0, 2, 3], vec![0, 2, 3, 4]] {
        assert_eq!((less.digits(), more.digits()), (expected, vec![0, 3]));
        assert!(!less.run(async |store| is_reported(store).await));
        assert!(more.run(async |store| is_reported(store).await));
        more.run(async |store| expect_refused(store).await);
        less.run(async |store| changed(store, put(4)).await);
    }
    assert!(more.run(async |store| repair(store, AccessRemedy::WriteBack).await));
    for node in [&less, &more] {
        assert_eq!(node.digits(), [0, 3]);
        assert!(!node.run(async |store| is_reported(store).await));
        node.run(async |store| changed(store, put(5)).await);
        node.run(async |store| changed(store, delete(5)).await);
    }
}
