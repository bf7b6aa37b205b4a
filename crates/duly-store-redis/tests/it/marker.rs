//! Markers: databases that are new, old, half made, emptied or foreign.

use std::{collections::BTreeSet, time::Duration};

use duly_core::{Millis, Settings, State, shard::ShardId};
use duly_store::{
    Deployment, Error, MemberId, Outcome, Owner, Repaired, Store, Timers, query::ShardFault,
};
use duly_store_redis::{Create, OnRollback, OpenError, Options, RedisStore};

use crate::{
    calls::{claim_all, id, name, open, options, put, request, schedule, shard, until},
    cluster::Cluster,
    server::{Server, list, tell},
};

const LATER: Millis = Millis::from_secs(3_600);
const SHARDS: u16 = 8;

/// The record of the deployment, in shard 0.
pub(crate) const RECORD: &str = "duly:{17q}:deployment";

fn nodes(store: &RedisStore) -> &dyn Deployment {
    Store::deployment(store).expect("nodes share it")
}

/// Returns the keys of the markers on a server.
fn markers(port: u16) -> Vec<String> {
    list(port, "KEYS duly:*:marker")
}

/// Turns the database into one of a build without markers.
pub(crate) fn make_older(port: u16) {
    for marker in markers(port) {
        assert_eq!(tell(port, &format!("DEL {marker}")), ":1");
    }
    assert_eq!(tell(port, &format!("HDEL {RECORD} id list state")), ":3");
    assert_eq!(tell(port, &format!("HSET {RECORD} format 4")), ":0");
    assert_eq!(tell(port, "DEL duly:{17q}:members"), ":1");
}

async fn fill(store: &RedisStore, count: usize) {
    for i in 0..count {
        let outcome = schedule(store, &format!("t{i}"), LATER).await;
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
    }
}

/// Returns how many of the timers of [`fill`] can be read.
async fn there(store: &RedisStore, count: usize) -> usize {
    let mut found = 0;
    for i in 0..count {
        let id = id(&format!("t{i}"));
        let view = store.get(shard(store, &id), name(), id, u64::MAX).await;
        found += usize::from(view.is_ok_and(|view| view.is_some()));
    }
    found
}

fn is_unavailable(outcome: &Outcome, shard: ShardId) -> bool {
    let repair = format!("duly store repair --shard {}", shard.0);
    matches!(outcome, Outcome::Failed(Error::Unavailable { reason, .. }) if reason.contains(&repair))
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_at_once_create_one_deployment() {
    for _ in 0..5 {
        let server = Server::start(&[]);
        let opening = (1..=6_u16).map(|shards| {
            let options = options(&server.url(), shards);
            tokio::spawn(async move { RedisStore::open(&options).await.expect("it opens") })
        });
        let mut shards = BTreeSet::new();
        for store in opening.collect::<Vec<_>>() {
            shards.insert(store.await.expect("no panic").shards());
        }
        assert_eq!(shards.len(), 1, "{shards:?}");
        let shards = shards.pop_first().expect("there is one");
        assert_eq!(markers(server.port()).len(), usize::from(shards));
        assert_eq!(tell(server.port(), &format!("HGET {RECORD} state")), "complete");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_a_node_left_half_done_is_finished() {
    let server = Server::start(&[]);
    let port = server.port();
    drop(RedisStore::open(&options(&server.url(), SHARDS)).await.expect("it opens"));
    let identity = tell(port, &format!("HGET {RECORD} id"));
    let all = markers(port);
    // After each step: with no marker, with some, with all.
    for kept in 0..=all.len() {
        assert_eq!(tell(port, &format!("HSET {RECORD} state creating")), ":0");
        for marker in &all[kept..] {
            tell(port, &format!("DEL {marker}"));
        }
        let store = open(&options(&server.url(), 3)).await;
        assert_eq!(store.shards(), SHARDS, "the record that is there counts");
        assert_eq!(tell(port, &format!("HGET {RECORD} id")), identity);
        assert_eq!(tell(port, &format!("HGET {RECORD} state")), "complete");
        assert_eq!(markers(port).len(), all.len());
        for marker in &all {
            assert_eq!(tell(port, &format!("HGET {marker} id")), identity);
            assert_eq!(tell(port, &format!("HGET {marker} list")), "1:0");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_database_is_refused_where_none_may_be_created() {
    let server = Server::start(&[]);
    let mut wanted = options(&server.url(), SHARDS);
    wanted.create = Create::Never;
    let refused = RedisStore::open(&wanted).await.expect_err("it is empty");
    assert!(matches!(refused, OpenError::Empty { .. }), "{refused}");
    assert_eq!(tell(server.port(), "DBSIZE"), ":0", "nothing was written");
    wanted.create = Create::WhenEmpty;
    drop(open(&wanted).await);
    wanted.create = Create::Never;
    RedisStore::open(&wanted).await.expect("it is there now");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_an_older_build_is_adopted_once() {
    let server = Server::start(&[]);
    let port = server.port();
    let store = open(&options(&server.url(), SHARDS)).await;
    fill(&store, 20).await;
    drop(store);
    make_older(port);
    let (three, five) = (options(&server.url(), 3), options(&server.url(), 5));
    let (one, two) = tokio::join!(RedisStore::open(&three), RedisStore::open(&five));
    for store in [one.expect("adopted"), two.expect("adopted")] {
        assert_eq!((store.shards(), there(&store, 20).await), (SHARDS, 20));
    }
    let identity = tell(port, &format!("HGET {RECORD} id"));
    assert_eq!(identity.len(), 32);
    for marker in markers(port) {
        assert_eq!(tell(port, &format!("HGET {marker} id")), identity);
    }
    assert_eq!(markers(port).len(), usize::from(SHARDS));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_database_without_its_record_is_refused() {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), SHARDS)).await;
    fill(&store, 20).await;
    drop(store);
    make_older(server.port());
    tell(server.port(), &format!("DEL {RECORD}"));
    let before = tell(server.port(), "DBSIZE");
    let refused = RedisStore::open(&options(&server.url(), 3)).await.expect_err("it is lost");
    assert!(matches!(refused, OpenError::NoRecord { .. }), "{refused}");
    assert_eq!(tell(server.port(), "DBSIZE"), before, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_database_is_not_adopted_while_a_master_is_away() {
    let mut cluster = Cluster::start(3, 0);
    let mut wanted = options(&cluster.url(), SHARDS);
    wanted.connect_within = Duration::from_secs(1);
    drop(open(&wanted).await);
    for master in &cluster.masters {
        let all = markers(master.port());
        assert!(!all.is_empty());
        for marker in all {
            tell(master.port(), &format!("DEL {marker}"));
        }
    }
    let first = cluster.masters[0].port();
    assert_eq!(tell(first, &format!("HDEL {RECORD} id list state")), ":3");
    assert_eq!(tell(first, &format!("HSET {RECORD} format 4")), ":0");
    cluster.masters[2].kill();
    let refused = RedisStore::open(&wanted).await.expect_err("a master is away");
    assert!(matches!(refused, OpenError::NotReady { .. }), "{refused}");
    cluster.masters[2].start_again();
    until("it is adopted", async || RedisStore::open(&wanted).await.ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_emptied_database_takes_no_calls() {
    let server = Server::start(&[]);
    let port = server.port();
    let store = open(&options(&server.url(), SHARDS)).await;
    fill(&store, 20).await;
    store.poll().await;
    assert!(store.health().not_ready.is_empty());
    assert_eq!(tell(port, "FLUSHALL"), "+OK");
    for i in 0..20 {
        let text = format!("t{i}");
        let outcome = schedule(&store, &text, LATER).await;
        assert!(is_unavailable(&outcome, shard(&store, &id(&text))), "{outcome:?}");
    }
    store.poll().await;
    let health = store.health();
    assert_eq!(health.unavailable_shards.len(), usize::from(SHARDS));
    assert!(!health.not_ready.is_empty(), "no shard takes calls");
    assert_eq!(tell(port, "DBSIZE"), ":0", "nothing was created");

    // Another deployment takes the database: the nodes of the first one do not use it.
    let mut other = options(&server.url(), 3);
    other.deployment = Some("other".to_owned());
    let other = open(&other).await;
    fill(&other, 5).await;
    store.poll().await;
    let faults = store.health().unavailable_shards;
    assert!(faults.contains(&(ShardId(0), ShardFault::Foreign)), "{faults:?}");
    let outcome = schedule(&store, "t0", LATER).await;
    assert!(matches!(outcome, Outcome::Failed(Error::Unavailable { .. })), "{outcome:?}");
    let repair = nodes(&store).repair(ShardId(0)).await;
    assert!(matches!(repair, Err(Error::Invalid(_))), "{repair:?}");
    assert_eq!(there(&other, 5).await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_emptied_master_loses_only_its_data_and_is_repaired() {
    let cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), 12)).await;
    fill(&store, 60).await;
    for lost in [1, 0] {
        let port = cluster.masters[lost].port();
        let emptied: BTreeSet<u16> = {
            let before = markers(port);
            (0..12).filter(|s| before.contains(&marker_key(*s, 12))).collect()
        };
        assert!((3..=5).contains(&emptied.len()), "{emptied:?}");
        assert_eq!(tell(port, "FLUSHALL"), "+OK");
        store.poll().await;
        let health = store.health();
        assert_eq!(health.not_ready, Vec::<String>::new(), "the other masters go on");
        let unavailable: BTreeSet<u16> =
            health.unavailable_shards.iter().map(|(shard, _)| shard.0).collect();
        assert_eq!(unavailable, emptied);
        assert_eq!(health.warnings.len(), 1, "one for all: {:?}", health.warnings);
        // A second node that starts now finds the same deployment.
        let second = RedisStore::open(&options(&cluster.url(), 12)).await.expect("it opens");
        let mut more = 0;
        for i in 0..60 {
            let text = format!("m{lost}{i}");
            let at = shard(&store, &id(&text));
            for store in [&store, &second] {
                let outcome = schedule(store, &text, LATER).await;
                if emptied.contains(&at.0) {
                    assert!(is_unavailable(&outcome, at), "{outcome:?}");
                } else if !is_unavailable_namespace(&outcome) {
                    assert!(matches!(outcome, Outcome::Created(_) | Outcome::Existing(_)));
                    more += 1;
                }
            }
        }
        assert!(more > 0);
        assert_eq!(tell(port, "DBSIZE"), ":0", "nothing was created in it");
        for at in &emptied {
            let repaired = nodes(&second).repair(ShardId(*at)).await.expect("it is repaired");
            assert!(matches!(repaired, Repaired::Restored { .. }), "{repaired:?}");
            assert_eq!(nodes(&second).repair(ShardId(*at)).await, Ok(Repaired::Nothing));
        }
        put(&second, Settings::default()).await;
        until("the first node takes note", async || {
            store.poll().await;
            store.health().unavailable_shards.is_empty().then_some(())
        })
        .await;
        nodes(&store).note_progress((0..12).map(ShardId).collect()).await.expect("noted");
        store.poll().await;
        assert_eq!(store.health().rollbacks, 0, "what was accepted is no rollback");
        for i in 0..60 {
            let outcome = schedule(&store, &format!("n{lost}{i}"), LATER).await;
            assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
        }
    }
    assert!(claim_all(&store).await.expect("a claim").is_empty());
}

/// Returns `true` for a refusal because the namespace's record was in an emptied shard.
fn is_unavailable_namespace(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(Error::Unavailable { .. }))
}

/// Returns the key of a shard's marker.
fn marker_key(shard: u16, shards: u16) -> String {
    const TAGS: [&str; 12] =
        ["17q", "22n", "1e", "18q", "ow", "do", "8d", "15h", "1dz", "7d", "26", "11p"];
    assert_eq!(shards, 12);
    format!("duly:{{{}}}:marker", TAGS[usize::from(shard)])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_comes_back_with_older_data_is_reported() {
    let server = Server::start(&[]);
    let port = server.port();
    let shards: Vec<_> = (0..SHARDS).map(ShardId).collect();
    for then in [OnRollback::Warn, OnRollback::Pause] {
        assert_eq!(tell(port, "FLUSHALL"), "+OK");
        let mut wanted: Options = options(&server.url(), SHARDS);
        wanted.on_rollback = then;
        let store = open(&wanted).await;
        fill(&store, 20).await;
        nodes(&store).note_progress(shards.clone()).await.expect("noted");
        store.poll().await;
        assert_eq!(store.health().rollbacks, 0);
        let marker = markers(port).remove(0);
        let progress: u64 =
            tell(port, &format!("HGET {marker} progress")).parse().expect("a count");
        // Within the bound, which a failover may lose.
        tell(port, &format!("HSET {marker} progress {}", progress - 3_000));
        nodes(&store).note_progress(shards.clone()).await.expect("noted");
        store.poll().await;
        assert_eq!(store.health().rollbacks, 0);
        let progress: u64 =
            tell(port, &format!("HGET {marker} progress")).parse().expect("a count");
        tell(port, &format!("HSET {marker} progress {}", progress - 60_000));
        nodes(&store).note_progress(shards.clone()).await.expect("noted");
        nodes(&store).note_progress(shards.clone()).await.expect("noted");
        store.poll().await;
        let health = store.health();
        assert_eq!(health.rollbacks, 1, "once");
        if then == OnRollback::Warn {
            assert_eq!((health.unavailable_shards.len(), there(&store, 20).await), (0, 20));
            continue;
        }
        let (held, fault) = health.unavailable_shards[0];
        assert_eq!((health.unavailable_shards.len(), fault), (1, ShardFault::RolledBack));
        // Other nodes detect it too, one that runs and one that starts.
        let other = RedisStore::open(&wanted).await.expect("it opens");
        assert_eq!(
            other.get(held, name(), id("t0"), u64::MAX).await,
            store.get(held, name(), id("t0"), u64::MAX).await
        );
        assert!(there(&store, 20).await < 20);
        let repaired = nodes(&other).repair(held).await.expect("confirmed");
        let Repaired::Confirmed { behind } = repaired else { panic!("{repaired:?}") };
        assert!((59_000..70_000).contains(&behind.ms()), "{behind:?}");
        until("the first node takes note", async || (there(&store, 20).await == 20).then_some(()))
            .await;
        let view =
            store.get(shard(&store, &id("t0")), name(), id("t0"), u64::MAX).await.expect("a read");
        assert_eq!(view.map(|view| view.state), Some(State::Scheduled));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_leases_from_before_a_rollback_are_due_again() {
    let server = Server::start(&[]);
    let port = server.port();
    for then in [OnRollback::Warn, OnRollback::Pause] {
        assert_eq!(tell(port, "FLUSHALL"), "+OK");
        let mut wanted: Options = options(&server.url(), 1);
        wanted.on_rollback = then;
        let store = open(&wanted).await;
        schedule(&store, "t", Millis::ZERO).await;
        let node = request(Owner::Node(MemberId(7)));
        let claimed = store.claim(ShardId(0), node).await.expect("a claim");
        assert_eq!(claimed.firings.len(), 1);
        nodes(&store).note_progress(vec![ShardId(0)]).await.expect("noted");
        assert_eq!(claim_all(&store).await.expect("a claim"), []);
        // The rollback loses the settlement of this firing.
        let marker = markers(port).remove(0);
        tell(port, &format!("HINCRBY {marker} progress -60000"));
        nodes(&store).note_progress(vec![ShardId(0)]).await.expect("noted");
        if then == OnRollback::Pause {
            nodes(&store).repair(ShardId(0)).await.expect("confirmed");
        }
        let again = claim_all(&store).await.expect("a claim");
        assert_eq!(again.len(), 1, "{then:?}");
        assert_eq!(again[0].attempt, 2);
    }
}
