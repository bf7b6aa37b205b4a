//! `duly namespace`: manages namespaces.

mod put;
mod secret;
mod set;
mod settings;
mod stats;

use std::path::PathBuf;

use clap::Subcommand;
use duly_api::{
    Duration, ListNamespacesResponse, Namespace, NamespaceStats, RepairNamespaceResponse,
    ResumeRequest, Time,
};
use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;
use serde_json::value::RawValue;

use crate::{
    Outcome,
    args::{Confirm, NamespaceArg, values},
    commands::get,
    configured,
    failure::Failure,
    http::{Call, Hint},
    output::{Table, Tone, text, when},
    session::Session,
};

/// Requests the counts of a namespace.
///
/// # Errors
/// Shards are unavailable: a decision on the counts of the others would be wrong.
pub(super) async fn counts(
    session: &Session,
    namespace: &NamespaceName,
) -> Result<NamespaceStats, Failure> {
    let call = session.http.get(namespace, &["stats"]);
    let stats: NamespaceStats = call.send_patiently(session.printer).await?.parse()?;
    match text::incomplete(&stats.unavailable_shards) {
        Some(incomplete) => Err(Failure::coded("unavailable", incomplete)),
        None => Ok(stats),
    }
}

/// Create, change, show, list, delete, pause and resume namespaces
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Put(Box<put::Args>),
    Set(Box<set::Args>),
    /// Show the settings of a namespace
    Get(NamespaceArg),
    /// List namespaces
    #[command(visible_alias = "ls")]
    List,
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Repair(RepairArgs),
    /// Show the counts of a namespace, and the state of each lane
    Stats(NamespaceArg),
    /// Show the state of each lane: its receiver, breaker, backlog and limits
    Lanes(NamespaceArg),
    Forecast(stats::ForecastArgs),
    Secret(secret::Args),
}

impl Args {
    /// Returns `true` if the command changes nothing.
    pub(crate) const fn only_reads(&self) -> bool {
        matches!(
            self.action,
            Action::Get(_)
                | Action::List
                | Action::Stats(_)
                | Action::Lanes(_)
                | Action::Forecast(_)
        )
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    match args.action {
        Action::Put(args) => put::run(*args, session).await,
        Action::Set(args) => set::run(*args, session).await,
        Action::Get(named) => get::show(session, session.http.get(&named.namespace, &[])).await,
        Action::List => list(session).await,
        Action::Delete(args) => delete(args, session).await,
        Action::Pause(args) => pause(args, session).await,
        Action::Resume(ResumeArgs { named, at }) => resume(&named.namespace, at, session).await,
        Action::Repair(args) => repair(args, session).await,
        Action::Stats(named) => stats::stats(&named.namespace, session).await,
        Action::Lanes(named) => stats::lanes(&named.namespace, session).await,
        Action::Forecast(args) => stats::forecast(&args, session).await,
        Action::Secret(args) => secret::run(args, session).await,
    }
}

/// Returns every namespace, and the JSON of each as the server sent it.
pub(super) async fn all(
    session: &Session,
) -> Result<(Vec<Namespace>, Vec<Box<RawValue>>), Failure> {
    let (mut all, mut texts, mut query) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let call = session.http.service(Method::GET, &["namespaces"]);
        let reply = call.query(&query).send_patiently(session.printer).await?;
        let page: ListNamespacesResponse = reply.parse()?;
        texts.extend(reply.items("namespaces")?.into_iter().map(RawValue::to_owned));
        all.extend(page.namespaces);
        match page.cursor {
            Some(next) => query = vec![("cursor", next)],
            None => return Ok((all, texts)),
        }
    }
}

/// Checks the name of a namespace in a server's response, and returns it.
pub(super) fn checked_name(namespace: &Namespace) -> Result<NamespaceName, Failure> {
    let name = &namespace.name;
    NamespaceName::new(name)
        .map_err(|error| Failure::new(format_args!("the server named {name:?}: {error}")))
}

/// Prints every namespace: as one document, one table, or line by line.
async fn list(session: &Session) -> Outcome {
    let printer = session.printer;
    let (all, texts) = all(session).await?;
    if printer.is_json() {
        return printer.json_list("namespaces", texts);
    }
    let headings = ["name", "state", "weight", "lease", "retention", "destination"];
    let mut table = Table::new(&headings).numbers(&["weight"]).cut("destination");
    for row in all {
        let (tone, state) = match (row.paused, &row.resumes_at) {
            (true, Some(at)) => {
                let at = when::with_distance(at, when::now());
                (Tone::Warning, format!("paused until {at}"))
            }
            (true, None) => (Tone::Warning, "paused".to_owned()),
            (false, _) => (Tone::Plain, "running".to_owned()),
        };
        let text = |duration: Option<Duration>| duration.unwrap_or_default().to_string();
        let (weight, destination) = (row.weight.to_string(), destination(&row));
        let cells = [row.name, state, weight, text(row.lease), text(row.retention), destination];
        table.row(tone, cells);
    }
    printer.table(&table)
}

/// Returns the URL of a namespace's destination, or `pull`.
pub(super) fn destination(namespace: &Namespace) -> String {
    match namespace.destination.as_ref().and_then(|destination| destination.http.as_ref()) {
        Some(http) => http.url.clone(),
        None => "pull".to_owned(),
    }
}

/// Delete a namespace
#[derive(clap::Args)]
struct DeleteArgs {
    #[command(flatten)]
    named: NamespaceArg,
    /// Also delete its pending timers and dead letters; at a terminal you are asked for confirmation
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confirm: Confirm,
}

/// The hint for a namespace that is not empty.
const NOT_EMPTY: &[Hint] = &[("namespace_not_empty", "`--force` deletes it with everything in it")];

async fn delete(args: DeleteArgs, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    if args.force && args.confirm.is_needed() {
        let stats = counts(session, namespace).await?;
        if stats.pending + stats.dead > 0 {
            let pending = text::count(stats.pending, "pending timer");
            let dead = text::count(stats.dead, "dead letter");
            let place = session.http.place();
            Confirm::ask(&format!("Delete {namespace} at {place} with {pending} and {dead}?"))?;
        }
    }
    let force = args.force.then(|| ("force", "true".to_owned()));
    let call = session.http.namespace(Method::DELETE, namespace, &[]).query(force.as_slice());
    call.hints(NOT_EMPTY).send().await?;
    let place = session.http.place();
    session.printer.document("{}", || Ok(format!("{namespace}  deleted at {place}")))
}

/// Deliver no firing until the namespace is resumed; timers can still be scheduled and cancelled
#[derive(clap::Args)]
struct PauseArgs {
    #[command(flatten)]
    named: NamespaceArg,
    /// Resume by itself at this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    resume_at: Option<Timestamp>,
}

/// Deliver firings again
///
/// With `--at` the namespace stays paused until then and resumes by itself, also after a restart.
/// Another pause removes the time.
#[derive(clap::Args)]
struct ResumeArgs {
    #[command(flatten)]
    named: NamespaceArg,
    /// Not before this time; a time in the past means now
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    at: Option<Timestamp>,
}

/// Pauses the namespace, and then sets the time to resume, if there is one. A pause removes such a time,
/// so the order matters.
async fn pause(args: PauseArgs, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    if let Some(at) = args.resume_at.filter(|at| *at <= when::now()) {
        return Err(Failure::usage(format_args!(
            "--resume-at {at} has passed: the namespace would resume at once; name a time ahead"
        )));
    }
    let pause = session.http.post(namespace, &["pause"]);
    if args.resume_at.is_none() {
        return print_activity(namespace, pause, session).await;
    }
    pause.send().await?;
    resume(namespace, args.resume_at, session).await
}

async fn resume(namespace: &NamespaceName, at: Option<Timestamp>, session: &Session) -> Outcome {
    let request = ResumeRequest { namespace: String::new(), at: at.map(Time::from) };
    let call = session.http.post(namespace, &["resume"]).body(&request);
    print_activity(namespace, call, session).await
}

/// Makes a call that pauses or resumes the namespace, and prints its new state.
async fn print_activity(namespace: &NamespaceName, call: Call<'_>, session: &Session) -> Outcome {
    let state = |now: Namespace| match (now.paused, now.resumes_at) {
        (true, Some(at)) => {
            format!("{namespace}  paused, resumes {}", when::with_distance(&at, when::now()))
        }
        (true, None) => format!("{namespace}  paused"),
        (false, _) => format!("{namespace}  resumed"),
    };
    session.print(call, state).await
}

/// Restore the record of a namespace that its coordinator shard in Redis has lost
///
/// The other shards have the settings, and their timers are kept; the timers of a lost shard are gone.
/// If no record is lost, nothing changes. If the shards have the namespace under several numbers, as
/// after a master of Redis was rolled back, the refusal lists the numbers, and `--keep` selects one.
#[derive(clap::Args)]
struct RepairArgs {
    #[command(flatten)]
    named: NamespaceArg,
    /// Keep the namespace under this number and discard the timers under any other; at a terminal you
    /// are asked for confirmation
    #[arg(long, value_name = "NUMBER")]
    keep: Option<String>,
    /// The configuration file of a server: the record is restored in its store (store.url), also beside
    /// running servers. No server is called
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    confirm: Confirm,
}

async fn repair(args: RepairArgs, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    if let Some(keep) = args.keep.as_ref().filter(|_| args.confirm.is_needed()) {
        let place = match &args.config {
            Some(file) => format!("in the store of {}", file.display()),
            None => format!("at {}", session.http.place()),
        };
        Confirm::ask(&format!(
            "Keep {namespace} under number {keep} {place} and discard its timers under any other?"
        ))?;
    }
    let result = |repaired: RepairNamespaceResponse| {
        let done = if repaired.restored { "record restored" } else { "its record is intact" };
        let mut line = format!("{namespace}  {done}");
        if repaired.pending_lost + repaired.dead_lost > 0 {
            let pending = text::count(repaired.pending_lost, "pending timer");
            let dead = text::count(repaired.dead_lost, "dead letter");
            line.push_str(&format!(", {pending} and {dead} discarded"));
        }
        line
    };
    if let Some(file) = &args.config {
        let store = configured::open_shared(file).await?;
        let (name, keep) = (namespace.clone(), args.keep.as_deref());
        let repaired = duly_server::repair_namespace(&*store, name, keep).await;
        let repaired = repaired.map_err(Failure::new)?;
        let document = serde_json::to_string(&repaired).expect("messages are JSON");
        return session.printer.document(&document, || Ok(format!("{}\n", result(repaired))));
    }
    let keep = args.keep.map(|keep| ("keep", keep));
    let call = session.http.post(namespace, &["repair"]).query(keep.as_slice());
    session.print(call, result).await
}
