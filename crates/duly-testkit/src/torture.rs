//! A real server under a mixed load, killed with -9 at random moments, and judged.
//!
//! ```text
//!  load ──schedule, cancel, …──►┌────────┐──webhooks──► receiver
//!  consumers ──lease, settle──► │ server │ ◄──kill -9── killer ──start──►
//!       │                       └────────┘                  │
//!       └──────────────► world::World (recorder) ◄──────────┘
//! ```
//!
//! Every choice comes from the seed; what overlaps with what does not, so a seed repeats the kind
//! of run, not the run. At the end everybody behaves well until nothing is left to do, every id is
//! read back, and the [`crate::checker`] judges.

mod consumer;
mod finish;
mod killer;
mod load;
mod plan;
mod receiver;
mod report;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use tokio::sync::watch;

use crate::checker;
use crate::history::file;
use crate::process;
pub use report::Report;
use world::{Phase, World};

/// Longest time a start may take.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// What `duly-torture` takes.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "duly-torture",
    about = "Loads a duly server, kills it again and again, and checks every promise"
)]
pub struct Options {
    /// Minutes of load (fractions allowed), before the drain.
    #[arg(long, default_value_t = 1.0)]
    pub minutes: f64,
    /// Where every random choice starts.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The `duly` binary under test.
    #[arg(long, env = "DULY_BIN", default_value = "duly")]
    pub bin: PathBuf,
    /// Keep the data directory and the history also when nothing was found.
    #[arg(long)]
    pub keep_data: bool,
    /// Kills per minute of load, on average.
    #[arg(long, default_value_t = 12.0)]
    pub kills_per_minute: f64,
    /// Callers' operations per second, at most.
    #[arg(long, default_value_t = 400)]
    pub rate: u32,
    /// Judge a history that an earlier run kept, and do nothing else.
    #[arg(long, value_name = "FILE")]
    pub judge: Option<PathBuf>,
}

/// So small that segments roll, checkpoints are taken and files are rewritten all the time.
const SMALL_FILES: &[(&str, &str)] = &[
    ("DULY_STORE__SEGMENT_BYTES", "256KiB"),
    ("DULY_STORE__CHECKPOINT_BYTES", "256KiB"),
    ("DULY_STORE__YOUNG_BYTES", "256KiB"),
];

/// Runs, judges and reports; keeps the evidence of a failure.
pub async fn run(options: &Options) -> Result<Report> {
    let dir = tempfile::Builder::new().prefix("duly-torture-").tempdir()?;
    let (phase, phases) = watch::channel(Phase::Load);
    let receiver = receiver::Receiver::bind(options.seed).await?;
    let start = process::Options {
        bin: options.bin.clone(),
        data: dir.path().join("data"),
        log: dir.path().join("server.log"),
        listen: std::net::SocketAddr::from(([127, 0, 0, 1], 0)),
        settings: SMALL_FILES,
    };
    let outcome = drive(options, &start, receiver, phase, phases).await;
    match outcome {
        Ok((mut report, history)) => {
            if !report.is_clean() || options.keep_data {
                let kept = dir.keep();
                let path = kept.join("history.json");
                file::save(&history, &path)
                    .with_context(|| format!("cannot write {}", path.display()))?;
                report.kept = Some(kept);
            }
            Ok(report)
        }
        Err(error) => {
            let tail = process::tail(&start.log, 20);
            let kept = dir.keep();
            Err(error.context(format!(
                "the run broke off; kept {}; last lines of server.log:\n{tail}",
                kept.display()
            )))
        }
    }
}

async fn drive(
    options: &Options,
    start: &process::Options,
    receiver: receiver::Receiver,
    phase: watch::Sender<Phase>,
    phases: watch::Receiver<Phase>,
) -> Result<(Report, crate::history::History)> {
    let began = Instant::now();
    let server = process::Server::start(start, START_PATIENCE).await?;
    let start = process::Options { listen: server.address(), ..start.clone() };
    let world = Arc::new(World::new(server.address(), options.seed, phases));
    world.put_namespaces(receiver.address()).await?;
    let receiving = tokio::spawn(receiver.serve(Arc::clone(&world)));
    let mut workers = Vec::new();
    for number in 0..load::WRITERS {
        let each = f64::from(options.rate) / f64::from(load::WRITERS);
        workers.push(tokio::spawn(load::write(Arc::clone(&world), number, each)));
    }
    workers.push(tokio::spawn(load::redrive(Arc::clone(&world))));
    let consumers = consumer::spawn_all(&world);
    let progress = tokio::spawn(report::progress(Arc::clone(&world)));

    let plan = killer::Plan {
        kills_per_minute: options.kills_per_minute,
        lasting: Duration::from_secs_f64(options.minutes * 60.0),
        patience: START_PATIENCE,
    };
    let (mut server, how) = killer::run(&world, &start, server, &plan).await?;
    // From here on nobody asks for anything new.
    phase.send_replace(Phase::Drain);
    for worker in workers {
        worker.await?;
    }
    let mut finished = finish::Finished::default();
    if how == killer::Ended::InTime {
        finished = finish::finish(&world).await?;
    }
    phase.send_replace(Phase::Done);
    for consumer in consumers {
        consumer.await?;
    }
    receiving.abort();
    progress.abort();
    let stopped = server.stop(Duration::from_secs(40)).await;
    if !matches!(stopped, Ok(true)) {
        finished.complaints.push(format!("the server did not stop well: {stopped:?}"));
    }
    let mut history = world.recorder.take();
    history.drained = finished.drained;
    let verdict = checker::check(&history);
    let report = Report::new(options, &history, verdict, finished, began.elapsed());
    Ok((report, history))
}
