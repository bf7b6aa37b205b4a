//! A run from its beginning to its end: the server, the floors, the subject, and cleaning up.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use url::Url;

use crate::{
    clock::now_ms,
    floor,
    guard::{self, Owner, Refusal},
    ledger::{Drained, Ledger},
    options::{Floors, Options, Place, TransportKind},
    process::{self, Server},
    recorder::Recorder,
    report::Report,
    stop::Stop,
    subject::{self, Run},
    table::Table,
    target::Target,
    transport::{Transport, grpc::Grpc, http::Http},
};

/// Longest time for a server to start, and for a namespace to go.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at how far it is.
const LOOK: Duration = Duration::from_millis(100);

/// Hears how far a run is: done, in all, of what.
pub type Watcher<'a> = &'a (dyn Fn(u64, Option<u64>, &str) + Send + Sync);

/// Measures. A run that was stopped, or that failed half-way, answers the figures so far.
pub async fn run(options: &Options, stop: &Stop, watcher: Watcher<'_>) -> Result<Report> {
    let timers = subject::check(options)?;
    let mut own = None;
    let (address, folder) = match &options.place {
        Place::At(url, owner) => (resolve(url, *owner).await?, TempDir::new()?),
        Place::Own { bin, dir } => {
            let folder = folder(dir.as_deref())?;
            let server = start(bin.clone(), &folder).await?;
            let address = server.address();
            own = Some(server);
            (address, folder)
        }
    };
    let mut table = Table::default();
    if options.floors == Floors::Measured && !stop.is_wanted() {
        watcher(0, None, "measuring the floors of this machine");
        floor::print_into(&mut table, folder.path()).await?;
    }
    let pid = own.as_ref().map(Server::pid);
    let target = Arc::new(Target::new(transport(options, address)?, pid));
    target.transport.make(&target.namespace).await?;
    let mut run = Run {
        options: options.clone(),
        timers,
        target: Arc::clone(&target),
        ledger: Arc::new(Ledger::new(usize::try_from(timers)?, now_ms())),
        stop: stop.clone(),
        measured: Arc::default(),
        behind: Arc::default(),
        prepared: Arc::default(),
        unsent: 0,
        drained: Drained::No,
        out_after: None,
        differs: None,
        used: None,
    };
    let (measured, prepared) = (Arc::clone(&run.measured), Arc::clone(&run.prepared));
    let outcome = tokio::select! {
        outcome = run.go() => outcome,
        () = look(watcher, &measured, &prepared, timers) => Ok(()),
    };
    // What is left of it is nobody's: it goes whatever happened.
    let ended = tokio::time::timeout(PATIENCE, target.transport.end(&target.namespace)).await;
    let left = match ended {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(format!("{error:#}")),
        Err(_) => Some("no answer in time".to_owned()),
    };
    let mut report = Report::of(&run, &outcome, table);
    if let Some(why) = left {
        let namespace = &target.namespace;
        let text = format!("the namespace {namespace} could not be deleted, do it yourself: {why}");
        report.remarks.push(text);
    }
    if let Some(mut server) = own {
        server.stop(PATIENCE).await?;
    }
    Ok(report)
}

async fn look(watcher: Watcher<'_>, measured: &Recorder, prepared: &Recorder, timers: u64) {
    let mut looks = tokio::time::interval(LOOK);
    loop {
        looks.tick().await;
        match measured.count() {
            0 => watcher(prepared.count(), Some(timers), "preparing"),
            done => watcher(done, None, &format!("{done} timers measured")),
        }
    }
}

fn folder(dir: Option<&std::path::Path>) -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("duly-bench-");
    match dir {
        Some(dir) => builder
            .tempdir_in(dir)
            .with_context(|| format!("no folder can be made in {}", dir.display())),
        None => builder.tempdir().context("no folder for temporary files can be made"),
    }
}

async fn start(bin: std::path::PathBuf, folder: &TempDir) -> Result<Server> {
    let options = process::Options {
        bin,
        data: folder.path().join("data"),
        log: folder.path().join("server.log"),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        settings: &[],
    };
    Server::start(&options, PATIENCE).await.map_err(|error| {
        let log = process::tail(&options.log, 5);
        anyhow::anyhow!("a server of its own did not start: {error:#}\n{log}")
    })
}

async fn resolve(url: &Url, owner: Owner) -> Result<SocketAddr> {
    anyhow::ensure!(
        url.scheme() == "http",
        "{url}: a benchmark speaks http:// only; https:// would measure the encryption as well"
    );
    let nowhere = || Refusal::Nowhere { server: url.to_string() };
    let host = url.host_str().ok_or_else(nowhere)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().ok_or_else(nowhere)?;
    let found = tokio::net::lookup_host((host, port)).await;
    let addresses: Vec<_> = found.map(Iterator::collect).unwrap_or_default();
    Ok(guard::judge(url.as_str(), &addresses, owner)?)
}

fn transport(options: &Options, address: SocketAddr) -> Result<Arc<dyn Transport>> {
    let lines = usize::try_from(options.in_flight)?.max(subject::LINES_MIN);
    let payload = "0123456789abcdef".chars().cycle().take(options.payload_bytes).collect();
    Ok(match options.transport {
        TransportKind::Http => Arc::new(Http::new(address, lines, payload)),
        TransportKind::Grpc => Arc::new(Grpc::new(address, lines, payload)?),
    })
}
