//! Masters that reply with an error to every call or change: each is skipped, named and used again.

use duly_core::{Millis, shard::ShardId};
use duly_store::{Error, Outcome, Owner, Store, Timers, query::ShardFault};
use duly_store_redis::RedisStore;
use tokio::{runtime::Handle, time::sleep};

use crate::{
    calls::{open, options, request, schedule, until},
    cluster::Cluster,
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

#[tokio::test(flavor = "multi_thread")]
async fn a_store_opens_beside_a_master_that_denies_access() {
    for command in ["CONFIG SET requirepass secret", "ACL SETUSER default -@scripting"] {
        let cluster = Cluster::start(3, 0);
        drop(open(&options(&cluster.url(), 8)).await);
        assert_eq!(tell(cluster.masters[0].port(), command), "+OK");
        let store = RedisStore::open(&options(&cluster.url(), 8)).await.expect("two masters serve");
        let mut created = 0;
        for i in 0..24 {
            let outcome = schedule(&store, &format!("t{i}"), Millis::from_secs(60)).await;
            created += u32::from(matches!(outcome, Outcome::Created(_)));
        }
        assert!((8..24).contains(&created), "{command}: {created}");
        until(&format!("the health names the shards: {command}"), async || {
            let denied = store.health().unavailable_shards;
            let is_denied = |(_, fault): &(_, ShardFault)| *fault == ShardFault::Denied;
            (!denied.is_empty() && denied.iter().all(is_denied)).then_some(())
        })
        .await;
    }
    let server = Server::start(&[]);
    assert_eq!(tell(server.port(), "CONFIG SET requirepass secret"), "+OK");
    let error = RedisStore::open(&options(&server.url(), 2)).await.expect_err("it denies access");
    assert!(error.to_string().contains("denied access"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_claims_beside_a_master_that_is_down_leave_no_task() {
    let mut cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), 8)).await;
    cluster.masters[0].kill();
    let mut refused = 0;
    let mut tasks = Handle::current().metrics().num_alive_tasks();
    for round in 0..40 {
        for shard in (0..8).map(ShardId) {
            let claimed = store.claim(shard, request(Owner::Consumer { lease: None })).await;
            refused += u32::from(matches!(claimed, Err(Error::Unavailable { .. })));
        }
        if round == 1 {
            // The probes and connections are there.
            tasks = Handle::current().metrics().num_alive_tasks();
        }
    }
    assert!(refused >= 40, "one shard at least is on the master: {refused}");
    sleep(std::time::Duration::from_secs(1)).await;
    let after = Handle::current().metrics().num_alive_tasks();
    assert!(after < tasks + 20, "{tasks} tasks became {after} by {refused} claims");
}
