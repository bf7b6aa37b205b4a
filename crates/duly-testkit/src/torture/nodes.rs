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
//! Every host is its own network namespace, inside a sandbox ([`place`]) that the kernel removes at
//! the end of the run. Load, consumers, receivers and the checker are those of the run with one
//! server; callers choose a node for each call. Three rules differ for the checker:
//!
//! 1. A call in doubt may take effect at any later time, because any of the nodes may hold it. So
//!    the history contains no crash.
//! 2. Shards whose data a fault removed with a master are not judged. All others are.
//! 3. Each fault counts as a stop of the server, from its start until all is well, plus the
//!    duration of the fault (unacknowledged packets are sent again later). This excuses repeated
//!    webhooks and nothing else.

mod far;
mod fault;
mod inflict;
mod namespace;
mod network;
mod node;
mod picture;
pub mod place;
mod probe;
mod redis;
mod resp;
mod resume;
mod stage;
mod told;
mod view;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use duly_core::shard::shard_of;
use tokio::sync::watch;

use super::finish::Finished;
use super::world::{Phase, World};
use super::{Options, consumer, faults, finish, gate, load, receive, report};
use crate::checker;
use crate::clock::now_us;
use crate::history::{History, Key, Stop, Who, file};
use crate::process;
pub use fault::Fault;
use fault::Order;
use inflict::inflict;
use network::{RECEIVERS, Side};
use node::{Node, SHARDS, Told};
use redis::Redis;
use report::{Judged, Report};
use resume::Event;
use stage::Stage;

/// Nodes of the deployment.
const NODES: u8 = 3;

/// Longest time of a call. It is short, because a caller can use another node.
const PATIENCE: Duration = Duration::from_secs(3);

/// Default operations of callers per second.
const RATE: u32 = 100;

/// Time without faults before the first fault; longer if it is drawn. By its end as many firings
/// are due as later.
const WARM_UP: Duration = Duration::from_secs(4);
const WARM_UP_DRAWN: Duration = Duration::from_secs(12);

/// Time without faults after each fault.
const CALM: Duration = Duration::from_secs(2);

/// Runs in a sandbox, checks and reports; keeps the evidence of a failure.
pub(super) async fn run(options: &Options) -> Result<Report> {
    let Some(evidence) = place::evidence() else {
        return Err(place::enter());
    };
    place::furnish()?;
    let folder = tempfile::Builder::new().prefix("duly-torture-").tempdir()?;
    match drive(options, folder.path()).await {
        Ok((mut report, history)) => {
            if !report.is_clean() || options.keep_data {
                let kept = keep(folder.path(), &evidence)?;
                let path = kept.join("history.json");
                file::save(&history, &path)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                report.kept = Some(kept);
            }
            Ok(report)
        }
        Err(error) => {
            let kept = keep(folder.path(), &evidence)?;
            Err(error.context(format!("the run broke off; kept {}", kept.display())))
        }
    }
}

/// Copies the logs to a folder that outlives the sandbox.
fn keep(folder: &Path, evidence: &Path) -> Result<PathBuf> {
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
async fn set_up(options: &Options, folder: &Path, phases: watch::Receiver<Phase>) -> Result<Stage> {
    network::build()?;
    let min_replicas = options.min_replicas;
    ensure!(
        min_replicas <= u32::from(options.replicas),
        "--min-replicas {min_replicas} is more than --replicas {}: nothing would ever be confirmed",
        options.replicas
    );
    let redis = Redis::start(options.replicas, min_replicas).await?;
    let told = Told { bin: options.bin.clone(), store: redis.url(), min_replicas };
    let mut nodes = Vec::new();
    for number in 1..=NODES {
        let host = network::host(&format!("n{number}"), number, &[Side::Store, Side::Web])?;
        let mut node = Node::new(host, &told, folder);
        node.start().await.with_context(|| process::tail(node.log(), 20))?;
        nodes.push(node);
    }
    let endpoints = nodes.iter().map(Node::endpoint).collect();
    let mut world = World::new(endpoints, options.seed, phases);
    world.patience = PATIENCE;
    let master_away = options.master_away.map(Duration::try_from_secs_f64).transpose()?;
    let (lost, lost_slots) = (BTreeSet::new(), BTreeSet::new());
    let world = Arc::new(world);
    let mut stage = Stage { nodes, redis, world, master_away, lost, lost_slots };
    stage.wait_until_whole().await?;
    Ok(stage)
}

async fn drive(options: &Options, folder: &Path) -> Result<(Report, History)> {
    let (phase, phases) = watch::channel(Phase::Load);
    let mut stage = set_up(options, folder, phases).await?;
    println!("three nodes on a Redis Cluster of {} servers are up", stage.redis.peers.len());
    let began = Instant::now();
    let world = Arc::clone(&stage.world);
    gate::watch_own_pulse(&world);
    let receiving = receive(IpAddr::V4(RECEIVERS), options.seed, &world).await?;
    let rate = f64::from(options.rate.unwrap_or(RATE));
    let mut workers = Vec::new();
    for number in 0..load::WRITERS {
        let each = rate / f64::from(load::WRITERS);
        workers.push(tokio::spawn(load::write(Arc::clone(&world), number, each)));
    }
    for number in 0..probe::PROBES {
        workers.push(tokio::spawn(probe::run(Arc::clone(&world), number)));
    }
    workers.push(tokio::spawn(load::redrive(Arc::clone(&world))));
    workers.push(tokio::spawn(gate::stop_and_go(Arc::clone(&world), options.stops_per_minute)));
    let consumers = consumer::spawn_all(&world);
    let progress = tokio::spawn(report::progress(Arc::clone(&world)));

    let mut finished = Finished::default();
    let lasting = Duration::from_secs_f64(options.minutes * 60.0);
    let (events, how) = torment(&mut stage, options, lasting, &mut finished).await?;
    let loaded = began.elapsed();
    // From here on no caller sends new requests.
    phase.send_replace(Phase::Drain);
    for worker in workers {
        worker.await?;
    }
    if how == faults::Ended::InTime {
        let complaints = std::mem::take(&mut finished.complaints);
        finished = finish::finish(&world).await?;
        finished.complaints.extend(complaints);
    }
    phase.send_replace(Phase::Done);
    for consumer in consumers {
        consumer.await?;
    }
    for receiver in receiving {
        receiver.abort();
    }
    progress.abort();
    for node in &mut stage.nodes {
        if let Err(error) = node.stop().await {
            finished.complaints.push(format!("{error:#}"));
        }
    }
    let mut history = world.recorder.take();
    history.drained = finished.drained;
    finished.complaints.extend(told::complaints(&history));
    if let Some(folder) = &options.plot {
        picture::draw_all(folder, &history, &events)?;
    }
    let is_lost = |key: &Key| stage.lost.contains(&shard_of(&key.namespace, &key.id, SHARDS).0);
    let unjudged = history.forget(is_lost);
    if unjudged > 0 {
        println!("{unjudged} ids of {} shards that were lost are not judged", stage.lost.len());
    }
    // Without replicas there is no failover, so a failover can lose nothing.
    let fails_over = options.min_replicas == 0 && options.replicas > 0;
    let judged = if fails_over { Judged::OnlyCounted } else { Judged::Strictly };
    let verdict = checker::check(&history);
    let took = report::Took { loaded, all: began.elapsed() };
    let mut report = Report::new(options, &history, verdict, finished, took, judged);
    let of = |wanted: fn(Fault) -> bool| events.iter().filter(|e| wanted(e.fault)).count();
    let others = history.stops.iter().filter(|s| matches!(s.who, Who::Receiver | Who::Worker));
    let kills = of(|fault| fault.kills());
    let stops = of(|fault| fault == Fault::StopNode) + others.count();
    report.tell(resume::lines(&history, &events), kills, stops);
    Ok((report, history))
}

/// Injects one fault after the other until the time is over.
async fn torment(
    stage: &mut Stage,
    options: &Options,
    lasting: Duration,
    finished: &mut Finished,
) -> Result<(Vec<Event>, faults::Ended)> {
    let interrupted = faults::interrupted();
    let mut rng = stage.world.rng(996);
    let mut order = Order::new(&options.faults);
    let began = Instant::now();
    let mut events = Vec::new();
    let warm_up = if options.plot.is_some() { WARM_UP_DRAWN } else { WARM_UP };
    tokio::time::sleep(warm_up).await;
    while began.elapsed() < lasting && !stage.world.recorder.is_full() {
        let Some(fault) = order.next(&mut rng) else { break };
        let done = match inflict(stage, fault, &mut rng).await? {
            Ok(done) => done,
            Err(why) => {
                eprintln!("!!! {fault} was SKIPPED: {why}");
                finished.skipped.push(format!("{fault}: {why}"));
                order.leave_out(fault);
                continue;
            }
        };
        let healed_us = now_us();
        stage.wait_until_whole().await.with_context(|| format!("after {fault}, {}", done.text))?;
        let event =
            Event { fault, text: done.text, from_us: done.from_us, healed_us, whole_us: now_us() };
        println!("{:>7.1} s  {event}", began.elapsed().as_secs_f64());
        stage.world.recorder.stop(Stop {
            who: Who::Server,
            from_us: event.from_us,
            to_us: event.whole_us + (healed_us - event.from_us),
        });
        events.push(event);
        tokio::time::sleep(CALM).await;
        if *interrupted.borrow() {
            return Ok((events, faults::Ended::Interrupted));
        }
    }
    Ok((events, faults::Ended::InTime))
}
