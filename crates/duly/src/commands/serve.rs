//! `duly serve`: runs a server until it receives a signal.
//!
//! 1. The first SIGINT or SIGTERM lets requests and attempts finish; then the process exits with 0.
//! 2. A second signal exits at once. Nothing that was acknowledged is lost.
//! 3. If the store has ended, the process exits with a code of its own, so that its supervisor restarts
//!    it.
//! 4. The start report goes to stdout; logs go to stderr.

use std::{path::PathBuf, time::Duration};

use duly_server::{
    Address, StartError, StartReport,
    config::{self, Config},
    telemetry::logging,
};
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{
    Outcome,
    args::{
        environment::{self, Unread},
        server::DEFAULT,
        values,
    },
    commands::config::SourceArgs,
    failure::Failure,
    open_files::{self, ConnectionsLowered},
    output::{Printer, text, when},
    runtime, service_manager,
};

/// Exit code of a server that received a second signal.
const STOPPED_AT_ONCE: i32 = 1;
/// Time that tasks have to end after the store has ended.
const TASKS_END_WITHIN: Duration = Duration::from_secs(1);

/// Run a server
///
/// Needs no configuration: by default it listens on 127.0.0.1:3859 and keeps its data in ./duly-data.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory; created if it does not exist
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// The store that several nodes share, instead of a directory: redis://HOST:PORT or
    /// redis-cluster://HOST:PORT,…; rediss for TLS. A password is set in store.password_file
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Addresses to listen on, separated by commas: 127.0.0.1:3859, unix:/run/duly.sock; port 0 selects
    /// a free port
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',', value_parser = values::address)]
    listen: Option<Vec<Address>>,
}

/// Runs the command.
pub(crate) fn run(args: Args, printer: Printer) -> Outcome {
    let Args { config, data, store, listen } = args;
    let listen = listen
        .map(|addresses| addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(","));
    let source = SourceArgs { config, data, store, listen }.source();
    let mut config = config::load_with_files(&source).map_err(Failure::new)?;
    logging::init(&config.log.level.0, config.log.format);
    for Unread { name, meant } in environment::unread(true) {
        let meant = meant.unwrap_or_default();
        tracing::warn!(variable = name, meant, "a variable of the environment is not read");
    }
    open_files::raise_limit();
    let lowered = open_files::limit_connections(&mut config);
    let runtime = runtime::start(Builder::new_multi_thread())?;
    let outcome = runtime.block_on(serve(config, lowered, printer));
    if let Err(Failure::StoreEnded(reason)) = &outcome {
        // The cause is the last line: nothing else that could log is running.
        runtime.shutdown_timeout(TASKS_END_WITHIN);
        tracing::error!("{reason}");
        return outcome;
    }
    // A store that is still opening is not waited for. It ends as in a crash, which is safe.
    runtime.shutdown_background();
    outcome
}

/// Ends the default action of SIGHUP, by which a signal during the start would end the server without an error, so
/// that its supervisor would not restart it. Called before all else.
pub(crate) fn receive_hang_ups() {
    // The handler stays after the runtime. A failure is reported when the server listens for signals.
    if let Ok(runtime) = runtime::start(Builder::new_current_thread()) {
        runtime.block_on(async { listen_for(SignalKind::hangup()).ok() });
    }
}

async fn serve(config: Config, lowered: Option<ConnectionsLowered>, printer: Printer) -> Outcome {
    // Signals are received from the start, so that one during the opening of the store is not lost.
    let mut stop = Stop::listen()?;
    tokio::spawn(hang_ups(listen_for(SignalKind::hangup())?));
    service_manager::opening();
    let running = tokio::select! {
        started = duly_server::start(config) => started.map_err(Failure::new)?,
        () = stop.requested() => {
            tracing::info!("stopped by a signal before the store was open");
            return Ok(());
        }
    };
    if let Some(lowered) = lowered {
        lowered.warn();
    }
    let (url, _) = urls(running.report());
    service_manager::ready(&format!("listens on {url}"), running.progress());
    // A closed stdout does not end the server.
    let document = document(running.report()).to_string();
    printer.document(&document, || Ok(start_report(running.report()))).ok();
    let stop_requested = async move {
        stop.requested().await;
        service_manager::stopping();
        tracing::info!("stopping; a second signal stops at once");
        tokio::spawn(async move {
            stop.requested().await;
            tracing::warn!(
                "second signal, stopping at once; unfinished attempts will be retried after \
                 the next start"
            );
            std::process::exit(STOPPED_AT_ONCE);
        });
    };
    running.wait_for_stop(stop_requested).await.map_err(|error| match error {
        StartError::StoreEnded(reason) => Failure::StoreEnded(reason),
        error => Failure::new(error),
    })
}

/// The signals that stop a server.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn listen() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: listen_for(SignalKind::interrupt())?,
            terminate: listen_for(SignalKind::terminate())?,
        })
    }

    async fn requested(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn listen_for(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(format_args!("cannot listen for signals: {error}")))
}

/// Logs each SIGHUP, which reads certificates again. Without a listener SIGHUP would end a server that has no
/// certificates: `systemctl reload` would stop it.
async fn hang_ups(mut signals: Signal) {
    while signals.recv().await.is_some() {
        tracing::info!("SIGHUP: certificates are read again; other settings need a restart");
    }
}

/// Returns the URL of the first address, and those of the others.
fn urls(report: &StartReport) -> (String, Vec<String>) {
    let mut urls: Vec<_> = report.listen.iter().map(|it| it.url(report.is_https)).collect();
    (urls.remove(0), urls)
}

/// Returns the URL of the additional address for probes.
fn admin_url(report: &StartReport) -> Option<String> {
    report.admin_listen.as_ref().map(|it| it.url(report.is_https && !it.is_local()))
}

/// Returns the start report as JSON.
fn document(report: &StartReport) -> serde_json::Value {
    let (first, others) = urls(report);
    serde_json::json!({
        "listening_on": first,
        "also_listening_on": others,
        "admin_listening_on": admin_url(report),
        "version": env!("CARGO_PKG_VERSION"),
        "data": report.data,
        "open_ms": u64::try_from(report.open_time.as_millis()).unwrap_or(u64::MAX),
        "pending": report.pending,
        "overdue": report.overdue,
        "dead": report.dead,
        "namespaces": report.namespaces,
        "tail": report.tail,
        "warnings": report.warnings,
    })
}

/// Returns the start report as text.
fn start_report(report: &StartReport) -> String {
    let (url, others) = urls(report);
    let open_ms = u64::try_from(report.open_time.as_millis()).unwrap_or(u64::MAX);
    let mut lines = vec![format!("duly {} listens on {url}", env!("CARGO_PKG_VERSION"))];
    lines.extend(others.iter().map(|other| format!("also on {other}")));
    if let Some(admin) = admin_url(report) {
        lines.push(format!("health, readiness and metrics also on {admin}"));
    }
    lines.extend([
        format!("data in {}, opened in {}", report.data, when::distance(open_ms)),
        format!(
            "{} pending, {} overdue, {}, {}",
            report.pending,
            report.overdue,
            text::count(report.dead, "dead letter"),
            match report.namespaces {
                Some(namespaces) => text::count(namespaces, "namespace"),
                None => "namespaces not counted".to_owned(),
            }
        ),
    ]);
    lines.extend(report.tail.warning().map(str::to_owned));
    lines.extend(report.warnings.iter().map(|warning| format!("warning: {warning}")));
    let server = if url == DEFAULT { String::new() } else { format!(" --server {url}") };
    lines.push(format!("try: duly schedule demo --in 10s --payload-text hello{server}"));
    lines.join("\n")
}
