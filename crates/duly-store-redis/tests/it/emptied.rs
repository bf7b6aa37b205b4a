//! Masters of a Cluster that come back without their data: what the other masters hold stays, and the
//! namespace is restored from them.

use std::collections::BTreeSet;

use duly_core::{Millis, NamespaceName, Settings, shard::ShardId};
use duly_store::{
    Error, Namespaces, Outcome, Repaired, Store, Timers,
    namespaces::{Activity, DeleteMode, Put},
    query::ShardFault,
};
use duly_store_redis::{Options, RedisStore};

use crate::{
    calls::{claim_all, id, name, open, options, put, schedule, shard, until},
    cluster::Cluster,
    server::{Server, list, tell},
};

const SHARDS: u16 = 16;
const LATER: Millis = Millis::from_secs(3_600);

fn coordinator() -> ShardId {
    duly_core::shard::shard_of(name().as_str(), "", SHARDS)
}

/// Returns the index of the master that has a shard of [`SHARDS`]: masters have the slots in equal
/// ranges.
fn master_of(cluster: &Cluster, shard: ShardId) -> usize {
    usize::from(shard.0) * cluster.masters.len() / usize::from(SHARDS)
}

/// Returns the shards of a master.
fn shards_of(cluster: &Cluster, place: usize) -> BTreeSet<u16> {
    (0..SHARDS).filter(|shard| master_of(cluster, ShardId(*shard)) == place).collect()
}

fn settings() -> Settings {
    let mut settings = Settings { lease: Millis::from_secs(77), ..Settings::default() };
    settings.limits.max_pending = Some(5_000);
    settings
}

fn names<T: std::fmt::Debug>(command: &str, what: &str, result: &Result<T, Error>) {
    match result {
        Err(Error::Unavailable { reason, .. }) => {
            assert!(reason.contains(&format!("`{command}")), "{what}: {reason}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

/// Checks that every change that needs the record of the namespace is refused and names the repair
/// command.
async fn all_are_refused(store: &RedisStore, command: &str) {
    names(command, "put", &store.put_namespace(name(), Put::IfAbsent(Box::default())).await);
    names(command, "pause", &store.set_activity(name(), Activity::Paused).await);
    names(command, "delete", &store.delete_namespace(name(), DeleteMode::Force).await);
}

fn outcome(outcome: Outcome) -> Result<(), Error> {
    match outcome {
        Outcome::Created(_) => Ok(()),
        Outcome::Failed(error) => Err(error),
        other => panic!("{other:?}"),
    }
}

async fn health(store: &RedisStore) -> (u64, Vec<String>) {
    store.poll().await;
    let health = store.health();
    (health.namespaces_to_repair, health.not_ready)
}

/// Schedules 300 due timers. Returns those whose shards are not in `lost`.
async fn schedule_all(store: &RedisStore, lost: &BTreeSet<u16>) -> BTreeSet<String> {
    let mut kept = BTreeSet::new();
    for i in 0..300 {
        let text = format!("t{i}");
        assert!(matches!(schedule(store, &text, Millis::ZERO).await, Outcome::Created(_)));
        if !lost.contains(&shard(store, &id(&text)).0) {
            kept.insert(text);
        }
    }
    kept
}

/// Returns the number of timers that the shards of other masters hold.
async fn held_elsewhere(store: &RedisStore, lost: &BTreeSet<u16>) -> u64 {
    let mut pending = 0;
    for place in (0..SHARDS).filter(|place| !lost.contains(place)) {
        let stats = store.stats(ShardId(place), name()).await.expect("counts");
        pending += stats.expect("the shard has it").pending();
    }
    pending
}

/// Repairs shards. Panics if one cannot be repaired.
async fn repair(store: &RedisStore, shards: impl IntoIterator<Item = u16>) {
    let deployment = store.deployment().expect("nodes share it");
    for shard in shards {
        deployment.repair(ShardId(shard)).await.expect("it is repaired");
    }
}

/// Checks that nothing else is lost, once the master with the coordinator shard has lost its data.
async fn nothing_else_is_lost(store: &RedisStore, lost: &BTreeSet<u16>, kept: &BTreeSet<String>) {
    // The first schedule operation of any client.
    let is_lost = |text: &String| lost.contains(&shard(store, &id(text)).0);
    let first = (0..).map(|i| format!("n{i}")).find(is_lost).expect("one of many");
    names("duly store repair", "schedule", &outcome(schedule(store, &first, LATER).await));
    all_are_refused(store, "duly store repair --shard").await;
    // The other shards have the settings.
    let found = store.get_namespace(name()).await.expect("a read").expect("the namespace");
    assert_eq!((&*found.settings, found.maybe_outdated), (&settings(), true));
    assert_eq!(held_elsewhere(store, lost).await, kept.len() as u64);
    assert_eq!(health(store).await.1, Vec::<String>::new(), "the store stays ready");
    // The coordinator shard takes calls again, and has no record of the namespace yet.
    repair(store, [coordinator().0]).await;
    all_are_refused(store, "duly namespace repair shop`").await;
    names("duly namespace repair shop`", "get", &store.get_namespace(name()).await);
    assert_eq!(health(store).await, (1, vec![]), "it is counted");
    // Now that the loss is known, shards that have the namespace refuse too.
    for i in 0..20 {
        let refused = outcome(schedule(store, &format!("m{i}"), LATER).await);
        names("duly ", "schedule", &refused);
    }
    assert_eq!(held_elsewhere(store, lost).await, kept.len() as u64);
    // With the last shard the record is restored.
    repair(store, lost.iter().copied().filter(|place| *place != coordinator().0)).await;
    let namespace = store.get_namespace(name()).await.expect("a read").expect("it is restored");
    assert_eq!(*namespace.settings, settings());
    let again = store.repair_namespace(name(), None).await.expect("nothing is to be done");
    assert!(!again.restored);
    let fired = claim_all(store).await.expect("claims");
    let fired: BTreeSet<String> = fired.iter().map(|firing| firing.id.to_string()).collect();
    assert_eq!(&fired, kept, "the timers of the other masters fire");
    for i in 0..100 {
        let outcome = schedule(store, &format!("x{i}"), LATER).await;
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
    }
    assert_eq!(health(store).await, (0, vec![]));
}

async fn lost_at_home(replicas: u32) {
    let mut cluster = Cluster::start(3, replicas);
    let mut options = options(&cluster.url(), SHARDS);
    options.min_replicas = replicas;
    let store = open(&options).await;
    put(&store, settings()).await;
    let place = master_of(&cluster, coordinator());
    let lost = shards_of(&cluster, place);
    let kept = schedule_all(&store, &lost).await;
    assert!((100..270).contains(&kept.len()), "{} on other masters", kept.len());
    // The master is back before its replica, if it has one, asks for votes to replace it.
    let master = &mut cluster.masters[place];
    master.kill();
    master.lose_data();
    master.start_again();
    cluster.wait_until_whole();
    assert_eq!(tell(cluster.masters[place].port(), "DBSIZE"), ":0");
    let pause = || store.set_activity(name(), Activity::Running);
    until("the loss is noticed", async || match pause().await {
        Err(Error::Unavailable { reason, .. }) if reason.contains("duly store repair") => Some(()),
        _ => None,
    })
    .await;
    nothing_else_is_lost(&store, &lost, &kept).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_emptied_coordinator_removes_nothing_elsewhere() {
    lost_at_home(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_emptied_coordinator_with_replica_removes_nothing() {
    lost_at_home(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_lost_its_data_takes_the_namespace_again() {
    let mut cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), SHARDS)).await;
    put(&store, settings()).await;
    let place = (master_of(&cluster, coordinator()) + 1) % 3;
    let lost = shards_of(&cluster, place);
    let kept = schedule_all(&store, &lost).await;
    let master = &mut cluster.masters[place];
    master.kill();
    master.lose_data();
    master.start_again();
    cluster.wait_until_whole();
    until("the loss is noticed", async || {
        store.poll().await;
        (store.health().unavailable_shards.len() == lost.len()).then_some(())
    })
    .await;
    repair(&store, lost.iter().copied()).await;
    for i in 0..100 {
        until("it is scheduled", async || {
            let outcome = schedule(&store, &format!("x{i}"), LATER).await;
            matches!(outcome, Outcome::Created(_)).then_some(())
        })
        .await;
    }
    let fired = claim_all(&store).await.expect("claims");
    let fired: BTreeSet<String> = fired.iter().map(|firing| firing.id.to_string()).collect();
    assert_eq!(fired, kept);
    // The background pass brings the namespace to the shards that no call asked.
    let other = NamespaceName::new("other").expect("a name that is allowed");
    store.put_namespace(other.clone(), Put::IfAbsent(Box::default())).await.expect("it is made");
    assert_eq!(health(&store).await, (0, vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_asks_no_master_that_does_not_reply() {
    let mut cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), SHARDS)).await;
    put(&store, settings()).await;
    let deployment = store.deployment().expect("nodes share it");
    let first = master_of(&cluster, coordinator());
    // Without the coordinator shard of a namespace, the namespace comes with a later poll.
    for (emptied, down, namespaces) in [(1, 2, 1), (2, 0, 0)] {
        let [emptied, down] = [emptied, down].map(|place| (first + place) % 3);
        let master = &mut cluster.masters[emptied];
        master.kill();
        master.lose_data();
        master.start_again();
        cluster.wait_until_whole();
        for server in cluster.all() {
            tell(server.port(), "CONFIG SET cluster-require-full-coverage no");
        }
        cluster.masters[down].kill();
        let place = format!("master 127.0.0.1:{} does not reply", cluster.masters[down].port());
        let expected = [(emptied, ShardFault::Missing), (down, ShardFault::Silent)];
        let expected: Vec<_> = expected
            .into_iter()
            .flat_map(|(master, fault)| {
                shards_of(&cluster, master).into_iter().map(move |it| (ShardId(it), fault))
            })
            .collect();
        until("the health names the shards of both masters", async || {
            store.poll().await;
            let health = store.health();
            let is_named = health.warnings.iter().any(|warning| warning.contains(&place));
            (health.unavailable_shards == expected && is_named).then_some(())
        })
        .await;
        for shard in shards_of(&cluster, emptied).into_iter().map(ShardId) {
            let repaired = deployment.repair(shard).await.expect("its master replies");
            assert_eq!(repaired, Repaired::Restored { namespaces }, "{shard:?}");
        }
        cluster.masters[down].start_again();
        cluster.wait_until_whole();
        until("every shard has the namespace", async || {
            let is_healthy =
                health(&store).await == (0, vec![]) && store.health().unavailable_shards.is_empty();
            is_healthy.then_some(())
        })
        .await;
        for shard in shards_of(&cluster, emptied).into_iter().map(ShardId) {
            assert_eq!(deployment.repair(shard).await.expect("again"), Repaired::Nothing);
        }
    }
}

/// Opens a store whose scripts use a clock that is `hours` hours ahead.
async fn ahead(cluster: &Cluster, hours: u64) -> RedisStore {
    let mut options: Options = options(&cluster.url(), SHARDS);
    options.clock = Some(format!(
        "local function clock()\n  local t = redis.call('TIME')\n  return tonumber(t[1]) * 1000 + \
         math.floor(tonumber(t[2]) / 1000) + {}\nend",
        hours * 3_600_000
    ));
    RedisStore::open(&options).await.expect("the store opens")
}

/// Returns the numbers that have an end record at the coordinator shard.
fn ends(cluster: &Cluster) -> Vec<String> {
    let master = &cluster.masters[master_of(cluster, coordinator())];
    let keys = list(master.port(), "KEYS duly:*:ends");
    keys.iter().flat_map(|key| list(master.port(), &format!("HKEYS {key}"))).collect()
}

/// Ends a namespace that has the same coordinator shard, which removes expired end records there.
async fn end_another(store: &RedisStore, text: &str) {
    let other = NamespaceName::new(text).expect("a name that is allowed");
    let _one_master_is_away = store.delete_namespace(other, DeleteMode::Force).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_an_end_stays_on_record_until_every_shard_has_confirmed_it() {
    let mut cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), SHARDS)).await;
    let alike = |text: &String| duly_core::shard::shard_of(text, "", SHARDS) == coordinator();
    let mut others = (0..).map(|i| format!("other{i}")).filter(alike);
    let others: Vec<String> = others.by_ref().take(3).collect();
    for text in &others {
        let other = NamespaceName::new(text).expect("a name that is allowed");
        store.put_namespace(other, Put::IfAbsent(Box::default())).await.expect("it is made");
    }
    let place = (master_of(&cluster, coordinator()) + 1) % 3;
    let away = shards_of(&cluster, place);
    schedule_all(&store, &away).await;
    let (day_later, two_days_later) = (ahead(&cluster, 25).await, ahead(&cluster, 51).await);

    cluster.masters[place].kill();
    let gone = store.delete_namespace(name(), DeleteMode::Force).await;
    assert!(matches!(gone, Err(Error::InDoubt { .. })), "{gone:?}");
    let num = ends(&cluster);
    assert_eq!(num.len(), 1);
    // 25 hours later the master is still down, and other namespaces end.
    end_another(&day_later, &others[0]).await;
    assert!(ends(&cluster).contains(&num[0]), "a shard has not confirmed it");
    cluster.masters[place].start_again();
    cluster.wait_until_whole();
    until("it ends there too", async || {
        day_later.poll().await;
        let mut left = false;
        for place in &away {
            left |= day_later.stats(ShardId(*place), name()).await.ok()?.is_some();
        }
        (!left).then_some(())
    })
    .await;
    assert_eq!(
        day_later.get_namespace(name()).await.expect("a read"),
        None,
        "nothing wants repair"
    );
    assert_eq!(claim_all(&store).await.expect("claims"), []);
    // For a day after that, the end record stays for a shard that rolls back.
    until("every shard is known to have confirmed it", async || {
        day_later.poll().await;
        let master = &cluster.masters[master_of(&cluster, coordinator())];
        let todo = list(master.port(), "KEYS duly:*:todo");
        todo.is_empty().then_some(())
    })
    .await;
    end_another(&day_later, &others[1]).await;
    assert!(ends(&cluster).contains(&num[0]), "a day has not gone by since");
    end_another(&two_days_later, &others[2]).await;
    assert!(!ends(&cluster).contains(&num[0]), "now it has");
    // The name is free for another namespace, and nothing of the old one comes back.
    put(&store, settings()).await;
    assert_eq!(claim_all(&store).await.expect("claims"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_of_several_numbers_keeps_the_one_that_is_named() {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), SHARDS)).await;
    schedule_all(&store, &BTreeSet::new()).await;
    // The coordinator shard loses all but its marker. A build that takes this for a deletion then
    // makes the namespace again there and in one other shard.
    let keys = |pattern: &str| list(server.port(), &format!("KEYS {pattern}"));
    let prefix = keys("duly:*:nums")[0].replace("nums", "");
    let old = keys(&format!("{prefix}n:*"))[0].replace(&format!("{prefix}n:"), "");
    let mut lost = keys(&format!("{prefix}*"));
    lost.retain(|key| !["marker", "deployment", "members"].iter().any(|kept| key.ends_with(kept)));
    let told = tell(server.port(), &format!("DEL {}", lost.join(" ")));
    assert!(told.starts_with(':'), "{told}");
    let other = keys("duly:*:nn").into_iter().next().expect("another shard").replace("nn", "");
    for prefix in [&prefix, &other] {
        for command in [
            format!("HSET {prefix}nn shop 9.99"),
            format!("HSET {prefix}vers shop 1"),
            format!("ZADD {prefix}names 0 shop"),
        ] {
            tell(server.port(), &command);
        }
        let from = keys("duly:*:n:*")[0].clone();
        tell(server.port(), &format!("COPY {from} {prefix}n:9.99"));
        tell(server.port(), &format!("HSET {prefix}n:9.99 ver 1"));
    }
    assert_eq!(health(&store).await, (1, vec![]));
    let refused = store.repair_namespace(name(), None).await;
    match &refused {
        Err(Error::Invalid(invalid)) => {
            assert_eq!(invalid.field, "keep");
            assert!(
                invalid.allowed.contains(&old) && invalid.allowed.contains("9.99"),
                "{invalid}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(store.repair_namespace(name(), Some("8.88".to_owned())).await.is_err());
    let repaired = store.repair_namespace(name(), Some(old)).await.expect("it is repaired");
    assert!(repaired.restored);
    assert_eq!(health(&store).await, (0, vec![]));
    let fired = claim_all(&store).await.expect("claims").len();
    assert!(fired > 200, "{fired} of 300: those of two of {SHARDS} shards are lost");
    put(&store, settings()).await;
}
