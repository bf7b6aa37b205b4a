//! A run from start to end: server, baselines, subject, cleanup.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Result;
use parking_lot::Mutex;
use tokio::time::timeout;
use url::Url;

use crate::{
    clock::now_ms,
    floor,
    guard::{self, Owner, Refusal},
    ledger::{Drained, Ledger},
    options::{self, Floors, Options, Place, Subject},
    own::{self, Own},
    recorder::Recorder,
    report::Report,
    stop::Stop,
    subject::{self, Run},
    table::Table,
    target::Target,
    transport::Speaker,
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
    let (own, address) = match &options.place {
        Place::At(url, owner) => (None, resolve(url, *owner).await?),
        Place::Own { bin, dir } => {
            let own = Own::start(bin.clone(), own::folder(dir.as_deref())?).await?;
            let address = own.address();
            (Some(own), address)
        }
    };
    let mut table = Table::default();
    if options.floors == Floors::Measured {
        watcher(0, None, "measuring the floors of this machine");
        let measured = match &own {
            Some(own) => floors(&mut table, own.folder(), stop).await,
            None => floors(&mut table, own::folder(None)?.path(), stop).await,
        };
        measured?;
    }
    let speaker = speaker(options, address)?;
    let target = Arc::new(Target::new(speaker.transport()));
    let mut run = Run {
        options: options.clone(),
        address,
        timers,
        speaker,
        target: Arc::clone(&target),
        ledger: Arc::new(Ledger::new(usize::try_from(timers)?, now_ms())),
        stop: stop.clone(),
        own,
        measured: Arc::default(),
        behind: Arc::default(),
        prepared: Arc::default(),
        phase: Arc::default(),
        judge: None,
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
    let outcome = tokio::select! {
        outcome = run.go() => outcome,
        () = look(watcher, &measured, &prepared, &phase, timers) => Ok(()),
        // Calls in flight are abandoned: they may take long.
        () = stop.passed() => Ok(()),
    };
    let left = match run.own.take() {
        // This also removes the data of the server.
        Some(own) => own.end(stop).await.err(),
        None => end(options, address, &target, stop).await.err(),
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

async fn floors(table: &mut Table, folder: &Path, stop: &Stop) -> Result<()> {
    tokio::select! {
        measured = floor::print_into(table, folder) => measured,
        () = stop.wanted() => Ok(()),
    }
}

/// Deletes the namespaces of a run, over separate connections: those of the run may be in the
/// middle of a call.
async fn end(options: &Options, address: SocketAddr, target: &Target, stop: &Stop) -> Result<()> {
    let transport = Speaker::new(options.transport, address, ENDERS, 0)?.transport();
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
    Ok(guard::judge(url.as_str(), &addresses, owner)?)
}

fn speaker(options: &Options, address: SocketAddr) -> Result<Speaker> {
    let offered = usize::try_from(options.in_flight())?;
    let lines = match options.subject {
        Subject::Namespaces => subject::CALLERS,
        _ => offered + subject::LINES_MORE,
    };
    Speaker::new(options.transport, address, lines, options.payload_bytes)
}
