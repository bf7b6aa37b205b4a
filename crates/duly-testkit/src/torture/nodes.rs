//! Torture test of three nodes on a Redis Cluster: load, and faults of machines and networks, one
//! after the other.
//!
//! ```text
//!   load, probes, consumers ──► n1 n2 n3 ──webhooks──► receivers
//!            │                   │  │  │                    │
//!            │                   └──┼──┘ ◄── faults         │
//!            │                r1 … r6: Redis Cluster        │
//!            └────────► world::World (recorder) ◄───────────┘
//! ```
//!
//! Every host is its own network namespace, inside a sandbox (`sandbox`) that the kernel removes at
//! the end of the run. Load, consumers, receivers and the checker are those of the run with one
//! server; callers choose a node for each call. Three rules differ for the checker:
//!
//! 1. A call in doubt may take effect at any later time, because any of the nodes may hold it. So
//!    the history contains no crash.
//! 2. Shards whose data a fault removed with a master are not judged. All others are.
//! 3. Each fault counts as a stop of the server, from its start until all is well, plus the
//!    duration of the fault (unacknowledged packets are sent again later). This excuses repeated
//!    webhooks and nothing else.

mod cluster;
mod cluster_view;
mod distant;
mod fault;
mod inject;
mod network;
mod network_namespace;
mod node;
mod plot;
mod probe;
mod redis;
mod reported_due;
mod resp;
mod resume;
mod sandbox;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duly_core::shard::shard_of;

use super::world::World;
use super::{LoadTasks, Options, Report, conclude};
use crate::checker;
use crate::clock::now_us;
use crate::history::{History, Stop, StoppedProcess, TimerKey};
use cluster::TestCluster;
pub use fault::Fault;
use fault::FaultOrder;
use inject::{InjectedFault, inject};
use network::{HostLink, RECEIVERS};
use node::{Node, NodeSettings, SHARDS};
use redis::RedisCluster;
use resume::FaultEvent;

/// Nodes of the deployment.
const NODES: u8 = 3;

/// Longest time of a call. It is short, because a caller can use another node.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// Default operations of callers per second.
const RATE: u32 = 100;

/// Time without faults before the first fault; longer if it is drawn. By its end as many firings
/// are due as later.
const WARM_UP: Duration = Duration::from_secs(4);
const WARM_UP_PLOTTED: Duration = Duration::from_secs(12);

/// Time without faults after each fault.
const QUIET_TIME: Duration = Duration::from_secs(2);

/// Runs in a sandbox, checks and reports; keeps the evidence of a failure.
pub(super) async fn run(options: &Options) -> Result<Report> {
    let Some(evidence) = sandbox::evidence_folder() else {
        return Err(sandbox::restart_inside());
    };
    sandbox::mount_folders()?;
    let folder = tempfile::Builder::new().prefix("duly-torture-").tempdir()?;
    let outcome = drive(options, folder.path()).await;
    conclude(options, outcome, || keep_evidence(folder.path(), &evidence))
}

/// Copies the logs to a folder that outlives the sandbox.
fn keep_evidence(folder: &Path, evidence: &Path) -> Result<PathBuf> {
    let kept = tempfile::Builder::new().prefix("duly-torture-").tempdir_in(evidence)?.keep();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            std::fs::copy(entry.path(), kept.join(entry.file_name()))?;
        }
    }
    Ok(kept)
}

/// Starts the Redis servers and the nodes.
async fn set_up(options: &Options, folder: &Path) -> Result<TestCluster> {
    network::create_bridges()?;
    let min_replicas = options.min_replicas;
    ensure!(
        min_replicas <= u32::from(options.replicas),
        "--min-replicas {min_replicas} is more than --replicas {}: no change would be confirmed",
        options.replicas
    );
    let redis = RedisCluster::start(options.replicas, min_replicas).await?;
    let settings = NodeSettings { bin: options.bin.clone(), store: redis.url(), min_replicas };
    let mut nodes = Vec::new();
    for number in 1..=NODES {
        let links = [HostLink::Store, HostLink::Web];
        let host = network::create_host(&format!("n{number}"), number, &links)?;
        let mut node = Node::new(host, &settings, folder);
        node.start().await?;
        nodes.push(node);
    }
    let mut world = World::new(nodes.iter().map(Node::endpoint).collect(), options.seed);
    world.call_timeout = CALL_TIMEOUT;
    let master_away = options.master_away.map(Duration::try_from_secs_f64).transpose()?;
    let (lost, lost_slots) = (BTreeSet::new(), BTreeSet::new());
    let (rng, world) = (world.rng(996), Arc::new(world));
    let mut cluster = TestCluster { nodes, redis, world, lost, lost_slots, master_away, rng };
    cluster.wait_until_healthy().await?;
    Ok(cluster)
}

async fn drive(options: &Options, folder: &Path) -> Result<(Report, History)> {
    let mut cluster = set_up(options, folder).await?;
    println!("three nodes on a Redis Cluster of {} servers are up", cluster.redis.peers.len());
    let world = Arc::clone(&cluster.world);
    let mut load = LoadTasks::start(&world, RECEIVERS, options, RATE).await?;
    let probe = |number| tokio::spawn(probe::run(Arc::clone(&world), number));
    load.callers.extend((0..probe::PROBES).map(probe));
    let (events, skipped) = inject_faults(&mut cluster, options).await?;
    let mut finished = load.finish().await?;
    finished.skipped = skipped;
    for node in &mut cluster.nodes {
        finished.complaints.extend(node.stop().await.err().map(|error| format!("{error:#}")));
    }
    let mut history = world.recorder.take();
    history.drained = finished.drained;
    finished.complaints.extend(reported_due::find_wrong_due_times(&history));
    if let Some(folder) = &options.plot {
        plot::draw_plots(folder, &history, &events)?;
    }
    let is_lost =
        |key: &TimerKey| cluster.lost.contains(&shard_of(&key.namespace, &key.id, SHARDS).0);
    let unjudged = history.forget(is_lost);
    if unjudged > 0 {
        println!("{unjudged} ids of {} shards that were lost are not judged", cluster.lost.len());
    }
    let verdict = checker::check(&history);
    let mut report = Report::new(options, &history, verdict, finished);
    let count = |wanted: fn(Fault) -> bool| events.iter().filter(|e| wanted(e.fault)).count();
    let is_simulated =
        |stop: &&Stop| matches!(stop.who, StoppedProcess::Receiver | StoppedProcess::Worker);
    let simulated = history.stops.iter().filter(is_simulated).count();
    let stops = count(|fault| fault == Fault::StopNode) + simulated;
    report.add_faults(resume::report_lines(&history, &events), count(Fault::is_kill), stops);
    Ok((report, history))
}

/// Injects one fault after the other until the load is over. Returns them, and those that this
/// machine cannot do, with the reasons.
async fn inject_faults(
    cluster: &mut TestCluster,
    options: &Options,
) -> Result<(Vec<FaultEvent>, Vec<String>)> {
    let mut order = FaultOrder::new(&options.faults);
    let began = Instant::now();
    let duration = Duration::from_secs_f64(options.minutes * 60.0);
    let (mut events, mut skipped) = (Vec::new(), Vec::new());
    let warm_up = if options.plot.is_some() { WARM_UP_PLOTTED } else { WARM_UP };
    tokio::time::sleep(warm_up).await;
    while began.elapsed() < duration && !cluster.world.must_end() {
        let Some(fault) = order.next(&mut cluster.rng) else { break };
        let InjectedFault { text, from_us } = match inject(cluster, fault).await? {
            Ok(injected) => injected,
            Err(why) => {
                eprintln!("!!! {fault} was SKIPPED: {why}");
                skipped.push(format!("{fault}: {why}"));
                order.exclude(fault);
                continue;
            }
        };
        let repaired_us = now_us();
        cluster.wait_until_healthy().await.with_context(|| format!("after {fault}, {text}"))?;
        let event = FaultEvent { fault, text, from_us, repaired_us, recovered_us: now_us() };
        println!("{:>7.1} s  {event}", began.elapsed().as_secs_f64());
        cluster.world.recorder.stop(Stop {
            who: StoppedProcess::Server,
            from_us,
            to_us: event.recovered_us + (repaired_us - from_us),
        });
        events.push(event);
        tokio::time::sleep(QUIET_TIME).await;
    }
    Ok((events, skipped))
}
