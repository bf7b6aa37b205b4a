//! `duly namespace`: manages namespaces.

mod forecast;
mod list;
mod secret;
mod set;
mod settings;
mod stats;

use clap::Subcommand;
use duly_api::{Namespace, NamespaceStats, RepairNamespaceResponse, ResumeRequest, Time};
use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;

pub(super) use self::list::{all, checked_name, destination};
use self::settings::Settings;
use crate::{
    Outcome,
    args::{Confirm, NamespaceArg, values},
    cli::Session,
    commands::get,
    failure::Failure,
    http::{Call, Hint},
    output::{text, when},
};

/// Requests the counts of a namespace.
pub(super) async fn counts(
    session: &Session,
    namespace: &NamespaceName,
) -> Result<NamespaceStats, Failure> {
    session.http.get(namespace, &["stats"]).send().await?.parse()
}

/// Create, change, show, list, delete, pause and resume namespaces
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create a namespace or replace its settings
    ///
    /// All settings are replaced: an absent setting returns to its default. Signing secrets stay if none
    /// is given. To change some settings and keep the others: `duly namespace set`.
    Put {
        #[command(flatten)]
        named: NamespaceArg,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    Set(Box<set::Args>),
    /// Show the settings of a namespace
    Get(NamespaceArg),
    /// List namespaces
    List,
    Delete(DeleteArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Repair(RepairArgs),
    /// Show the counts of a namespace, and the state of each lane
    Stats(NamespaceArg),
    /// Show the state of each lane: its receiver, breaker, backlog and limits
    Lanes(NamespaceArg),
    Forecast(forecast::Args),
    Secret(secret::Args),
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    match args.action {
        Action::Put { named, settings } => {
            let call = session.http.namespace(Method::PUT, &named.namespace, &[]);
            get::show(session, call.body(&settings.read()?)).await
        }
        Action::Set(args) => set::run(*args, session).await,
        Action::Get(named) => get::show(session, session.http.get(&named.namespace, &[])).await,
        Action::List => list::run(session).await,
        Action::Delete(args) => delete(args, session).await,
        Action::Pause(args) => pause(args, session).await,
        Action::Resume(args) => resume(args, session).await,
        Action::Repair(args) => repair(args, session).await,
        Action::Stats(named) => stats::stats(&named.namespace, session).await,
        Action::Lanes(named) => stats::lanes(&named.namespace, session).await,
        Action::Forecast(args) => forecast::run(&args, session).await,
        Action::Secret(args) => secret::run(args, session).await,
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
            Confirm::ask(&format!("Delete {namespace} with {pending} and {dead}?"))?;
        }
    }
    let query = if args.force { vec![("force", "true".to_owned())] } else { Vec::new() };
    let call = session.http.namespace(Method::DELETE, namespace, &[]).query(&query);
    call.hints(NOT_EMPTY).send().await?;
    session.printer.document("{}", || Ok(format!("{namespace}  deleted")))
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
    print_activity(namespace, resume_call(namespace, args.resume_at, session), session).await
}

async fn resume(args: ResumeArgs, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    print_activity(namespace, resume_call(namespace, args.at, session), session).await
}

fn resume_call<'a>(
    namespace: &NamespaceName,
    at: Option<Timestamp>,
    session: &'a Session,
) -> Call<'a> {
    let request = ResumeRequest { namespace: String::new(), at: at.map(Time::from) };
    session.http.post(namespace, &["resume"]).body(&request)
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
    #[command(flatten)]
    confirm: Confirm,
}

async fn repair(args: RepairArgs, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    if let Some(keep) = args.keep.as_ref().filter(|_| args.confirm.is_needed()) {
        Confirm::ask(&format!(
            "Keep {namespace} under number {keep} and discard its timers under any other?"
        ))?;
    }
    let keep: Vec<_> = args.keep.map(|keep| ("keep", keep)).into_iter().collect();
    let call = session.http.post(namespace, &["repair"]).query(&keep);
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
    session.print(call, result).await
}
