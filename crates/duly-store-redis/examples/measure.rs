//! Measures the store on a server that holds nothing: bytes of a pending timer beside the naive
//! design, and how fast timers are scheduled, claimed and acknowledged beside the least that a script could do.
//!
//! ```text
//! redis-server --port 7399 --save "" --appendonly yes &
//! cargo run --release -p duly-store-redis --example measure -- redis://127.0.0.1:7399 200000
//! ```
//!
//! **It empties the server.** The naive design is one member of a sorted set (due time, id) and one
//! string key (payload), written by a pipelined script that does nothing else.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use duly_core::{
    Millis, NamespaceName, Payload, Schedule, TimerId,
    destination::LaneKey,
    payload::Form,
    schedule::{IfExists, When},
    shard::{ShardId, shard_of},
};
use duly_store::{
    Answer, ClaimRequest, Command, Lane, LaneClaim, Operation, Outcome, Owner, SettleOutcome,
    SettleVerdict, Settlement, Store, namespaces::Put,
};
use duly_store_redis::{Check, Options, RedisStore};
use futures::{StreamExt, stream};
use redis::{AsyncConnectionConfig, Client, Pipeline, Value, aio::MultiplexedConnection, cmd};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const BATCH: usize = 500;
const AT_ONCE: usize = 8;
const SHARDS: u16 = 64;
const NAIVE: &str = "#!lua\nredis.call('ZADD', KEYS[1], ARGV[1], ARGV[2]) redis.call('SET', KEYS[2], ARGV[3]) \
                     return 1";

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("the URL of an empty server")?;
    let count: usize = arguments.next().unwrap_or("100000".to_owned()).parse()?;
    println!("{count} timers, ids of 36 bytes, batches of {BATCH}, {AT_ONCE} at once");
    println!(
        "payload | naive B | ours B | naive /s | ours /s | claims + acks /s | of the server: naive us | ours us"
    );
    for payload_bytes in [0, 100, 1_000] {
        let naive = naive(&url, count, payload_bytes).await?;
        let ours = ours(&url, count, payload_bytes).await?;
        println!(
            "{payload_bytes:7} | {:7} | {:6} | {:8} | {:7} | {:16} | {:23} | {}",
            naive.0, ours.0, naive.1, ours.1, ours.2, naive.2, ours.3
        );
    }
    empty(&url).await?;
    Ok(())
}

fn name_of(i: usize) -> String {
    format!("{i:08x}-4f2a-4b6e-9d11-{:012x}", i.wrapping_mul(0x9E37_79B9) & 0xffff_ffff_ffff)
}

fn payload_of(i: usize, bytes: usize) -> Vec<u8> {
    let text = format!("{{\"order\":{i},\"note\":\"");
    let mut payload = text.into_bytes();
    payload.resize(bytes.max(payload.len()), b'x');
    payload.truncate(bytes);
    payload
}

async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
    Ok(Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

async fn empty(url: &str) -> Result<u64> {
    let mut connection = connect(url).await?;
    cmd("FLUSHALL").exec_async(&mut connection).await?;
    used(url).await
}

async fn used(url: &str) -> Result<u64> {
    let mut connection = connect(url).await?;
    let info: String = cmd("INFO").arg("memory").query_async(&mut connection).await?;
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
    Ok(line.ok_or("no used_memory_dataset")?.trim().parse()?)
}

/// Microseconds that a script has taken on average since the last time this was asked.
async fn script_micros(url: &str) -> Result<String> {
    let mut connection = connect(url).await?;
    let info: String = cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
    cmd("CONFIG").arg("RESETSTAT").exec_async(&mut connection).await?;
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:"));
    let micros =
        line.and_then(|line| line.split(',').find_map(|s| s.strip_prefix("usec_per_call=")));
    Ok(micros.unwrap_or("?").to_owned())
}

fn per_second(count: usize, since: Instant) -> u64 {
    let millis = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
    count as u64 * 1_000 / millis
}

/// Bytes of each timer, and how many a second.
async fn naive(url: &str, count: usize, bytes: usize) -> Result<(u64, u64, String)> {
    let before = empty(url).await?;
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(connect(url).await?);
    }
    let digest: String =
        cmd("SCRIPT").arg("LOAD").arg(NAIVE).query_async(&mut connections[0]).await?;
    script_micros(url).await?;
    let since = Instant::now();
    let work = (0..count).step_by(BATCH).map(|from| {
        let mut connection = connections[from / BATCH % 4].clone();
        let digest = digest.clone();
        async move {
            let mut pipeline = Pipeline::new();
            for i in from..(from + BATCH).min(count) {
                let name = name_of(i);
                let key = format!("t:{name}");
                let due = 1_900_000_000_000_u64 + i as u64 * 37;
                let mut command = cmd("EVALSHA");
                command.arg(&digest).arg(2).arg("due").arg(key).arg(due).arg(name);
                command.arg(payload_of(i, bytes));
                pipeline.add_command(command);
            }
            pipeline.query_async::<Vec<Value>>(&mut connection).await
        }
    });
    let mut work = stream::iter(work).buffer_unordered(AT_ONCE);
    while let Some(done) = work.next().await {
        done?;
    }
    let rate = per_second(count, since);
    let micros = script_micros(url).await?;
    Ok(((used(url).await? - before) / count as u64, rate, micros))
}

/// Bytes of each timer, how many are scheduled a second, how many claimed and acknowledged.
async fn ours(url: &str, count: usize, bytes: usize) -> Result<(u64, u64, u64, String)> {
    let before = empty(url).await?;
    let mut options = Options::new(url);
    (options.shards, options.allow) = (SHARDS, vec![Check::NoAppendOnly, Check::NoFsync]);
    let store = Arc::new(RedisStore::open(&options).await?);
    let namespace = NamespaceName::new("shop")?;
    store.put_namespace(namespace.clone(), Put::IfAbsent(Box::default())).await?;
    let mut groups: Vec<Vec<usize>> = vec![Vec::new(); usize::from(SHARDS)];
    for i in 0..count {
        groups[usize::from(shard_of("shop", &name_of(i), SHARDS).0)].push(i);
    }
    let mut batches: Vec<(ShardId, Vec<usize>)> = Vec::new();
    for (shard, group) in (0..).zip(&groups) {
        batches.extend(group.chunks(BATCH).map(|chunk| (ShardId(shard), chunk.to_vec())));
    }
    script_micros(url).await?;
    let since = Instant::now();
    let work = batches.into_iter().map(|(shard, batch)| {
        let (store, namespace) = (Arc::clone(&store), namespace.clone());
        tokio::spawn(async move {
            let commands = batch.into_iter().map(|i| {
                let id = TimerId::new(&name_of(i)).expect("an id");
                let after = Millis::from_ms(3_600_000 + i as u64 * 37);
                let mut schedule = Schedule::new(id, When::After(after));
                let payload = Bytes::from(payload_of(i, bytes));
                schedule.payload = Some(Payload { form: Form::Json, bytes: payload });
                let operation =
                    Operation::Schedule { schedule: Box::new(schedule), if_exists: IfExists::Fail };
                Command { namespace: namespace.clone(), operation, answer: Answer::Brief }
            });
            let outcomes = store.apply(shard, commands.collect()).await.expect("an answer");
            for outcome in outcomes {
                assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
            }
        })
    });
    let mut work = stream::iter(work).buffer_unordered(AT_ONCE);
    while let Some(done) = work.next().await {
        done?;
    }
    let scheduled = per_second(count, since);
    let micros = script_micros(url).await?;
    let each = (used(url).await? - before) / count as u64;

    // All of them now, to be claimed and acknowledged.
    for (shard, group) in (0..).zip(&groups) {
        let shard = ShardId(shard);
        for chunk in group.chunks(5_000) {
            let fire = chunk.iter().map(|i| Command {
                namespace: namespace.clone(),
                operation: Operation::Fire { id: TimerId::new(&name_of(*i)).expect("an id") },
                answer: Answer::Brief,
            });
            store.apply(shard, fire.collect()).await?;
        }
    }
    let since = Instant::now();
    let work = (0..SHARDS).map(|shard| {
        let (store, namespace) = (Arc::clone(&store), namespace.clone());
        tokio::spawn(async move { drain(&store, ShardId(shard), &namespace).await })
    });
    let mut work = stream::iter(work).buffer_unordered(AT_ONCE);
    let mut ended = 0;
    while let Some(done) = work.next().await {
        ended += done?;
    }
    assert_eq!(ended, count, "every timer ends once");
    Ok((each, scheduled, per_second(count, since), micros))
}

/// Claims and acknowledges all of a shard.
async fn drain(store: &RedisStore, shard: ShardId, namespace: &NamespaceName) -> usize {
    let mut ended = 0;
    loop {
        let lane = Lane { namespace: namespace.clone(), key: LaneKey::Pull };
        let request = ClaimRequest {
            lanes: vec![LaneClaim { lane, first_max: BATCH, retry_max: BATCH }],
            total_max: BATCH,
            bytes_max: 16 << 20,
            owner: Owner::Consumer { lease: None },
        };
        let claimed = store.claim(shard, request).await.expect("a claim");
        if claimed.firings.is_empty() {
            return ended;
        }
        let settlements = claimed.firings.iter().map(|firing| Settlement {
            token: firing.token.clone(),
            namespace: None,
            verdict: SettleVerdict::Ack,
        });
        let outcomes = store.settle(shard, settlements.collect()).await.expect("an answer");
        ended += outcomes.iter().filter(|outcome| **outcome == SettleOutcome::Ok).count();
    }
}
