//! `duly bench`: measures a server under load, in a way that anybody can repeat.
//!
//! `duly-bench` measures. This module has the options, the progress, Ctrl-C and the output. The first
//! Ctrl-C ends the run with the figures so far and cleans up; a second one ends at once.

use std::{path::PathBuf, sync::Mutex};

use duly_bench::{
    Baselines, Delivery, Options, Owner, Place, Refusal, Report, Stop, Stopper, Subject,
    TransportKind,
};
use reqwest::Url;
use tokio::runtime::Builder;

use crate::{
    Outcome,
    args::values,
    failure::Failure,
    output::{Printer, progress::Progress},
    runtime,
};

/// Exit code of a run that was stopped by a second Ctrl-C.
const STOPPED_AT_ONCE: i32 = 1;

/// Measure a server under load, and the baselines of the machine
///
/// Without --server a server is started for the run (DULY_SERVER is ignored). Its data is in a folder of
/// its own, which is removed afterwards. The run uses namespaces of its own with random names, and
/// deletes them at the end. Every timer is counted: exit code 1 if one was lost, early, or delivered
/// twice. For mixed and recovery the whole history of calls is checked. An option that a subject does
/// not use is refused. Ctrl-C ends the run with the figures so far.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The subject of the measurement
    #[arg(value_parser = values::named(&SUBJECTS, Subject::name))]
    subject: Subject,
    /// Way to the timers: a protocol, or a store in this process
    #[arg(
        long,
        default_value = "grpc",
        value_parser = values::named(&TRANSPORTS, TransportKind::name)
    )]
    transport: TransportKind,
    /// Timers per second, sent at fixed times, however fast the server responds. Without it: as fast as
    /// the calls under way allow (lateness, mixed, recovery: 2000; isolation: 200, in the quiet
    /// namespace)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Timers in all, if rate and seconds do not set their number, or in addition to those; default
    /// 1000000; for debounce 10000 ids, for recovery 100000 timers that are not due, for waiting 1000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    timers: Option<u32>,
    /// Timers that stay pending beside the measured ones; default none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pending: Option<u32>,
    /// Time of the measurement, or time over which timers are due; default 10
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Bytes of each payload; at least 16 for mixed and recovery
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(..=65536))]
    payload_bytes: u32,
    /// Timers per call; default 1000, or with a rate as many as make 100 calls per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: Option<u32>,
    /// Calls under way at once; default 8
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    in_flight: Option<u32>,
    /// Method by which firings are delivered (lateness, hot-second); default lease
    #[arg(long, value_name = "METHOD", value_parser = values::named(&DELIVERIES, Delivery::name))]
    delivery: Option<Delivery>,
    /// Empty the page cache of the data before the measurement (only without --server)
    #[arg(long)]
    cold: bool,
    /// Number of namespaces (namespaces, lists); default 1000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    namespaces: Option<u32>,
    /// Timers of each of them (namespaces, lists); default 10
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    each: Option<u32>,
    /// Plot the distribution of times and the timers of each second, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Data directory of a server that is started for the run: selects the disk that is measured
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Do not measure the baselines of the machine first
    #[arg(long)]
    no_baselines: bool,
    /// Allow load on a server that is not on this machine
    #[arg(long)]
    i_own_this_server: bool,
}

const SUBJECTS: [(Subject, &str); 15] = [
    (Subject::Ingest, "Durable schedules"),
    (Subject::Lateness, "How late firings arrive"),
    (Subject::HotSecond, "Many timers due at one instant"),
    (Subject::Repeat, "Schedule calls of timers that exist, in random order"),
    (Subject::Reschedule, "Durable reschedules, in random order"),
    (Subject::Cancel, "Durable cancellations, in random order"),
    (Subject::Debounce, "The same ids replaced over and over"),
    (Subject::Mixed, "Schedules, changes, cancellations and firings together"),
    (
        Subject::Isolation,
        "A quiet namespace alone, beside a dead receiver, and beside one served at full speed",
    ),
    (
        Subject::Recovery,
        "A kill -9 under load, and what comes after it (only with a server of its own)",
    ),
    (Subject::Namespaces, "Many namespaces with a few timers each, due within one second"),
    (Subject::Lists, "Pages of lists over many namespaces, during schedules at full speed"),
    (Subject::DeadLetters, "Many timers due at one instant, which become dead letters"),
    (Subject::Waiting, "Lease calls that wait, one for each timer"),
    (
        Subject::Size,
        "Memory and disk of pending timers, CPU without work, starts after kill -9 (only with a \
         server of its own)",
    ),
];

const TRANSPORTS: [(TransportKind, &str); 3] = [
    (TransportKind::Http, "HTTP/1.1 with JSON"),
    (TransportKind::Grpc, "gRPC"),
    (TransportKind::InProcess, "An embedded store in this process, without a server"),
];

const DELIVERIES: [(Delivery, &str); 3] = [
    (Delivery::Lease, "By calls that wait"),
    (Delivery::Consume, "By one stream with credits; gRPC only"),
    (Delivery::Webhook, "By webhooks to a receiver on this machine"),
];

impl Args {
    fn options(&self, server: Option<Url>) -> Result<Options, Failure> {
        let owner = if self.i_own_this_server { Owner::Caller } else { Owner::Unknown };
        let place = match server {
            Some(_) if self.dir.is_some() => {
                return Err(Failure::usage(
                    "--dir is for a server that is started for the run: leave it out, or --server",
                ));
            }
            Some(server) => Place::At(server, owner),
            None => Place::Own { bin: own_binary()?, dir: self.dir.clone() },
        };
        let options = Options {
            subject: self.subject,
            place,
            transport: self.transport,
            rate: self.rate,
            timers: self.timers,
            seconds: self.seconds,
            payload_bytes: self.payload_bytes as usize,
            batch: self.batch,
            in_flight: self.in_flight,
            delivery: self.delivery,
            pending: self.pending,
            cold: self.cold,
            namespaces: self.namespaces,
            each: self.each,
            baselines: if self.no_baselines { Baselines::Left } else { Baselines::Measured },
        };
        options.ensure_used().map_err(Failure::usage)?;
        Ok(options)
    }
}

/// Runs the command.
pub(crate) fn run(args: Args, server: Option<Url>, printer: Printer) -> Outcome {
    let options = args.options(server)?;
    runtime::start(Builder::new_multi_thread())?.block_on(measure(&args, &options, printer))
}

async fn measure(args: &Args, options: &Options, printer: Printer) -> Outcome {
    let (stopper, stop) = Stop::new();
    // Kept until the end: without its task the run cannot be stopped.
    let stopping = tokio::spawn(stop_when_told(stopper));
    let progress = Mutex::new(Progress::new(printer));
    let show = |done, total, words: &str| {
        if let Ok(mut progress) = progress.lock() {
            progress.show(done, total, words);
        }
    };
    let outcome = duly_bench::run(options, &stop, &show).await;
    stopping.abort();
    if let Ok(mut progress) = progress.lock() {
        progress.clear();
    }
    let report = outcome.map_err(failure)?;
    if let Some(file) = &args.plot {
        report.plot(file).map_err(Failure::new)?;
    }
    printer.document(&report.to_json().to_string(), || Ok(report.to_string()))?;
    judged(&report)
}

/// Returns a failure if the run broke off or found a broken promise. Ctrl-C is no failure.
fn judged(report: &Report) -> Outcome {
    if !report.broken.is_empty() {
        let what = report.broken.join("; ");
        return Err(Failure::coded(
            "promise_broken",
            format_args!(
                "the server did what it must never do: {what}. Keep its data directory and its log, \
                 and report it"
            ),
        ));
    }
    match &report.failed {
        Some(why) => Err(Failure::new(format_args!("the run broke off: {why}"))),
        None => Ok(()),
    }
}

fn failure(error: anyhow::Error) -> Failure {
    match error.downcast_ref::<Refusal>() {
        Some(refusal @ Refusal::Foreign { .. }) => Failure::coded("foreign_server", refusal),
        _ => Failure::new(format_args!("{error:#}")),
    }
}

fn own_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::new(format_args!(
            "this program does not find itself, so it cannot start a server ({error}): start one \
             and name it with --server"
        ))
    })
}

async fn stop_when_told(stopper: Stopper) {
    // If signals are not available, the run continues to its end.
    if tokio::signal::ctrl_c().await.is_ok() {
        stopper.stop();
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(STOPPED_AT_ONCE);
        }
    }
    std::future::pending::<()>().await;
}
