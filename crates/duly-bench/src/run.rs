//! A run from start to end: server, baselines, subject, cleanup.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Result;
use parking_lot::Mutex;
use tokio::time::timeout;
use url::Url;

use crate::{
    baseline,
    clock::now_ms,
    guard::{self, Owner, Refusal},
    ledger::{Drained, Ledger},
    options::{self, Baselines, Options, Place, Subject},
    own_server::{self, OwnServer},
    recorder::Recorder,
    report::Report,
    stop::Stop,
    subject::{self, Run},
    table::Table,
    target::Target,
    transport::Client,
    transport::TransportKind,
};

/// Longest time to delete a run's namespaces.
const PATIENCE: Duration = Duration::from_secs(120);
/// The same limit if the run is to stop.
const HURRY: Duration = Duration::from_millis(700);
/// Concurrent calls that delete namespaces.
const ENDERS: usize = 16;
/// Time between two progress polls.
const LOOK: Duration = Duration::from_millis(100);

/// Callback for the progress of a run: items done, all items, and a description.
pub type Watcher<'a> = &'a (dyn Fn(u64, Option<u64>, &str) + Send + Sync);

/// Measures. A run that was stopped, or that failed midway, returns the figures so far.
pub async fn run(options: &Options, stop: &Stop, watcher: Watcher<'_>) -> Result<Report> {
    let timers = options::check(options)?;
    // Removed at the end of the run.
    let folder = own_server::folder(options.place.dir())?;
    let (own, client) = start(options, folder.path()).await?;
    let mut table = Table::default();
    if options.baselines == Baselines::Measured {
        watcher(0, None, "measuring the baselines of this machine");
        tokio::select! {
            measured = baseline::print_into(&mut table, folder.path()) => measured?,
            () = stop.wanted() => {}
        }
        if options.subject == Subject::Lateness && !stop.is_wanted() {
            baseline::print_busy_into(&mut table).await?;
        }
    }
    let target = Arc::new(Target::new(client.transport()));
    let mut run = Run {
        options: options.clone(),
        folder: folder.path().to_owned(),
        timers,
        client,
        target: Arc::clone(&target),
        ledger: Arc::new(Ledger::new(usize::try_from(timers)?, now_ms())),
        stop: stop.clone(),
        own,
        measured: Arc::default(),
        behind: Arc::default(),
        prepared: Arc::default(),
        phase: Arc::default(),
        recording: None,
        stretches: Vec::new(),
        unsent: 0,
        drained: Drained::No,
        out_after: None,
        differs: None,
        used: None,
        table,
    };
    let (measured, prepared) = (Arc::clone(&run.measured), Arc::clone(&run.prepared));
    let phase = Arc::clone(&run.phase);
    let scheduled = timers + u64::from(options.pending.unwrap_or(0));
    let outcome = tokio::select! {
        outcome = run.go() => outcome,
        () = look(watcher, &measured, &prepared, &phase, scheduled) => Ok(()),
        // Calls in flight are abandoned: they may take long.
        () = stop.passed() => Ok(()),
    };
    let left = match run.own.take() {
        Some(own) => own.end(stop).await.err(),
        None if options.transport == TransportKind::InProcess => None,
        None => end(&run.client, &target, stop).await.err(),
    };
    let mut report = Report::of(run, &outcome);
    report.remarks.extend(left.map(|error| format!("{error:#}")));
    Ok(report)
}

async fn look(
    watcher: Watcher<'_>,
    measured: &Recorder,
    prepared: &Recorder,
    phase: &Mutex<Option<&'static str>>,
    timers: u64,
) {
    let mut looks = tokio::time::interval(LOOK);
    loop {
        looks.tick().await;
        let phase = *phase.lock();
        match (measured.count(), phase) {
            (0, None) => watcher(prepared.count(), Some(timers), "preparing"),
            (0, Some(phase)) => watcher(prepared.count(), None, phase),
            (done, None) => watcher(done, None, &format!("{done} timers measured")),
            (done, Some(phase)) => watcher(done, None, &format!("{phase}, {done} timers measured")),
        }
    }
}

/// Starts what the run measures, unless it runs already, and returns a client of it.
async fn start(options: &Options, folder: &Path) -> Result<(Option<OwnServer>, Client)> {
    let (kind, payload_bytes) = (options.transport, options.payload_bytes);
    let lines = match options.subject {
        Subject::Namespaces => subject::CALLERS,
        _ => usize::try_from(options.in_flight())? + subject::LINES_MORE,
    };
    let client = |address| Client::new(kind, address, lines, payload_bytes);
    match &options.place {
        Place::At(url, owner) => Ok((None, client(resolve(url, *owner).await?)?)),
        Place::Own { .. } if kind == TransportKind::InProcess => {
            Ok((None, Client::in_process(folder, payload_bytes)?))
        }
        Place::Own { bin, .. } => {
            let own = OwnServer::start(bin.clone(), folder).await?;
            let client = client(own.address())?;
            Ok((Some(own), client))
        }
    }
}

/// Deletes the namespaces of a run, over separate connections: those of the run may be in the
/// middle of a call.
async fn end(client: &Client, target: &Target, stop: &Stop) -> Result<()> {
    let transport = client.separate(ENDERS)?.transport();
    let patience = if stop.is_wanted() { HURRY } else { PATIENCE };
    let ended = match timeout(patience, target.end_all(transport, ENDERS)).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => format!("{error:#}"),
        Err(_) => "no answer in time".to_owned(),
    };
    let namespace = &target.namespace;
    anyhow::bail!(
        "the namespaces {namespace}* could not all be deleted, look and do it yourself: {ended}"
    )
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
    Ok(guard::checked_address(url.as_str(), &addresses, owner)?)
}
