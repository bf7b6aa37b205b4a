//! A coordinator shard that has lost its last changes, as an asynchronous failover may cause. Its next
//! change is distinguished from the one that the other shards have taken, and repeating the call brings
//! all shards to one state.

use duly_core::{
    Millis, NamespaceName, Settings,
    shard::{ShardId, shard_of},
};
use duly_store::{
    Error, Namespaces, Operation, Outcome, Owner, SettleOutcome, SettleVerdict, Timers,
    namespaces::{Activity, DeleteMode, Put, Secrets},
};
use duly_store_redis::RedisStore;

use crate::{
    audit::audit,
    calls::{
        apply, claim_all, coordinator_keys, id, name, open, options, put, request, schedule,
        settle, shard,
    },
    server::{Server, list, tell},
};

const SHARDS: u16 = 4;
const LATER: Millis = Millis::from_secs(3_600);

async fn store() -> (Server, RedisStore) {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), SHARDS)).await;
    (server, store)
}

fn limited(max: u64) -> Settings {
    let mut settings = Settings::default();
    settings.limits.max_pending = Some(max);
    settings
}

/// Returns the key of the namespace's settings in its coordinator shard, and its version.
fn settings_at_home(server: &Server) -> (String, u64) {
    let coordinator = coordinator_keys(server.port());
    let key = list(server.port(), &format!("KEYS {coordinator}n:*")).remove(0);
    let ver = tell(server.port(), &format!("HGET {key} ver"));
    (key, ver.parse().expect("a version"))
}

/// Returns how many of `count` new timers are made.
async fn made(store: &RedisStore, text: &str, count: usize) -> usize {
    let mut made = 0;
    for i in 0..count {
        made += usize::from(matches!(
            schedule(store, &format!("{text}{i}"), LATER).await,
            Outcome::Created(_)
        ));
    }
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_change_after_a_lost_one_reaches_every_shard() {
    let (server, store) = store().await;
    let (key, ver) = settings_at_home(&server);
    let coordinator = coordinator_keys(server.port());
    let lose = || {
        assert_eq!(tell(server.port(), &format!("HSET {key} ver {ver} paused 0")), ":0");
        assert_eq!(tell(server.port(), &format!("HSET {coordinator}vers shop {ver}")), ":0");
    };
    for i in 0..40 {
        schedule(&store, &format!("t{i}"), Millis::ZERO).await;
    }
    store.set_activity(name(), Activity::Paused).await.expect("it is paused");
    // The coordinator shard has the namespace running again, and gets another change.
    lose();
    put(&store, limited(100)).await;
    assert!(!store.get_namespace(name()).await.expect("a read").expect("it is there").paused);
    assert_eq!(claim_all(&store).await.expect("claims").len(), 40, "no shard is paused");
    assert_eq!(made(&store, "x", 80).await, 60, "of 100 with 40 under way");
    // It gets the same change again, and its state already has it.
    store.set_activity(name(), Activity::Paused).await.expect("it is paused");
    lose();
    store.set_activity(name(), Activity::Running).await.expect("it runs");
    put(&store, Settings::default()).await;
    assert_eq!(made(&store, "y", 40).await, 40);
    schedule(&store, "due", Millis::ZERO).await;
    assert_eq!(claim_all(&store).await.expect("claims").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_no_two_namespaces_have_one_number() {
    let (server, store) = store().await;
    let coordinator = shard_of(name().as_str(), "", SHARDS);
    let alike = |text: &String| shard_of(text, "", SHARDS) == coordinator;
    let other = (0..).map(|i| format!("shop{i}")).find(alike).expect("one of four");
    let other = NamespaceName::new(&other).expect("a name that is allowed");
    for i in 0..40 {
        schedule(&store, &format!("t{i}"), Millis::ZERO).await;
    }
    // Everything that the coordinator shard has ever written of namespaces is lost.
    let mut keys = list(server.port(), &format!("KEYS {}*", coordinator_keys(server.port())));
    keys.retain(|key| !["marker", "deployment", "members"].iter().any(|kept| key.ends_with(kept)));
    tell(server.port(), &format!("DEL {}", keys.join(" ")));
    let put = Put::Replace { settings: Box::default(), secrets: Secrets::Set };
    store.put_namespace(other.clone(), put.clone()).await.expect("it is made");
    for place in (0..SHARDS).map(ShardId) {
        let mut request = request(Owner::Consumer { lease: None });
        request.lanes[0].lane.namespace = other.clone();
        assert_eq!(store.claim(place, request).await.expect("claims").firings, [], "{place:?}");
    }
    // The namespace is not made again while other shards hold it, and they keep what they hold.
    let refused = store.put_namespace(name(), put.clone()).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    store.repair_namespace(name(), None).await.expect("it is restored");
    let left = claim_all(&store).await.expect("claims");
    for firing in &left {
        assert_eq!(settle(&store, firing, SettleVerdict::Ack).await, Ok(SettleOutcome::Ok));
    }
    let elsewhere = (0..40).filter(|i| shard(&store, &id(&format!("t{i}"))) != coordinator).count();
    assert_eq!(left.len(), elsewhere, "only data of the coordinator shard is lost");
    // Made again after it has ended, it is another namespace.
    store.delete_namespace(name(), DeleteMode::Force).await.expect("it goes");
    store.put_namespace(name(), put).await.expect("it is made");
    assert_eq!(claim_all(&store).await.expect("claims"), []);
    assert_eq!(made(&store, "n", 40).await, 40);
    assert_eq!(audit(server.port()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_lost_allocation_is_replaced() {
    let (server, store) = store().await;
    put(&store, limited(100)).await;
    let (key, _) = settings_at_home(&server);
    let shares =
        list(server.port(), &format!("KEYS {}q:*pending", coordinator_keys(server.port())));
    assert_eq!(shares.len(), 1);
    assert_eq!(tell(server.port(), &format!("DEL {}", shares[0])), ":1");
    assert_eq!(tell(server.port(), &format!("HSET {key} m_pending -")), ":0");
    assert_eq!(made(&store, "t", 120).await, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_unfinished_delete_is_finished_by_the_next() {
    let (server, store) = store().await;
    for i in 0..40 {
        schedule(&store, &format!("t{i}"), Millis::ZERO).await;
    }
    // The state of the coordinator shard if the caller of a deletion stops then.
    let (key, ver) = settings_at_home(&server);
    let coordinator = coordinator_keys(server.port());
    let num = key.split_once(":n:").expect("a number").1;
    tell(server.port(), &format!("DEL {coordinator}nn {coordinator}names {key}"));
    let todo = format!("ZADD {coordinator}todo 0 \"gone\\x00shop\\x00{num}\\x00{}\"", ver + 1);
    assert_eq!(tell(server.port(), &todo), ":1");
    assert_eq!(store.delete_namespace(name(), DeleteMode::Force).await, Ok(()));
    assert_eq!(claim_all(&store).await.expect("claims"), []);
    let again = store.delete_namespace(name(), DeleteMode::Force).await;
    assert_eq!(again, Err(Error::UnknownNamespace(name().to_string())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_ended_leaves_nothing() {
    let (server, store) = store().await;
    for round in 0..3 {
        put(&store, Settings::default()).await;
        assert_eq!(made(&store, "t", 60).await, 60);
        let ids = (0..60).map(|i| id(&format!("t{i}")));
        for (i, id) in ids.enumerate().filter(|(i, _)| round == 0 || i % 3 == 0) {
            let cancel = Operation::Cancel { id, if_revision: None };
            let done = apply(&store, cancel).await.expect("a reply");
            assert!(matches!(done, Outcome::Cancelled { .. }), "{i}: {done:?}");
        }
        let mode = if round == 0 { DeleteMode::IfEmpty } else { DeleteMode::Force };
        store.delete_namespace(name(), mode).await.expect("it goes");
        assert_eq!(audit(server.port()), Vec::<String>::new());
    }
    // The versions of the name go a day later, with the end of another namespace.
    let known = |key: &String| tell(server.port(), &format!("HEXISTS {key} shop")) == ":1";
    let versions =
        || list(server.port(), "KEYS duly:*:vers").iter().filter(|key| known(key)).count();
    assert_eq!(versions(), usize::from(SHARDS));
    for key in list(server.port(), "KEYS duly:*:over") {
        assert_eq!(tell(server.port(), &format!("ZADD {key} 1 shop")), ":0");
    }
    // The version of a name stays if it has just ended once more, in shards that did not have it again.
    put(&store, Settings::default()).await;
    let coordinator = coordinator_keys(server.port());
    for key in
        list(server.port(), "KEYS duly:*:nn").iter().filter(|key| !key.starts_with(&coordinator))
    {
        assert_eq!(tell(server.port(), &format!("HDEL {key} shop")), ":1");
    }
    store.delete_namespace(name(), DeleteMode::Force).await.expect("it goes");
    assert_eq!(versions(), usize::from(SHARDS));
    for key in list(server.port(), "KEYS duly:*:over") {
        assert_eq!(tell(server.port(), &format!("ZADD {key} 1 shop")), ":0");
    }
    let other = NamespaceName::new("other").expect("a name that is allowed");
    let put = Put::IfAbsent(Box::default());
    store.put_namespace(other.clone(), put).await.expect("it is made");
    store.delete_namespace(other, DeleteMode::Force).await.expect("it goes");
    assert_eq!(versions(), 0);
}
