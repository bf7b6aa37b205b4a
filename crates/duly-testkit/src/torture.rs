//! Torture test: a real server under a mixed load with misbehaving receivers is killed with -9 and
//! stopped with SIGSTOP at random moments. The checker judges the history.
//!
//! ```text
//!  load ──schedule, cancel, …──►┌────────┐──webhooks──► receivers ◄─┐
//!  consumers ──lease, settle──► │ server │ ◄─ -9, STOP ── faults    pause (stops)
//!    ▲  │                       └────────┘                  │       │
//!    │  └──────────────► world::World (recorder) ◄──────────┘       │
//!    └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! * Every choice comes from the seed, but not the timing. So a seed repeats the kind of run, not
//!   the exact run.
//! * At the end there are no more faults until no timer is pending. Then every id is read back, and
//!   [`crate::checker`] judges.

mod caller;
mod consumer;
mod faults;
mod finish;
mod load;
mod log;
pub mod nodes;
mod pause;
mod plan;
mod receiver;
mod report;
mod world;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use tokio::task::JoinHandle;

use crate::checker;
use crate::history::{History, file};
use crate::process;
use crate::wire::Here;
use caller::Endpoint;
use finish::Finished;
pub use log::{RunLine, RunTotals};
use receiver::{Receiver, ReceiverKind};
pub use report::Report;
use world::{RunPhase, World};

/// Longest time of a start. It is long, because the run itself may be stopped meanwhile.
const START_TIMEOUT: Duration = Duration::from_secs(300);

/// Longest time of a shutdown.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);

/// Options of `duly-torture`.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "duly-torture",
    about = "Loads a duly server, kills and stops it repeatedly, and checks every promise"
)]
pub struct Options {
    /// Minutes of load (fractions allowed), before the drain.
    #[arg(long, default_value_t = 1.0)]
    pub minutes: f64,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The `duly` binary under test.
    #[arg(long, env = "DULY_BIN", default_value = "duly")]
    pub bin: PathBuf,
    /// Keeps the data directory and the history even if nothing was found.
    #[arg(long)]
    pub keep_data: bool,
    /// Kills per minute of load, on average.
    #[arg(long, default_value_t = 12.0)]
    pub kills_per_minute: f64,
    /// Stops of the server (SIGSTOP, then SIGCONT or a kill) per minute of load, on average. The
    /// webhook receiver and the consumers together get the same number.
    #[arg(long, default_value_t = 2.0)]
    pub stops_per_minute: f64,
    /// Most operations of callers per second.
    ///
    /// Default: 400 for one server, 100 for several nodes.
    #[arg(long)]
    pub rate: Option<u32>,
    /// System under test: one server with a directory, or three nodes on a Redis Cluster of three
    /// masters. In a cluster each server has its own network namespace (Linux, as root, with
    /// iproute2).
    #[arg(long, value_enum, default_value_t = Store::Embedded)]
    pub store: Store,
    /// Faults of nodes and Redis to use, separated by commas; all if absent.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub faults: Vec<nodes::Fault>,
    /// Replicas that must have a change before its result is returned. With 0 a failover loses
    /// changes: the findings of the checker are then counted, but they are no failure.
    #[arg(long, default_value_t = 1)]
    pub min_replicas: u32,
    /// Replicas of each master.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=5))]
    pub replicas: u8,
    /// Seconds until a master comes back after a replica has taken its place (fractions allowed).
    /// Default: up to three, at random.
    #[arg(long, value_name = "SECONDS")]
    pub master_away: Option<f64>,
    /// Draws one death of a node and one failover into this folder.
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// Appends one line about this run to a file.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Number of steps of the clock made during this run, for its line.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub clock_steps: u64,
    /// Checks a history that an earlier run saved, and exits.
    #[arg(long, value_name = "FILE")]
    pub judge: Option<PathBuf>,
    /// Adds up the lines of such a file, and exits.
    #[arg(long, value_name = "FILE", conflicts_with = "judge")]
    pub sum: Option<PathBuf>,
}

/// System under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// One server.
    Embedded,
    /// Several nodes.
    RedisCluster,
}

/// Default operations of callers per second to one server.
const RATE: u32 = 400;

/// Settings of the server: no percentage of the disk is kept free, and files are so small that segments
/// roll, checkpoints are taken and files are rewritten all the time.
const SETTINGS: &[(&str, &str)] = &[
    ("DULY_STORE__MIN_FREE_PERCENT", "0"),
    ("DULY_STORE__SEGMENT_BYTES", "256KiB"),
    ("DULY_STORE__CHECKPOINT_BYTES", "256KiB"),
    ("DULY_STORE__YOUNG_BYTES", "256KiB"),
];

/// Runs, checks and reports; saves the evidence of a failure.
pub async fn run(options: &Options) -> Result<Report> {
    if options.store == Store::RedisCluster {
        return nodes::run(options).await;
    }
    let dir = tempfile::Builder::new().prefix("duly-torture-").tempdir()?;
    let start = process::Options {
        bin: options.bin.clone(),
        data: Some(dir.path().join("data")),
        log: dir.path().join("server.log"),
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        settings: process::settings(SETTINGS),
        network: Arc::new(Here),
    };
    let outcome = drive(options, &start).await;
    let outcome = outcome.with_context(|| {
        format!("the last lines of server.log:\n{}", process::tail(&start.log, 20))
    });
    conclude(options, outcome, || Ok(dir.keep()))
}

/// Returns the report of a run. Saves the evidence of a failure in the folder that `keep` returns.
fn conclude(
    options: &Options,
    outcome: Result<(Report, History)>,
    keep: impl FnOnce() -> Result<PathBuf>,
) -> Result<Report> {
    match outcome {
        Ok((report, _)) if report.is_clean() && !options.keep_data => Ok(report),
        Ok((mut report, history)) => {
            let kept = keep()?;
            let path = kept.join("history.json");
            file::save(&history, &path)
                .with_context(|| format!("cannot write {}", path.display()))?;
            report.kept = Some(kept);
            Ok(report)
        }
        Err(error) => {
            Err(error.context(format!("the run ended early; kept {}", keep()?.display())))
        }
    }
}

async fn drive(options: &Options, start: &process::Options) -> Result<(Report, History)> {
    let server = process::Server::start(start, START_TIMEOUT).await?;
    let start = process::Options { listen: server.address(), ..start.clone() };
    let node = Endpoint { network: Arc::new(Here), address: server.address() };
    let world = Arc::new(World::new(vec![node], options.seed));
    let load = LoadTasks::start(&world, Ipv4Addr::LOCALHOST, options, RATE).await?;
    let mut server = faults::run(&world, options, &start, server).await?;
    let mut finished = load.finish().await?;
    let stopped = server.stop(STOP_TIMEOUT).await;
    if !matches!(stopped, Ok(true)) {
        finished.complaints.push(format!("the server did not stop with success: {stopped:?}"));
    }
    let mut history = world.recorder.take();
    history.drained = finished.drained;
    let verdict = checker::check(&history);
    Ok((Report::new(options, &history, verdict, finished), history))
}

/// The tasks of a run.
struct LoadTasks {
    world: Arc<World>,
    began: Instant,
    callers: Vec<JoinHandle<()>>,
    consumers: Vec<JoinHandle<()>>,
    /// Receivers and progress lines, which never end by themselves.
    endless: Vec<JoinHandle<()>>,
}

impl LoadTasks {
    /// Starts the receivers, creates the namespaces that deliver to them, and starts callers,
    /// consumers and stops.
    async fn start(
        world: &Arc<World>,
        receivers_on: Ipv4Addr,
        options: &Options,
        default_rate: u32,
    ) -> Result<Self> {
        pause::watch_for_own_stops(world);
        let mut receivers = Vec::new();
        for kind in [ReceiverKind::Moody, ReceiverKind::Rude, ReceiverKind::Well] {
            receivers.push(Receiver::bind(receivers_on, kind, options.seed)?);
        }
        world.create_namespaces(|kind| receivers[kind as usize].address).await?;
        let serve = |receiver: Receiver| tokio::spawn(receiver.serve(Arc::clone(world)));
        let mut endless: Vec<_> = receivers.into_iter().map(serve).collect();
        endless.push(tokio::spawn(report::progress(Arc::clone(world))));
        let each = f64::from(options.rate.unwrap_or(default_rate)) / f64::from(load::CALLERS);
        let call = |number| tokio::spawn(load::run_caller(Arc::clone(world), number, each));
        let mut callers: Vec<_> = (0..load::CALLERS).map(call).collect();
        callers.push(tokio::spawn(load::redrive(Arc::clone(world))));
        let stops = pause::inject_stops(Arc::clone(world), options.stops_per_minute);
        callers.push(tokio::spawn(stops));
        let (world, consumers) = (Arc::clone(world), consumer::spawn_all(world));
        Ok(Self { world, began: Instant::now(), callers, consumers, endless })
    }

    /// Ends the load. Unless the run was interrupted, it drains and reads every id back.
    async fn finish(self) -> Result<Finished> {
        let loaded = self.began.elapsed();
        // From here on no caller sends new requests.
        self.world.set_phase(RunPhase::Drain);
        for caller in self.callers {
            caller.await?;
        }
        let mut finished = Finished::default();
        if !self.world.is_interrupted() {
            finished = finish::finish(&self.world).await?;
        }
        self.world.set_phase(RunPhase::Done);
        for consumer in self.consumers {
            consumer.await?;
        }
        self.endless.iter().for_each(JoinHandle::abort);
        Ok(Finished { loaded, took: self.began.elapsed(), ..finished })
    }
}
