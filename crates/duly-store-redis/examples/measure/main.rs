//! Measures the store on an empty server: bytes of a pending timer compared with the naive design, and
//! the rates of scheduling, claiming and acking compared with a minimal script.
//!
//! ```text
//! redis-server --port 7399 --save "" --appendonly yes &
//! cargo run --release -p duly-store-redis --example measure -- redis://127.0.0.1:7399 200000
//! ```
//!
//! A third argument selects one kind of payloads: their bytes, or a range (`500-1500`), with an `r` at
//! the end for random letters instead of orders as JSON (`1000r`). With the word `details` at the end it
//! also prints where the bytes of a timer are, and the time of the commands inside the scripts.
//!
//! **It empties the server.** The naive design is one member of a sorted set (due time, id) and one
//! string key (payload), written by a pipelined script that does nothing else. Each row is the median of
//! three measurements, in which the two designs alternate. `cpu` is the CPU time of the server's process
//! for each timer, in microseconds; one core has 1,000,000 of them a second.

mod payloads;

use std::{
    collections::BTreeMap,
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
    Answer, ClaimRequest, Command, Lane, LaneClaim, Namespaces, Operation, Outcome, Owner,
    SettleOutcome, SettleVerdict, Settlement, Timers, namespaces::Put,
};
use duly_store_redis::{Check, Options, RedisStore};
use futures::{StreamExt, stream};
use payloads::Payloads;
use redis::{AsyncConnectionConfig, Client, Pipeline, Value, aio::MultiplexedConnection, cmd};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const BATCH: usize = 500;
const AT_ONCE: usize = 8;
const SHARDS: u16 = 64;
const RUNS: usize = 3;
const NAIVE: &str = "#!lua\nredis.call('ZADD', KEYS[1], ARGV[1], ARGV[2]) redis.call('SET', KEYS[2], ARGV[3]) \
                     return 1";

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("the URL of an empty server")?;
    let count: usize = arguments.next().unwrap_or("100000".to_owned()).parse()?;
    println!("{count} timers, ids of 36 bytes, batches of {BATCH}, {AT_ONCE} at once");
    println!(
        "payload         | bytes: naive, ours | schedules /s: naive, ours | cpu: naive, ours | claims + acks /s | cpu, of the client"
    );
    let only = arguments.next().filter(|argument| argument != "details");
    let rows = match only {
        Some(only) => vec![only.parse()?],
        None => Payloads::USUAL.to_vec(),
    };
    for row in rows {
        let payloads = row.make(count);
        let mut runs = [const { Vec::new() }; 9];
        for _ in 0..RUNS {
            let naive = naive(&url, &payloads).await?;
            let ours = ours(&url, &payloads).await?;
            let run = [
                naive.bytes,
                ours.bytes,
                naive.schedules,
                ours.schedules,
                naive.cpu,
                ours.cpu,
                ours.claims,
                ours.claims_cpu,
                ours.client_cpu,
            ];
            runs.iter_mut().zip(run).for_each(|(all, one)| all.push(one));
        }
        let [a, b, c, d, e, f, g, h, i] = runs.map(|mut all| {
            all.sort_by(f64::total_cmp);
            all[RUNS / 2]
        });
        println!(
            "{row:15} | {a:12.0} {b:5.0} | {c:19.0} {d:6.0} | {e:10.1} {f:5.1} | {g:16.0} | {h:4.1} {i:15.1}"
        );
    }
    empty(&url).await?;
    Ok(())
}

/// Result of one measurement: bytes per timer, timers per second, and CPU microseconds per timer.
#[derive(Debug, Default)]
struct Run {
    bytes: f64,
    schedules: f64,
    cpu: f64,
    claims: f64,
    claims_cpu: f64,
    client_cpu: f64,
}

fn name_of(i: usize) -> String {
    format!("{i:08x}-4f2a-4b6e-9d11-{:012x}", i.wrapping_mul(0x9E37_79B9) & 0xffff_ffff_ffff)
}

async fn connect(url: &str) -> Result<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(60)));
    Ok(Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await?)
}

async fn empty(url: &str) -> Result<u64> {
    let mut connection = connect(url).await?;
    cmd("FLUSHALL").exec_async(&mut connection).await?;
    // Scripts have the deployment's id in their text, so they add up, and a fuller server is slower.
    cmd("SCRIPT").arg("FLUSH").exec_async(&mut connection).await?;
    used(url).await
}

async fn used(url: &str) -> Result<u64> {
    let mut connection = connect(url).await?;
    let info: String = cmd("INFO").arg("memory").query_async(&mut connection).await?;
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory_dataset:"));
    Ok(line.ok_or("no used_memory_dataset")?.trim().parse()?)
}

/// Returns the CPU seconds that the server has used.
async fn server_cpu(url: &str) -> Result<f64> {
    let mut connection = connect(url).await?;
    let info: String = cmd("INFO").arg("cpu").query_async(&mut connection).await?;
    let used = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|seconds| seconds.trim().parse().ok()).unwrap_or(0.0)
    };
    Ok(used("used_cpu_sys") + used("used_cpu_user"))
}

/// Returns the CPU seconds that this process has used, from Linux's clock of 100 ticks a second.
fn own_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// Resets the times of the commands, or prints them as microseconds per timer.
async fn commands(url: &str, of: Option<(&str, usize)>) -> Result<()> {
    let mut connection = connect(url).await?;
    let info: String = cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
    cmd("CONFIG").arg("RESETSTAT").exec_async(&mut connection).await?;
    let Some((what, count)) = of else { return Ok(()) };
    let mut taken: Vec<(f64, &str)> = info
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let usec = rest.split(',').find_map(|part| part.strip_prefix("usec="))?;
            Some((usec.parse::<f64>().ok()? / count as f64, name))
        })
        .collect();
    taken.sort_by(|a, b| b.0.total_cmp(&a.0));
    let told: Vec<String> =
        taken.iter().take(14).map(|(usec, name)| format!("{name} {usec:.2}")).collect();
    println!("  {what}: {}", told.join(", "));
    Ok(())
}

/// Returns the bytes per timer of all keys of a kind, as `MEMORY USAGE` counts them.
async fn print_kinds(url: &str, count: usize) -> Result<()> {
    let mut connection = connect(url).await?;
    let keys: Vec<Vec<u8>> = cmd("KEYS").arg("duly:*").query_async(&mut connection).await?;
    let mut kinds: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for chunk in keys.chunks(1_000) {
        let mut pipeline = Pipeline::new();
        for key in chunk {
            pipeline.add_command(
                cmd("MEMORY").arg("USAGE").arg(key.as_slice()).arg("SAMPLES").arg(0).clone(),
            );
        }
        let used: Vec<u64> = pipeline.query_async(&mut connection).await?;
        for (key, used) in chunk.iter().zip(used) {
            let key = String::from_utf8_lossy(key).into_owned();
            let name = key.split_once("}:").map_or("", |(_, name)| name);
            let kind = match name.as_bytes() {
                [b'r', b':', ..] => "records",
                [b'd', b':', ..] if name.ends_with(":f") => "directories of blocks",
                [b'd', b':', ..] => "blocks of lanes",
                _ => "all else",
            };
            let sum = kinds.entry(kind).or_default();
            *sum = (sum.0 + 1, sum.1 + used);
        }
    }
    for (kind, (keys, bytes)) in kinds {
        println!("  {kind}: {keys} keys, {:.1} B a timer", bytes as f64 / count as f64);
    }
    Ok(())
}

fn per_second(count: usize, since: Instant) -> f64 {
    count as f64 / since.elapsed().as_secs_f64()
}

/// Schedules `count` timers by `work` and measures that; `before` is the memory that the server used
/// before.
async fn scheduled<T, E>(
    url: &str,
    count: usize,
    before: u64,
    work: impl Iterator<Item = impl Future<Output = std::result::Result<T, E>>>,
) -> Result<Run>
where
    Box<dyn Error + Send + Sync>: From<E>,
{
    let cpu = server_cpu(url).await?;
    let since = Instant::now();
    let mut work = stream::iter(work).buffer_unordered(AT_ONCE);
    while let Some(done) = work.next().await {
        done?;
    }
    let schedules = per_second(count, since);
    let cpu = (server_cpu(url).await? - cpu) * 1e6 / count as f64;
    let bytes = (used(url).await? - before) as f64 / count as f64;
    Ok(Run { bytes, schedules, cpu, ..Run::default() })
}

async fn naive(url: &str, payloads: &[Bytes]) -> Result<Run> {
    let count = payloads.len();
    let before = empty(url).await?;
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(connect(url).await?);
    }
    let digest: String =
        cmd("SCRIPT").arg("LOAD").arg(NAIVE).query_async(&mut connections[0]).await?;
    let work = (0..count).step_by(BATCH).map(|from| {
        let mut connection = connections[from / BATCH % 4].clone();
        let digest = digest.clone();
        async move {
            let mut pipeline = Pipeline::new();
            for (i, payload) in payloads.iter().enumerate().skip(from).take(BATCH) {
                let name = name_of(i);
                let key = format!("t:{name}");
                let due = 1_900_000_000_000_u64 + i as u64 * 37;
                let mut command = cmd("EVALSHA");
                command.arg(&digest).arg(2).arg("due").arg(key).arg(due).arg(name);
                command.arg(&**payload);
                pipeline.add_command(command);
            }
            pipeline.query_async::<Vec<Value>>(&mut connection).await
        }
    });
    scheduled(url, count, before, work).await
}

async fn ours(url: &str, payloads: &[Bytes]) -> Result<Run> {
    let count = payloads.len();
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
    let mut batches: Vec<(ShardId, Vec<(usize, Bytes)>)> = Vec::new();
    for (shard, group) in (0..).zip(&groups) {
        batches.extend(group.chunks(BATCH).map(|chunk| {
            (ShardId(shard), chunk.iter().map(|i| (*i, payloads[*i].clone())).collect())
        }));
    }
    let details = std::env::args().any(|argument| argument == "details");
    commands(url, None).await?;
    let work = batches.into_iter().map(|(shard, batch)| {
        let (store, namespace) = (Arc::clone(&store), namespace.clone());
        tokio::spawn(async move {
            let commands = batch.into_iter().map(|(i, bytes)| {
                let id = TimerId::new(&name_of(i)).expect("an id");
                let after = Millis::from_ms(3_600_000 + i as u64 * 37);
                let mut schedule = Schedule::new(id, When::After(after));
                schedule.spec.payload = Some(Payload { form: Form::Json, bytes });
                let operation =
                    Operation::Schedule { schedule: Box::new(schedule), if_exists: IfExists::Fail };
                Command { namespace: namespace.clone(), operation, answer: Answer::Brief }
            });
            let outcomes = store.apply(shard, commands.collect()).await.expect("a reply");
            for outcome in outcomes {
                assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
            }
        })
    });
    let run = scheduled(url, count, before, work).await?;
    if details {
        commands(url, Some(("us of schedules", count))).await?;
        print_kinds(url, count).await?;
    }

    // All of them are due now, to be claimed and acked.
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
    commands(url, None).await?;
    let (claims_cpu, client_cpu) = (server_cpu(url).await?, own_cpu());
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
    let claims = per_second(count, since);
    let client_cpu = (own_cpu() - client_cpu) * 1e6 / count as f64;
    let claims_cpu = (server_cpu(url).await? - claims_cpu) * 1e6 / count as f64;
    if details {
        commands(url, Some(("us of claims and acks", count))).await?;
    }
    Ok(Run { claims, claims_cpu, client_cpu, ..run })
}

/// Claims and acks all timers of a shard.
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
        let outcomes = store.settle(shard, settlements.collect()).await.expect("a reply");
        ended += outcomes.iter().filter(|outcome| **outcome == SettleOutcome::Ok).count();
    }
}
