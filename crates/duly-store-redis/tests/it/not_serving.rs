//! Masters that reply with an error to every call or change: each is skipped, named and used again.

use duly_core::{Millis, shard::ShardId};
use duly_store::{Error, Outcome, Store, query::ShardFault};
use duly_store_redis::RedisStore;

use crate::{
    calls::{open, options, schedule, until},
    opening::{load_slowly, waits},
    server::{Server, list, tell},
};

/// A step of a test on a server.
type Step = fn(&Server);

/// Replies of a master, the step that brings it to reply so, and the step that ends this.
const REPLIES: [(&str, Step, Step); 3] = [
    ("BUSY", run_script, |server| {
        // A node that was refused may have ended the script with its connection.
        tell(server.port(), "SCRIPT KILL");
    }),
    (
        "READONLY",
        |server| assert_eq!(tell(server.port(), "REPLICAOF 127.0.0.1 1"), "+OK"),
        |server| assert_eq!(tell(server.port(), "REPLICAOF NO ONE"), "+OK"),
    ),
    ("MISCONF", fail_to_save, |server| {
        assert_eq!(tell(server.port(), "CONFIG SET save \"\""), "+OK");
    }),
];

/// Runs a script without an end.
fn run_script(server: &Server) {
    let port = server.port();
    assert_eq!(tell(port, "CONFIG SET busy-reply-threshold 50"), "+OK");
    std::thread::spawn(move || tell(port, "EVAL \"while true do end\" 0"));
}

/// Lets a snapshot fail: a folder has the place of its file.
fn fail_to_save(server: &Server) {
    let folder = list(server.port(), "CONFIG GET dir").remove(1);
    std::fs::create_dir_all(format!("{folder}/dump.rdb/full")).expect("a folder");
    assert_eq!(tell(server.port(), "CONFIG SET save \"3600 1\""), "+OK");
    assert!(tell(server.port(), "BGSAVE").starts_with('+'));
}

/// Waits until calls and the health name the master by its reply.
async fn is_named(store: &RedisStore, port: u16, reply: &str) {
    let place = format!("master 127.0.0.1:{port}");
    let mut ids = (0..).map(|i| format!("t{i}"));
    until(&format!("calls name {reply}"), async || {
        let outcome = schedule(store, &ids.next()?, Millis::from_secs(60)).await;
        let Outcome::Failed(Error::Unavailable { reason, .. }) = outcome else { return None };
        let parts = ["shard ", &place, reply, "SCRIPT KILL"];
        parts.iter().all(|part| reason.contains(part)).then_some(())
    })
    .await;
    until(&format!("the health names {reply}"), async || {
        let shards = [0, 1].map(|shard| (ShardId(shard), ShardFault::NotServing));
        let health = store.health();
        let is_named = health.warnings.iter().any(|warning| warning.contains(reply));
        (health.unavailable_shards == shards && is_named).then_some(())
    })
    .await;
}

/// Waits until the master is used again.
async fn is_used(store: &RedisStore) {
    until("changes are made again", async || {
        let outcome = schedule(store, "again", Millis::from_secs(60)).await;
        matches!(outcome, Outcome::Created(_) | Outcome::Existing(_)).then_some(())
    })
    .await;
    until("no shard is missing", async || {
        store.health().unavailable_shards.is_empty().then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn masters_that_refuse_changes_are_skipped_and_named() {
    for (reply, begin, end) in REPLIES {
        let server = Server::start(&[]);
        let wanted = options(&server.url(), 2);
        let store = open(&wanted).await;
        begin(&server);
        is_named(&store, server.port(), reply).await;
        if let Err(error) = RedisStore::open(&wanted).await {
            waits(&error);
        }
        end(&server);
        is_used(&store).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn masters_that_load_their_data_are_skipped_and_named() {
    let mut server = load_slowly(30_000).await;
    let port = server.port();
    let store = open(&options(&server.url(), 2)).await;
    server.kill();
    let restarting = std::thread::spawn(move || {
        server.start_again();
        server
    });
    is_named(&store, port, "LOADING").await;
    assert_eq!(tell(port, "CONFIG SET key-load-delay 0"), "+OK");
    let _server = restarting.join().expect("it starts");
    is_used(&store).await;
}
