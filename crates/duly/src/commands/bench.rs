//! `duly bench`: puts a server under load and says what it does, for anybody to see the figures again.
//!
//! What is measured and how stands in `duly-load`; here are the options, the progress, Ctrl-C and the
//! output. The first Ctrl-C ends the run with the figures so far and cleans up, a second one ends at
//! once.

use std::{path::PathBuf, sync::Mutex};

use duly_load::{
    Floors, Options, Owner, Place, Pull, Refusal, Report, Stop, Stopper, Subject, TransportKind,
};
use reqwest::Url;
use tokio::runtime::Builder;

use crate::{
    Outcome,
    args::values,
    cli::runtime,
    failure::Failure,
    output::{Printer, progress::Progress},
};

/// Exit code of a run that was told to stop twice.
const STOPPED_AT_ONCE: i32 = 1;

/// Measure a server under load, beside the baselines of the machine
///
/// Without --server one is started for the run (DULY_SERVER is not looked at), with its data in a
/// folder of its own that is removed afterwards. Works in namespaces of its own with a random name and
/// deletes them in the end. Every timer is counted: exit code 1 if one was lost, early, or came twice;
/// of mixed and recovery the whole history is judged. An option that a subject does not use is refused.
/// Ctrl-C ends the run with the figures so far.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What is measured
    #[arg(value_parser = values::named(&SUBJECTS, Subject::name))]
    subject: Subject,
    /// How the server is spoken to
    #[arg(
        long,
        value_name = "HOW",
        default_value = "grpc",
        value_parser = values::named(&TRANSPORTS, TransportKind::name)
    )]
    transport: TransportKind,
    /// Timers a second, sent at fixed times whatever the server does; without it as fast as the calls
    /// under way allow (lateness, mixed, recovery: 2000; isolation: 200, in the quiet namespace)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Timers in all where rate and seconds do not say it, or besides those; 1000000, for debounce
    /// 10000 ids, for recovery 100000 that rest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    timers: Option<u32>,
    /// How long is measured, or over how long timers are due; 10
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Bytes of each payload; at least 16 for mixed and recovery
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(..=65536))]
    payload_bytes: u32,
    /// Timers of a call; 1000, or with a rate as many as make 100 calls a second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: Option<u32>,
    /// Calls under way at once; 8
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    in_flight: Option<u32>,
    /// How consumers get firings (lateness); lease
    #[arg(long, value_name = "HOW", value_parser = values::named(&PULLS, Pull::name))]
    pull: Option<Pull>,
    /// Namespaces (namespaces); 1000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    namespaces: Option<u32>,
    /// Timers of each of them (namespaces); 10
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    each: Option<u32>,
    /// Draw the distribution of times and the timers of each second, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Where the data of a server of its own is: decides which disk is measured
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Do not measure the baselines of the machine first
    #[arg(long)]
    no_baselines: bool,
    /// The server may be put under load although it is not on this machine
    #[arg(long)]
    i_own_this_server: bool,
}

const SUBJECTS: [(Subject, &str); 9] = [
    (Subject::Ingest, "Durable schedules"),
    (Subject::Lateness, "How late firings arrive"),
    (Subject::HotSecond, "Many timers due at one instant"),
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
];

const TRANSPORTS: [(TransportKind, &str); 2] =
    [(TransportKind::Http, "HTTP/1.1 with JSON"), (TransportKind::Grpc, "gRPC")];

const PULLS: [(Pull, &str); 2] =
    [(Pull::Lease, "By calls that wait"), (Pull::Consume, "By one stream with credits; gRPC only")];

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
            pull: self.pull,
            namespaces: self.namespaces,
            each: self.each,
            floors: if self.no_baselines { Floors::Left } else { Floors::Measured },
        };
        options.ensure_used().map_err(Failure::usage)?;
        Ok(options)
    }
}

/// Runs it.
pub(crate) fn run(args: Args, server: Option<Url>, printer: Printer) -> Outcome {
    let options = args.options(server)?;
    runtime(Builder::new_multi_thread())?.block_on(measure(&args, &options, printer))
}

async fn measure(args: &Args, options: &Options, printer: Printer) -> Outcome {
    let (stopper, stop) = Stop::new();
    // Held until the end: a run whose stopper is gone is never told to stop.
    let stopping = tokio::spawn(stop_when_told(stopper));
    let progress = Mutex::new(Progress::new(printer));
    let show = |done, total, words: &str| {
        if let Ok(mut progress) = progress.lock() {
            progress.show(done, total, words);
        }
    };
    let outcome = duly_load::run(options, &stop, &show).await;
    stopping.abort();
    if let Ok(mut progress) = progress.lock() {
        progress.clear();
    }
    let report = outcome.map_err(failure)?;
    if let Some(file) = &args.plot {
        duly_load::plot::draw(file, &report).map_err(Failure::new)?;
    }
    printer.document(&report.to_json().to_string(), || Ok(report.to_string()))?;
    judged(&report)
}

/// A run that was stopped by hand is no failure; one that broke off or found something is.
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
    // Without signals a run goes to its end, which is no harm.
    if tokio::signal::ctrl_c().await.is_ok() {
        stopper.stop();
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(STOPPED_AT_ONCE);
        }
    }
    std::future::pending::<()>().await;
}
