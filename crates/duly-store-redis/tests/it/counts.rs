//! Counts over all shards, which a request brings up to date.

use duly_core::{
    Incarnation, Millis, NamespaceName, Schedule, Settings, Timer, schedule::When, shard::ShardId,
    timer::DeadLetterReason,
};
use duly_store::{
    Answer, Command, Namespaces, Operation, Outcome, Store, Timers,
    conformance::ManualClock,
    namespaces::{Put, Secrets},
};
use duly_store_redis::RedisStore;

use crate::{
    calls::{id, open, options, schedule},
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

/// A script counts 100 namespaces.
#[tokio::test(flavor = "multi_thread")]
async fn full_namespaces_are_counted_over_all_pages() {
    let server = Server::start(&[]);
    let url = format!("redis://127.0.0.1:{}", server.port());
    let store = RedisStore::open(&options(&url, 1)).await.expect("the store opens");
    let mut settings = Settings::default();
    settings.limits.max_dead = 1;
    for number in 0..101 {
        let namespace = NamespaceName::new(&format!("n{number}")).expect("a name");
        let put = Put::Replace { settings: Box::new(settings.clone()), secrets: Secrets::Set };
        store.put_namespace(namespace.clone(), put).await.expect("settings are written");
        let schedule = Schedule::new(id("a"), When::After(Millis::ZERO));
        let now = ManualClock::START;
        let mut timer = Timer::new(schedule, now, Incarnation(1)).expect("a timer");
        timer.mark_dead_letter(now, DeadLetterReason::AttemptsSpent);
        let operation = Operation::Import { timer: Box::new(timer) };
        let command = Command { namespace, operation, answer: Answer::Brief };
        let outcomes = store.apply(ShardId(0), vec![command]).await.expect("an answer");
        assert!(matches!(outcomes[0], Outcome::Created(_)), "{outcomes:?}");
    }
    store.poll().await;
    let health = store.health();
    assert_eq!((health.dead, health.namespaces_dead_full), (101, 101));
}
