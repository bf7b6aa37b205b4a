//! Counts over all shards, which a request brings up to date.

use duly_core::Millis;
use duly_store::{Outcome, Store};

use crate::{
    calls::{open, options, schedule},
    server::Server,
};

/// Without a request the counts may be 10 s old.
#[tokio::test(flavor = "multi_thread")]
async fn recount_returns_present_counts() {
    let server = Server::start(&[]);
    let url = format!("redis://127.0.0.1:{}", server.port());
    let store = open(&options(&url, 8)).await;
    for number in 0..5 {
        let made = schedule(&store, &format!("t{number}"), Millis::from_secs(3_600)).await;
        assert!(matches!(made, Outcome::Created(_)));
    }
    let due = schedule(&store, "due", Millis::ZERO).await;
    assert!(matches!(due, Outcome::Created(_)));
    // Concurrent callers share a count.
    let asked = futures::future::join_all((0..10).map(|_| store.recount()));
    asked.await;
    let health = store.health();
    assert_eq!((health.pending, health.overdue), (6, 1));
}

/// Otherwise its dead letters are taken for new ones, and alarm an operator, once it replies again.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_is_down_keeps_its_counts() {
    let mut server = Server::start(&[]);
    let url = format!("redis://127.0.0.1:{}", server.port());
    let store = open(&options(&url, 8)).await;
    for number in 0..5 {
        let made = schedule(&store, &format!("t{number}"), Millis::from_secs(3_600)).await;
        assert!(matches!(made, Outcome::Created(_)));
    }
    store.poll().await;
    assert_eq!(store.health().pending, 5);
    server.kill();
    store.poll().await;
    let health = store.health();
    assert_eq!(health.pending, 5, "{health:?}");
    assert!(!health.not_ready.is_empty(), "{health:?}");
}
