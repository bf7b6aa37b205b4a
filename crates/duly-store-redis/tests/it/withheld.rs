//! A server that replies to probes, and withholds the replies to calls: on one connection, or of every change.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use duly_core::{
    Millis,
    shard::{ShardId, shard_of},
};
use duly_store::{Error, Outcome, Store, Timers, query::ShardFault};
use duly_store_redis::{Options, RedisStore};

use crate::{
    calls::{id, name, open, options, schedule, shard, until},
    cluster::Cluster,
    delay_proxy::DelayProxy,
    server::{Server, list, tell},
};

/// Longest wait of the client for a reply.
const ANSWER_WITHIN: Duration = Duration::from_secs(100);
/// Longest call: one that waits for [`ANSWER_WITHIN`] takes longer on any machine.
const LONGEST: Duration = Duration::from_secs(50);

fn patient(url: &str) -> Options {
    let mut options = options(url, 2);
    (options.answer_within, options.silence_timeout) = (ANSWER_WITHIN, Duration::from_secs(2));
    options
}

async fn get(store: &RedisStore) -> duly_store::Result<bool> {
    let view = store.get(shard(store, &id("a")), name(), id("a"), u64::MAX).await;
    Ok(view?.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_replies_is_replaced() {
    let server = Server::start(&[]);
    let proxy = DelayProxy::to(server.port());
    let store = open(&patient(&proxy.url())).await;
    schedule(&store, "a", Millis::from_secs(60)).await;
    proxy.freeze_next("EVALSHA");
    let began = Instant::now();
    until("a read is answered", async || get(&store).await.ok()).await;
    assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
    proxy.freeze_next("EVALSHA");
    let began = Instant::now();
    let again =
        async || matches!(schedule(&store, "a", Millis::from_secs(60)).await, Outcome::Existing(_));
    until("a change is answered", async || again().await.then_some(())).await;
    assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
    assert!(!proxy.freezes(), "a connection was frozen");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_withholds_changes_is_skipped_and_named() {
    let server = Server::start(&[]);
    let store = open(&patient(&server.url())).await;
    schedule(&store, "a", Millis::from_secs(60)).await;
    assert_eq!(tell(server.port(), "CLIENT PAUSE 3600000 WRITE"), "+OK");
    let began = Instant::now();
    let outcome = schedule(&store, "b", Millis::from_secs(60)).await;
    assert!(began.elapsed() < LONGEST, "{:?}", began.elapsed());
    // Redis executes the call after the pause, unless its connection is gone.
    let is_error =
        matches!(outcome, Outcome::Failed(Error::InDoubt { .. } | Error::Unavailable { .. }));
    assert!(is_error, "{outcome:?}");
    until("later changes are not sent", async || {
        let outcome = schedule(&store, "b", Millis::from_secs(60)).await;
        format!("{outcome:?}").contains("CLIENT UNPAUSE").then_some(())
    })
    .await;
    until("the health names the shards", async || {
        let silent = [0, 1].map(|shard| (ShardId(shard), ShardFault::Silent));
        (store.health().unavailable_shards == silent).then_some(())
    })
    .await;
    until("reads go on", async || get(&store).await.ok()).await;
    assert_eq!(tell(server.port(), "CLIENT UNPAUSE"), "+OK");
    until("changes are sent again", async || {
        let outcome = schedule(&store, "b", Millis::from_secs(60)).await;
        matches!(outcome, Outcome::Created(_) | Outcome::Existing(_)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_waits_behind_a_withheld_change() {
    let server = Server::start(&[]);
    let mut options = patient(&server.url());
    (options.connections, options.silence_timeout) = (1, LONGEST);
    let store = Arc::new(open(&options).await);
    schedule(&store, "a", Millis::from_secs(60)).await;
    assert_eq!(tell(server.port(), "CLIENT PAUSE 3600000 WRITE"), "+OK");
    let change = tokio::spawn({
        let store = Arc::clone(&store);
        async move { schedule(&store, "b", Millis::from_secs(60)).await }
    });
    // Time in which the change is sent.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(get(&store).await.expect("a reply"));
    assert!(!change.is_finished(), "the read was faster");
    assert_eq!(tell(server.port(), "CLIENT UNPAUSE"), "+OK");
    let outcome = change.await.expect("no panic");
    assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_denies_commands_is_skipped_and_named() {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), 2)).await;
    schedule(&store, "a", Millis::from_secs(60)).await;
    assert_eq!(tell(server.port(), "ACL SETUSER default -evalsha"), "+OK");
    let outcome = format!("{:?}", schedule(&store, "b", Millis::from_secs(60)).await);
    let place = format!("127.0.0.1:{}", server.port());
    for part in ["Unavailable", "shard ", &place, "ACL SETUSER", "NOPERM"] {
        assert!(outcome.contains(part), "{part}: {outcome}");
    }
    until("the health names the shards", async || {
        let denied = [0, 1].map(|shard| (ShardId(shard), ShardFault::Denied));
        (store.health().unavailable_shards == denied).then_some(())
    })
    .await;
    assert_eq!(tell(server.port(), "ACL SETUSER default +evalsha"), "+OK");
    until("calls are sent again", async || get(&store).await.ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_without_a_master_stops_its_shards_only() {
    const SHARDS: u16 = 8;
    let cluster = Cluster::start(3, 0);
    let wanted = options(&cluster.url(), SHARDS);
    let store = open(&wanted).await;
    let key = list(cluster.masters[0].port(), "KEYS duly:*:marker").remove(0);
    let slot = tell(cluster.masters[0].port(), &format!("CLUSTER KEYSLOT {key}"));
    let slot = slot.trim_start_matches(':');
    for server in cluster.all() {
        tell(server.port(), "CONFIG SET cluster-require-full-coverage no");
        assert_eq!(tell(server.port(), &format!("CLUSTER DELSLOTS {slot}")), "+OK");
    }
    let id_in = |shard| {
        let ids = (0..).map(|i| format!("t{i}"));
        ids.into_iter().find(|id| shard_of("shop", id, SHARDS) == ShardId(shard)).expect("an id")
    };
    let failures = async |store: &RedisStore| {
        let mut failures = Vec::new();
        for shard in 0..SHARDS {
            match schedule(store, &id_in(shard), Millis::from_secs(60)).await {
                Outcome::Created(_) | Outcome::Existing(_) => {}
                other => failures.push((shard, format!("{other:?}"))),
            }
        }
        failures
    };
    let found = until("only the shard without a master refuses", async || {
        let found = failures(&store).await;
        (found.len() == 1 && found[0].1.contains("its slot has no master")).then_some(found)
    })
    .await;
    let (shard, text) = &found[0];
    assert!(text.contains(&format!("shard {shard}:")) && text.contains("--cluster fix"), "{text}");
    let faults = [(ShardId(*shard), ShardFault::NoOwner)];
    store.poll().await;
    assert_eq!(store.health().unavailable_shards, faults);
    let started = RedisStore::open(&wanted).await.expect("a node starts beside it");
    assert_eq!(failures(&started).await.len(), 1);
    let add = format!("CLUSTER ADDSLOTS {slot}");
    assert_eq!(tell(cluster.masters[0].port(), &add), "+OK");
    until("the slot has a master again", async || failures(&store).await.is_empty().then_some(()))
        .await;
}
