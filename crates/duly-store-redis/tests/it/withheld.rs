//! A server that replies to probes, and withholds the replies to calls: on one connection, or of every change.

use std::time::{Duration, Instant};

use duly_core::{Millis, shard::ShardId};
use duly_store::{Error, Outcome, Store, query::ShardFault};
use duly_store_redis::{Options, RedisStore};

use crate::{
    calls::{id, name, open, options, schedule, shard, until},
    delay_proxy::DelayProxy,
    server::{Server, tell},
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
