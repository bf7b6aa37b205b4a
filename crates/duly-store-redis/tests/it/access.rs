//! Keys of callers while masters of a Cluster are away, come back without data, or lose a change.

use std::collections::BTreeSet;

use duly_core::{
    Timestamp,
    access::{Actions, AdminLogin, ApiKey, KeyId, NamespacePattern, PresentedKey, Role},
    shard::ShardId,
};
use duly_store::{AccessChange, AccessRecords, AccessStore, ChangeOrigin, Error, Store, Timers};
use duly_store_redis::RedisStore;
use tempfile::TempDir;

use crate::{
    calls::{open, options, refused, until},
    cluster::Cluster,
    server::{Server, list, tell},
};

pub(crate) const SHARDS: u16 = 16;

pub(crate) fn key(digit: u8, actions: Actions) -> ApiKey {
    let presented = PresentedKey::new(KeyId::generate([digit; 10]), [digit; 32]);
    let rights = (actions, vec![NamespacePattern::all()]);
    ApiKey::new(&presented, format!("key {digit}"), rights, (Timestamp::MIN, "offline".to_owned()))
}

pub(crate) fn put(digit: u8) -> AccessChange {
    let actions = if digit == 0 { Actions::all() } else { Role::Producer.actions() };
    AccessChange::Put(Box::new(key(digit, actions)))
}

pub(crate) fn delete(digit: u8) -> AccessChange {
    AccessChange::Delete(KeyId::generate([digit; 10]))
}

pub(crate) async fn records(store: &RedisStore) -> Result<AccessRecords, Error> {
    Ok(store.read_access(u64::MAX).await?.expect("the version is another one"))
}

/// Returns the digits of the keys.
pub(crate) async fn digits(store: &RedisStore) -> Result<BTreeSet<u8>, Error> {
    let keys = records(store).await?.keys;
    Ok((0..32).filter(|digit| keys.contains_key(&KeyId::generate([*digit; 10]))).collect())
}

/// Makes a change on top of the newest one.
pub(crate) async fn change(
    store: &RedisStore,
    change: AccessChange,
) -> Result<AccessRecords, Error> {
    loop {
        let seen = records(store).await?.version;
        let changed =
            store.change_access(seen, change.clone(), ChangeOrigin::Call(AdminLogin::ANY)).await?;
        if let Some(records) = changed {
            return Ok(records);
        }
    }
}

/// Makes a change as soon as the store takes it.
pub(crate) async fn changed(store: &RedisStore, wanted: AccessChange) {
    until("the keys are changed", async || change(store, wanted.clone()).await.ok()).await;
}

/// Returns the states of the keys in the shards of a server.
fn states(server: &Server) -> BTreeSet<String> {
    let markers = list(server.port(), "KEYS duly:*:marker");
    markers.iter().map(|key| tell(server.port(), &format!("HGET {key} access"))).collect()
}

/// Returns the histories of the keys in the shards of a server.
fn histories(server: &Server) -> BTreeSet<Vec<String>> {
    let logs = list(server.port(), "KEYS duly:*:access_log");
    let history = |log: &String| {
        let items = list(server.port(), &format!("LRANGE {log} 0 -1"));
        let states = items.iter().filter_map(|item| item.split(['~', '\0']).next());
        let mut states: Vec<_> = states.map(str::to_owned).collect();
        states.dedup();
        states
    };
    logs.iter().map(history).collect()
}

/// Waits until every shard has the same keys.
pub(crate) async fn until_settled(store: &RedisStore, cluster: &Cluster) {
    until("all shards have the same keys", async || {
        store.poll().await;
        let all: BTreeSet<_> = cluster.masters.iter().flat_map(states).collect();
        (all.len() == 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_survive_the_loss_of_each_master_in_turn() {
    let mut cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), SHARDS)).await;
    let other = open(&options(&cluster.url(), SHARDS)).await;
    changed(&store, put(0)).await;
    for place in 0..3_u8 {
        changed(&store, put(place + 1)).await;
        changed(&store, put(place + 11)).await;
        cluster.masters[usize::from(place)].kill();
        // Revoked while a master is away, unless it has the shard that orders changes.
        let revoked = change(&store, delete(place + 11)).await;
        match (place, &revoked) {
            (0, Err(Error::Unavailable { reason, .. })) => {
                assert!(reason.contains("shard 0"), "{reason}");
            }
            (1 | 2, Ok(_)) => {}
            _ => panic!("master {place}: {revoked:?}"),
        }
        for node in [&store, &other] {
            let digits = digits(node).await.expect("a majority replies");
            assert!(digits.contains(&(place + 1)), "master {place}: {digits:?}");
            assert_eq!(digits.contains(&(place + 11)), place == 0, "master {place}: {digits:?}");
        }
        cluster.masters[usize::from(place)].start_again();
        cluster.wait_until_whole();
        until_settled(&store, &cluster).await;
        if place == 0 {
            changed(&store, delete(11)).await;
        }
        for node in [&store, &other] {
            until("the keys are read", async || {
                digits(node).await.ok().filter(|digits| !digits.contains(&(place + 11)))
            })
            .await;
        }
    }
    assert_eq!(digits(&store).await, Ok(BTreeSet::from([0, 1, 2, 3])));
    let health = [&store, &other].map(Store::health);
    assert!(health.iter().all(|health| !health.keys_rolled_back), "{health:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_missed_changes_gets_their_history() {
    let mut cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), SHARDS)).await;
    changed(&store, put(0)).await;
    cluster.masters[1].kill();
    for digit in [1, 2, 3] {
        changed(&store, put(digit)).await;
    }
    cluster.masters[1].start_again();
    cluster.wait_until_whole();
    until_settled(&store, &cluster).await;
    // Else a node that knows one of the missed states would take those after it for another line.
    let histories: BTreeSet<_> = cluster.masters.iter().flat_map(histories).collect();
    let is_whole = histories.len() == 1 && histories.iter().all(|history| history.len() >= 4);
    assert!(is_whole, "{histories:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_master_revives_no_key() {
    let mut cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), SHARDS)).await;
    for digit in [0, 1, 2] {
        changed(&store, put(digit)).await;
    }
    changed(&store, delete(2)).await;
    // The master of shard 0, which orders changes.
    let master = &mut cluster.masters[0];
    master.kill();
    master.lose_data();
    master.start_again();
    cluster.wait_until_whole();
    let lost = until("the loss is noticed", async || {
        store.poll().await;
        let lost = store.health().unavailable_shards;
        (lost.len() >= 5).then_some(lost)
    })
    .await;
    let expected = BTreeSet::from([0, 1]);
    assert_eq!(digits(&store).await, Ok(expected.clone()));
    assert!(change(&store, put(3)).await.is_err(), "keys cannot be changed without shard 0");
    // A node that starts now requires keys.
    let other = RedisStore::open(&options(&cluster.url(), SHARDS)).await.expect("it opens");
    assert_eq!(digits(&other).await, Ok(expected.clone()));
    for (shard, _) in lost {
        store.deployment().expect("shared").repair(shard).await.expect("it is repaired");
    }
    until_settled(&store, &cluster).await;
    assert_eq!(digits(&other).await, Ok(expected));
    changed(&other, put(3)).await;
    assert_eq!(digits(&store).await, Ok(BTreeSet::from([0, 1, 3])));
}

/// Returns the ids of the records in each shard that has some.
fn ids_of_shards(cluster: &Cluster) -> BTreeSet<BTreeSet<String>> {
    let ports = cluster.masters.iter().map(Server::port);
    let hashes = ports.flat_map(|port| {
        let names = list(port, "KEYS duly:*:access").into_iter();
        names.map(move |name| list(port, &format!("HKEYS {name}")).into_iter().collect())
    });
    hashes.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repaired_shard_tells_others_of_every_revocation() {
    let (mut cluster, copy) = (Cluster::start(3, 0), TempDir::new().expect("a folder"));
    let store = open(&options(&cluster.url(), SHARDS)).await;
    for digit in [0, 1, 2] {
        changed(&store, put(digit)).await;
    }
    until_settled(&store, &cluster).await;
    cluster.masters[2].copy_data(copy.path());
    changed(&store, delete(1)).await;
    until_settled(&store, &cluster).await;
    // The master of shard 0 gets all keys at once. Then another master comes back with those from before.
    cluster.masters[0].kill();
    cluster.masters[0].lose_data();
    cluster.masters[0].start_again();
    cluster.wait_until_whole();
    let lost = until("the loss is noticed", async || {
        store.poll().await;
        let lost = store.health().unavailable_shards;
        (lost.len() >= 5).then_some(lost)
    });
    for (shard, _) in lost.await {
        store.deployment().expect("shared").repair(shard).await.expect("it is repaired");
    }
    until_settled(&store, &cluster).await;
    cluster.masters[2].kill();
    cluster.masters[2].restore_data(copy.path());
    cluster.masters[2].start_again();
    cluster.wait_until_whole();
    until_settled(&store, &cluster).await;
    let ids = ids_of_shards(&cluster);
    assert_eq!(ids.len(), 1, "every shard has the same keys: {ids:?}");
    assert_eq!(ids.first().map(BTreeSet::len), Some(2), "one of three was deleted: {ids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_shard_0_lost_is_restored() {
    let cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), SHARDS)).await;
    changed(&store, put(0)).await;
    let port = cluster.masters[0].port();
    let prefix = list(port, "KEYS duly:*:deployment").remove(0);
    let prefix = prefix.strip_suffix("deployment").expect("it was asked for").to_owned();
    let state = || tell(port, &format!("HGET {prefix}marker access"));
    for is_other_change in [false, true] {
        changed(&store, put(1)).await;
        let before = state();
        let other = RedisStore::open(&options(&cluster.url(), SHARDS)).await.expect("it opens");
        changed(&store, delete(1)).await;
        // As after a failover to a replica that did not have the change; or after that and another change
        // which reached no other shard.
        let after = state();
        let (version, _) = after.split_once(':').expect("a version and a tag");
        let forged = if is_other_change { format!("{version}:ffffff") } else { before };
        tell(port, &format!("HSET {prefix}marker access {forged}"));
        tell(port, &format!("RPOP {prefix}access_log"));
        let key = serde_json::to_string(&key(1, Role::Producer.actions())).expect("JSON");
        let id = KeyId::generate([1; 10]);
        redis_set(port, &format!("{prefix}access"), &format!("key:{id}"), &key);
        if is_other_change {
            until("a node reads the other change", async || {
                digits(&other).await.ok().filter(|digits| digits.contains(&1))
            })
            .await;
        }
        until_settled(&other, &cluster).await;
        assert_eq!(digits(&other).await, Ok(BTreeSet::from([0])), "{is_other_change}");
        changed(&other, put(2)).await;
        for node in [&store, &other] {
            assert_eq!(digits(node).await, Ok(BTreeSet::from([0, 2])), "{is_other_change}");
        }
        changed(&other, delete(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_has_read_a_lost_change_goes_on() {
    let cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), SHARDS)).await;
    let other = open(&options(&cluster.url(), SHARDS)).await;
    for digit in [0, 1] {
        changed(&store, put(digit)).await;
    }
    let port = cluster.masters[0].port();
    let marker = list(port, "KEYS duly:*:deployment").remove(0).replace("deployment", "marker");
    let settled = tell(port, &format!("HGET {marker} access"));
    let (version, _) = settled.split_once(':').expect("a version and a tag");
    let version: u64 = version.parse().expect("a number");
    // A change that only shard 0 has, that a node reads, and that a failover then loses.
    tell(port, &format!("HSET {marker} access {}:abcdef", version + 1));
    let lost = until("the node reads it", async || {
        let read = records(&other).await.ok()?;
        (read.version >> 24 == version + 1).then_some(read)
    })
    .await;
    tell(port, &format!("HSET {marker} access {settled}"));
    // Another node makes a change of the same version number: a revocation.
    changed(&store, delete(1)).await;
    until("the node reads the revocation, under a version above the lost one", async || {
        other.poll().await;
        let read = other.read_access(lost.version).await.ok()??;
        let is_revoked = !read.keys.contains_key(&KeyId::generate([1; 10]));
        (is_revoked && read.version > lost.version).then_some(())
    })
    .await;
    changed(&other, put(2)).await;
    until("both have it", async || {
        let expected = BTreeSet::from([0, 2]);
        let both = [digits(&store).await.ok()?, digits(&other).await.ok()?];
        both.iter().all(|digits| *digits == expected).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_refuses_writes_blocks_no_change() {
    let cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), SHARDS)).await;
    changed(&store, put(0)).await;
    let port = cluster.masters[1].port();
    tell(port, "CONFIG SET min-replicas-to-write 1");
    for digit in [1, 2, 3] {
        change(&store, put(digit)).await.expect("a majority takes it");
    }
    change(&store, delete(2)).await.expect("a majority takes it");
    tell(port, "CONFIG SET min-replicas-to-write 0");
    until_settled(&store, &cluster).await;
    assert_eq!(digits(&store).await, Ok(BTreeSet::from([0, 1, 3])));
}

/// Sets a field of a hash to text with spaces and quotes.
fn redis_set(port: u16, hash: &str, field: &str, value: &str) {
    let url = format!("redis://127.0.0.1:{port}");
    let client = redis::Client::open(url).expect("a URL");
    let mut connection = client.get_connection().expect("a connection");
    let set = redis::cmd("HSET").arg(hash).arg(field).arg(value).exec(&mut connection);
    set.expect("it is set");
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_that_know_no_keys_refuse_the_database() {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), 1)).await;
    let key = "duly:{17q}:deployment";
    assert_eq!(tell(server.port(), &format!("HGET {key} format")), "5");
    changed(&store, put(0)).await;
    for key in [key, "duly:{17q}:marker"] {
        assert_eq!(tell(server.port(), &format!("HGET {key} format")), "6");
    }
    drop(store);
    let store = RedisStore::open(&options(&server.url(), 1)).await.expect("this build knows keys");
    assert_eq!(digits(&store).await, Ok(BTreeSet::from([0])));
    tell(server.port(), &format!("HSET {key} format 8"));
    assert!(refused(&options(&server.url(), 1)).await.contains('8'));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_majority_reads_no_keys() {
    let mut cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), SHARDS)).await;
    changed(&store, put(0)).await;
    cluster.masters[1].kill();
    cluster.masters[2].kill();
    let read = store.read_access(0).await;
    assert!(matches!(read, Err(Error::Unavailable { .. })), "{read:?}");
    let shard = ShardId(0);
    assert!(store.stats(shard, crate::calls::name()).await.is_ok(), "shard 0 replies");
    let refused = change(&store, put(1)).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
}
