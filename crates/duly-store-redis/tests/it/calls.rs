//! Helper functions that call a store, for tests.

use std::time::{Duration, Instant};

use duly_core::{
    Millis, NamespaceName, Schedule, Settings, TimerId,
    destination::LaneKey,
    schedule::{IfExists, When},
    shard::{ShardId, shard_of},
};
use duly_store::{
    Answer, ClaimRequest, Command, Firing, Lane, LaneClaim, Namespaces, Operation, Outcome, Owner,
    Result, SettleOutcome, SettleVerdict, Settlement, Timers,
    namespaces::{Put, Secrets},
};
use duly_store_redis::{Check, Options, RedisStore};

use crate::server::{Server, list};

/// Longest wait for something that a store does by itself.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn name() -> NamespaceName {
    NamespaceName::new("shop").expect("a name that is allowed")
}

pub(crate) fn id(text: &str) -> TimerId {
    TimerId::new(text).expect("an id that is allowed")
}

/// Returns options that allow a Cluster without replicas, as most tests have.
pub(crate) fn options(url: &str, shards: u16) -> Options {
    let mut options = Options::new(url);
    options.shards = shards;
    options.allow = vec![Check::NoReplicas];
    // A loaded machine must not make a server silent.
    options.silence_timeout = PATIENCE;
    options
}

/// Opens a store with one namespace.
pub(crate) async fn open(options: &Options) -> RedisStore {
    let store = RedisStore::open(options).await.expect("the store opens");
    put(&store, Settings::default()).await;
    store
}

/// Opens a store that waits for a replica, and stops the replica.
pub(crate) async fn open_whose_replica_is_lost(server: &Server, options: &Options) -> RedisStore {
    let replica = Server::start(&["--replicaof", "127.0.0.1", &server.port().to_string()]);
    let store = until("the replica follows", async || RedisStore::open(options).await.ok()).await;
    drop(replica);
    store
}

pub(crate) async fn put(store: &RedisStore, settings: Settings) {
    let put = Put::Replace { settings: Box::new(settings), secrets: Secrets::Set };
    store.put_namespace(name(), put).await.expect("settings are written");
}

pub(crate) fn shard(store: &RedisStore, id: &TimerId) -> ShardId {
    shard_of(name().as_str(), id.as_str(), store.shards())
}

pub(crate) fn schedule_op(text: &str, after: Millis) -> Operation {
    let schedule = Box::new(Schedule::new(id(text), When::After(after)));
    Operation::Schedule { schedule, if_exists: IfExists::Keep }
}

pub(crate) fn command(operation: Operation) -> Command {
    Command { namespace: name(), operation, answer: Answer::Whole }
}

/// Returns the prefix of the keys of the namespace's coordinator shard, if there is one namespace.
pub(crate) fn coordinator_keys(port: u16) -> String {
    let count = list(port, "KEYS duly:*:nums").remove(0);
    count.strip_suffix("nums").expect("it was asked for").to_owned()
}

/// Executes one operation.
pub(crate) async fn apply(store: &RedisStore, operation: Operation) -> Result<Outcome> {
    let command = command(operation);
    let shard = command.shard(store.shards()).expect("it names an id");
    Ok(store.apply(shard, vec![command]).await?.remove(0))
}

/// Schedules a timer that is new or exists already.
pub(crate) async fn schedule(store: &RedisStore, text: &str, after: Millis) -> Outcome {
    apply(store, schedule_op(text, after)).await.expect("the call is answered")
}

pub(crate) fn request(owner: Owner) -> ClaimRequest {
    let lane = Lane { namespace: name(), key: LaneKey::Pull };
    ClaimRequest {
        lanes: vec![LaneClaim { lane, first_max: 1_000, retry_max: 1_000 }],
        total_max: 1_000,
        bytes_max: u64::MAX,
        owner,
    }
}

/// Claims everything that is due, in every shard.
pub(crate) async fn claim_all(store: &RedisStore) -> Result<Vec<Firing>> {
    let mut firings = Vec::new();
    for shard in (0..store.shards()).map(ShardId) {
        let request = request(Owner::Consumer { lease: None });
        firings.extend(store.claim(shard, request).await?.firings);
    }
    Ok(firings)
}

pub(crate) async fn settle(
    store: &RedisStore,
    firing: &Firing,
    verdict: SettleVerdict,
) -> Result<SettleOutcome> {
    let token = firing.token.clone();
    let settlement = Settlement { token, namespace: Some(name()), verdict };
    Ok(store.settle(firing.token.shard(), vec![settlement]).await?[0])
}

/// Repeats a check until it succeeds.
pub(crate) async fn until<T>(what: &str, mut holds: impl AsyncFnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = holds().await {
            return found;
        }
        assert!(Instant::now() < end, "it never came that {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the message of an error at the start.
pub(crate) async fn refused(options: &Options) -> String {
    RedisStore::open(options).await.expect_err("it is refused").to_string()
}

pub(crate) fn allowing(mut options: Options, check: Check) -> Options {
    options.allow.push(check);
    options
}
