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
//! Every host is its own network namespace, inside a sandbox ([`sandbox`]) that the kernel removes at
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
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duly_core::shard::shard_of;
use tokio::sync::watch;

use super::finish::Finished;
use super::world::{RunPhase, World};
use super::{Options, consumer, faults, finish, load, pause, receive, report};
use crate::checker;
use crate::clock::now_us;
use crate::history::{History, Key, Stop, StoppedProcess, file};
use crate::process;
use cluster::TestCluster;
pub use fault::Fault;
use fault::FaultOrder;
use inject::inject;
use network::{HostLink, RECEIVERS};
use node::{Node, NodeSettings, SHARDS};
use redis::RedisCluster;
use report::{FindingsMode, Report};
use resume::FaultEvent;

/// Nodes of the deployment.
const NODES: u8 = 3;

/// Longest time of a call. It is short, because a caller can use another node.
const PATIENCE: Duration = Duration::from_secs(3);

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
    match drive(options, folder.path()).await {
        Ok((mut report, history)) => {
            if !report.is_clean() || options.keep_data {
                let kept = keep_evidence(folder.path(), &evidence)?;
                let path = kept.join("history.json");
                file::save(&history, &path)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                report.kept = Some(kept);
            }
            Ok(report)
        }
        Err(error) => {
            let kept = keep_evidence(folder.path(), &evidence)?;
            Err(error.context(format!("the run ended early; kept {}", kept.display())))
        }
    }
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
async fn set_up(
    options: &Options,
    folder: &Path,
    phases: watch::Receiver<RunPhase>,
) -> Result<TestCluster> {
    network::create_bridges()?;
    let min_replicas = options.min_replicas;
    ensure!(
        min_replicas <= u32::from(options.replicas),
        "--min-replicas {min_replicas} is more than --replicas {}: nothing would ever be confirmed",
        options.replicas
    );
    let redis = RedisCluster::start(options.replicas, min_replicas).await?;
    let settings = NodeSettings { bin: options.bin.clone(), store: redis.url(), min_replicas };
    let mut nodes = Vec::new();
    for number in 1..=NODES {
        let host =
            network::create_host(&format!("n{number}"), number, &[HostLink::Store, HostLink::Web])?;
        let mut node = Node::new(host, &settings, folder);
        node.start().await.with_context(|| process::tail(node.log(), 20))?;
        nodes.push(node);
    }
    let endpoints = nodes.iter().map(Node::endpoint).collect();
    let mut world = World::new(endpoints, options.seed, phases);
    world.call_timeout = PATIENCE;
    let master_away = options.master_away.map(Duration::try_from_secs_f64).transpose()?;
    let (lost, lost_slots) = (BTreeSet::new(), BTreeSet::new());
    let world = Arc::new(world);
    let mut cluster = TestCluster { nodes, redis, world, master_away, lost, lost_slots };
    cluster.wait_until_healthy().await?;
    Ok(cluster)
}

async fn drive(options: &Options, folder: &Path) -> Result<(Report, History)> {
    let (phase, phases) = watch::channel(RunPhase::Load);
    let mut cluster = set_up(options, folder, phases).await?;
    println!("three nodes on a Redis Cluster of {} servers are up", cluster.redis.peers.len());
    let began = Instant::now();
    let world = Arc::clone(&cluster.world);
    pause::watch_for_own_stops(&world);
    let receiving = receive(IpAddr::V4(RECEIVERS), options.seed, &world).await?;
    let rate = f64::from(options.rate.unwrap_or(RATE));
    let mut workers = Vec::new();
    for number in 0..load::CALLERS {
        let each = rate / f64::from(load::CALLERS);
        workers.push(tokio::spawn(load::run_caller(Arc::clone(&world), number, each)));
    }
    for number in 0..probe::PROBES {
        workers.push(tokio::spawn(probe::run(Arc::clone(&world), number)));
    }
    workers.push(tokio::spawn(load::redrive(Arc::clone(&world))));
    workers.push(tokio::spawn(pause::inject_stops(Arc::clone(&world), options.stops_per_minute)));
    let consumers = consumer::spawn_all(&world);
    let progress = tokio::spawn(report::progress(Arc::clone(&world)));

    let mut finished = Finished::default();
    let lasting = Duration::from_secs_f64(options.minutes * 60.0);
    let (events, how) = inject_faults(&mut cluster, options, lasting, &mut finished).await?;
    let loaded = began.elapsed();
    // From here on no caller sends new requests.
    phase.send_replace(RunPhase::Drain);
    for worker in workers {
        worker.await?;
    }
    if how == faults::LoadEnd::InTime {
        let complaints = std::mem::take(&mut finished.complaints);
        finished = finish::finish(&world).await?;
        finished.complaints.extend(complaints);
    }
    phase.send_replace(RunPhase::Done);
    for consumer in consumers {
        consumer.await?;
    }
    for receiver in receiving {
        receiver.abort();
    }
    progress.abort();
    for node in &mut cluster.nodes {
        if let Err(error) = node.stop().await {
            finished.complaints.push(format!("{error:#}"));
        }
    }
    let mut history = world.recorder.take();
    history.drained = finished.drained;
    finished.complaints.extend(reported_due::find_wrong_due_times(&history));
    if let Some(folder) = &options.plot {
        plot::draw_plots(folder, &history, &events)?;
    }
    let is_lost = |key: &Key| cluster.lost.contains(&shard_of(&key.namespace, &key.id, SHARDS).0);
    let unjudged = history.forget(is_lost);
    if unjudged > 0 {
        println!("{unjudged} ids of {} shards that were lost are not judged", cluster.lost.len());
    }
    // Without replicas there is no failover, so a failover can lose nothing.
    let may_fail_over = options.min_replicas == 0 && options.replicas > 0;
    let findings_mode = if may_fail_over { FindingsMode::CountOnly } else { FindingsMode::Fail };
    let verdict = checker::check(&history);
    let took = report::RunDuration { loaded, all: began.elapsed() };
    let mut report = Report::new(options, &history, verdict, finished, took, findings_mode);
    let of = |wanted: fn(Fault) -> bool| events.iter().filter(|e| wanted(e.fault)).count();
    let others = history
        .stops
        .iter()
        .filter(|s| matches!(s.who, StoppedProcess::Receiver | StoppedProcess::Worker));
    let kills = of(|fault| fault.is_kill());
    let stops = of(|fault| fault == Fault::StopNode) + others.count();
    report.add_faults(resume::report_lines(&history, &events), kills, stops);
    Ok((report, history))
}

/// Injects one fault after the other until the time is over.
async fn inject_faults(
    cluster: &mut TestCluster,
    options: &Options,
    lasting: Duration,
    finished: &mut Finished,
) -> Result<(Vec<FaultEvent>, faults::LoadEnd)> {
    let interrupted = faults::interrupted();
    let mut rng = cluster.world.rng(996);
    let mut order = FaultOrder::new(&options.faults);
    let began = Instant::now();
    let mut events = Vec::new();
    let warm_up = if options.plot.is_some() { WARM_UP_PLOTTED } else { WARM_UP };
    tokio::time::sleep(warm_up).await;
    while began.elapsed() < lasting && !cluster.world.recorder.is_full() {
        let Some(fault) = order.next(&mut rng) else { break };
        let done = match inject(cluster, fault, &mut rng).await? {
            Ok(done) => done,
            Err(why) => {
                eprintln!("!!! {fault} was SKIPPED: {why}");
                finished.skipped.push(format!("{fault}: {why}"));
                order.exclude(fault);
                continue;
            }
        };
        let repaired_us = now_us();
        cluster
            .wait_until_healthy()
            .await
            .with_context(|| format!("after {fault}, {}", done.text))?;
        let event = FaultEvent {
            fault,
            text: done.text,
            from_us: done.from_us,
            repaired_us,
            recovered_us: now_us(),
        };
        println!("{:>7.1} s  {event}", began.elapsed().as_secs_f64());
        cluster.world.recorder.stop(Stop {
            who: StoppedProcess::Server,
            from_us: event.from_us,
            to_us: event.recovered_us + (repaired_us - event.from_us),
        });
        events.push(event);
        tokio::time::sleep(QUIET_TIME).await;
        if *interrupted.borrow() {
            return Ok((events, faults::LoadEnd::Interrupted));
        }
    }
    Ok((events, faults::LoadEnd::InTime))
}
