//! `duly export`: writes namespaces with their timers and dead letters as lines, for `duly import`.

pub(crate) mod checksum;
pub(crate) mod line;
mod target;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    time::{Duration, Instant},
};

use duly_core::{Millis, NamespaceName};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::{
    checksum::Sum,
    line::{ExportLine, NamespaceEnd, NamespaceHead},
    target::Target,
};
use crate::{
    Outcome,
    args::values,
    commands::namespace,
    failure::Failure,
    output::{Progress, text, warn},
    session::Session,
};

/// Time between two polls of the firings in flight.
const PAUSE: Duration = Duration::from_millis(200);

/// Write timers and dead letters as lines of JSON, for `duly import` at another server
///
/// Delivery ids, attempts and history are exported, so receivers recognise repeated deliveries of the
/// other server. Lease tokens, ended timers and signing secrets are not exported. The file contains
/// payloads and the credentials in the headers of destinations: keep it as safe as those. The file
/// appears only when it is complete. It contains the counts of its timers and dead letters, and a
/// checksum, which an import verifies.
///
/// To move without firing anything twice, stop the programs that schedule and cancel, and use --drain.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The namespaces
    #[arg(
        value_name = "NAMESPACE",
        value_parser = values::namespace,
        add = clap_complete::ArgValueCandidates::new(crate::args::connection::completed_namespaces),
        required_unless_present = "all"
    )]
    namespaces: Vec<NamespaceName>,
    /// Every namespace of the server
    #[arg(long, conflicts_with = "namespaces")]
    all: bool,
    /// The file to write, `-` for stdout
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Pause each namespace first and wait until nothing of it is in flight; it stays paused
    #[arg(long)]
    drain: bool,
    /// Longest wait for firings in flight
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2m",
        value_parser = values::duration,
        requires = "drain"
    )]
    drain_timeout: Millis,
}

/// A page of the server's response.
#[derive(Deserialize)]
struct Page {
    namespace: Option<Box<RawValue>>,
    timers: Vec<Box<RawValue>>,
    cursor: Option<String>,
}

/// The counts of an exported namespace.
#[derive(Serialize)]
struct Exported {
    #[serde(flatten)]
    end: NamespaceEnd,
    paused: bool,
}

/// A running export.
struct Export<'a> {
    session: &'a Session,
    target: Target,
    sum: Sum,
    progress: Progress,
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let names = if args.all {
        let (all, _) = namespace::all(session).await?;
        all.iter().map(namespace::checked_name).collect::<Result<_, _>>()?
    } else {
        args.namespaces.clone()
    };
    // If a signal itself ended the process, secrets would stay behind in an unfinished file.
    let mut stop = Stop::listen()?;
    let (target, progress) = (Target::open(&args.to, args.force)?, Progress::new(session.printer));
    let mut export = Export { session, target, sum: Sum::default(), progress };
    let written = tokio::select! {
        written = export.write_all(&args, &names) => written,
        () = stop.requested() => Err(Failure::coded(
            "interrupted",
            "interrupted: nothing was exported; paused namespaces stay paused",
        )),
    };
    export.progress.clear();
    let exported = written?;
    let is_file = export.target.is_file();
    export.target.finish()?;
    if is_file {
        return print_summary(&args, &exported, session);
    }
    if !session.printer.is_json() && !session.printer.is_quiet {
        // Stdout has the exported lines.
        for one in &exported {
            writeln!(io::stderr(), "{}", one.sentence()).ok();
        }
    }
    Ok(())
}

/// The signals that stop an export; SIGHUP when the terminal is closed.
struct Stop([Signal; 3]);

impl Stop {
    fn listen() -> io::Result<Self> {
        let [interrupt, terminate, hang_up] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
        Ok(Self([interrupt?, terminate?, hang_up?]))
    }

    async fn requested(&mut self) {
        let [interrupt, terminate, hang_up] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}

impl Export<'_> {
    /// Writes one namespace after the other.
    async fn write_all(
        &mut self,
        args: &Args,
        names: &[NamespaceName],
    ) -> Result<Vec<Exported>, Failure> {
        let mut exported = Vec::new();
        for name in names {
            if args.drain {
                self.drain(name, args.drain_timeout).await?;
            }
            exported.push(self.write(name).await?);
        }
        let trailer = Some(self.sum.end());
        self.line(&ExportLine { trailer, ..ExportLine::default() })?;
        Ok(exported)
    }

    /// Writes a line.
    fn line(&mut self, line: &ExportLine) -> Outcome {
        let line = serde_json::to_vec(line).map_err(|error| {
            Failure::new(format_args!("a line of the export cannot be written: {error}"))
        })?;
        self.sum.add(&line);
        self.target.line(&line)
    }

    /// Pauses a namespace and waits until nothing of it is in flight.
    async fn drain(&mut self, namespace: &NamespaceName, drain_timeout: Millis) -> Outcome {
        self.session.http.post(namespace, &["pause"]).send_patiently(self.session.printer).await?;
        let until = Instant::now() + drain_timeout.to_std();
        let mut most = 0;
        loop {
            let in_flight = namespace::counts(self.session, namespace).await?.in_flight;
            if in_flight == 0 {
                return Ok(());
            }
            let firings = text::count(in_flight, "firing");
            if Instant::now() >= until {
                return Err(Failure::coded(
                    "still_in_flight",
                    format_args!(
                        "{firings} of {namespace} still in flight after {drain_timeout}: nothing was \
                         exported, and {namespace} stays paused. Repeat the command with a longer \
                         --drain-timeout (a consumer's lease ends by itself), or resume it with `duly \
                         namespace resume {namespace}`"
                    ),
                ));
            }
            most = in_flight.max(most);
            self.progress.show(
                most - in_flight,
                Some(most),
                &format!("{namespace}: {firings} in flight"),
            );
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Writes one namespace.
    async fn write(&mut self, namespace: &NamespaceName) -> Result<Exported, Failure> {
        let before = namespace::counts(self.session, namespace).await?;
        let total = before.pending + before.dead;
        let mut written = [0_u64; 2];
        let mut is_paused = false;
        for (place, state) in ["pending", "dead"].into_iter().enumerate() {
            let mut query = vec![("state", state.to_owned())];
            loop {
                let call = self.session.http.get(namespace, &["export"]);
                let page: Page =
                    call.query(&query).send_patiently(self.session.printer).await?.parse()?;
                if let Some(raw) = page.namespace.filter(|_| place == 0) {
                    is_paused = self.warn_unless_paused(&raw)?;
                    self.line(&ExportLine { namespace: Some(raw), ..ExportLine::default() })?;
                }
                for timer in page.timers {
                    self.line(&ExportLine { timer: Some(timer), ..ExportLine::default() })?;
                    written[place] += 1;
                }
                let done = written.iter().sum();
                let timers = text::count(done, "timer");
                self.progress.show(done, Some(total), &format!("{namespace}: {timers} exported"));
                let Some(cursor) = page.cursor else { break };
                query = vec![("state", state.to_owned()), ("cursor", cursor)];
            }
        }
        let [timers, dead] = written;
        let end = NamespaceEnd { namespace: namespace.to_string(), timers, dead, trailer: false };
        let line = NamespaceEnd { trailer: true, ..end.clone() };
        self.line(&ExportLine { end: Some(line), ..ExportLine::default() })?;
        let after = namespace::counts(self.session, namespace).await?;
        if (after.pending, after.dead) != (timers, dead) {
            self.progress.clear();
            warn(&format!(
                "{namespace} changed while it was exported: it has {} and {} now, and {timers} and \
                 {dead} were exported; stop the programs that schedule and cancel there, and export \
                 again",
                text::count(after.pending, "pending timer"),
                text::count(after.dead, "dead letter"),
            ));
        }
        Ok(Exported { end, paused: is_paused })
    }

    /// Returns `true` if the namespace is paused without a time to resume; otherwise warns.
    fn warn_unless_paused(&mut self, raw: &RawValue) -> Result<bool, Failure> {
        let head: NamespaceHead = serde_json::from_str(raw.get()).map_err(|error| {
            Failure::new(format_args!("the server's response has no namespace name: {error}"))
        })?;
        let is_paused = head.paused && head.resumes_at.is_none();
        if !is_paused && !self.session.printer.is_quiet {
            self.progress.clear();
            let (name, why) = match head.resumes_at {
                Some(at) => (head.name, format!("resumes by itself at {at}")),
                None => (head.name, "is not paused".to_owned()),
            };
            warn(&format!(
                "{name} {why}: timers that fire here during the move may fire again at the other \
                 server; --drain pauses it and waits for the firings in flight"
            ));
        }
        Ok(is_paused)
    }
}

/// Prints the counts and the next steps.
fn print_summary(args: &Args, exported: &[Exported], session: &Session) -> Outcome {
    let file = text::line(&args.to.display().to_string());
    let document = json!({ "file": file, "namespaces": exported });
    session.printer.document(&document.to_string(), || {
        let mut lines: Vec<String> = exported.iter().map(Exported::sentence).collect();
        // Nothing is kept in a device.
        if args.to.is_file() {
            lines.push(format!(
                "{file} is complete and contains secrets; import it at the other server:"
            ));
            lines.push(format!("  duly import {file} --create-namespaces --server URL"));
        }
        if args.drain {
            lines.push(
                "the exported timers also stay here, paused: delete the namespaces after the \
                 import, or resume them to cancel the move"
                    .to_owned(),
            );
        }
        Ok(lines.join("\n"))
    })
}

impl Exported {
    fn sentence(&self) -> String {
        let NamespaceEnd { namespace, timers, dead, trailer: _ } = &self.end;
        let timers = text::count(*timers, "timer");
        let dead_letters = text::count(*dead, "dead letter");
        let paused = if self.paused { "; it is paused" } else { "" };
        format!("{namespace}  {timers} and {dead_letters} exported{paused}")
    }
}
