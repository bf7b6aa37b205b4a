//! `duly dead`: lists, redrives and purges dead letters.

use clap::Subcommand;
use duly_api::{
    DeadLetterNames, DeadLetterOverdueRequest, DeadLetterOverdueResponse, Duration, PurgeResponse,
    RedriveRequest, RedriveResponse, State, Time,
};
use duly_core::{Millis, NamespaceName, TimerId, Timestamp};
use serde_json::json;

use crate::{
    Outcome,
    args::{Confirm, Filter, NamespaceArg, values},
    commands::{list, namespace::counts},
    failure::Failure,
    http,
    output::{Progress, text, timers, when},
    session::Session,
};

/// List, redrive or purge dead letters: firings whose attempts have ended without an ack
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List dead letters with their last error
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        named: NamespaceArg,
        #[command(flatten)]
        filter: Filter,
    },
    /// Deliver dead letters again, with a fresh number of attempts
    Redrive {
        #[command(flatten)]
        named: NamespaceArg,
        #[command(flatten)]
        selection: DeadLetterSelection,
        /// Wait this long before the delivery
        #[arg(long, value_name = "DURATION", value_parser = values::duration)]
        delay: Option<Millis>,
        /// Redrive at most this many per second
        #[arg(long, value_name = "N", value_parser = values::decimal)]
        per_second: Option<f64>,
    },
    /// Remove dead letters for good
    Purge {
        #[command(flatten)]
        named: NamespaceArg,
        #[command(flatten)]
        selection: DeadLetterSelection,
        #[command(flatten)]
        confirm: Confirm,
    },
    Overdue(OverdueArgs),
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct DeadLetterSelection {
    /// The latest dead letter of this timer; repeat it for more
    #[arg(long = "id", value_name = "ID", value_parser = values::timer_id)]
    ids: Vec<TimerId>,
    /// The dead letter with this delivery id; repeat it for more
    #[arg(long = "delivery-id", value_name = "ID")]
    delivery_ids: Vec<String>,
    /// Every dead letter of the namespace
    #[arg(long)]
    all: bool,
}

impl Args {
    /// Returns `true` if the command changes nothing.
    pub(crate) const fn only_reads(&self) -> bool {
        matches!(self.action, Action::List { .. })
    }
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    match args.action {
        Action::List { named, filter } => {
            list::pages(session, &named.namespace, Some(State::Dead), &filter, timers::dead).await
        }
        Action::Redrive { named, selection, delay, per_second } => {
            let delay = delay.map(Duration::from);
            let request = RedriveRequest { delay, per_second, ..selection.request() };
            redrive_or_purge(session, &named.namespace, "redrive", request).await
        }
        Action::Purge { named: NamespaceArg { namespace }, selection, confirm } => {
            if selection.all && confirm.is_needed() {
                let dead = counts(session, &namespace).await?.dead;
                let dead_letters = text::count(dead, "dead letter");
                let place = session.http.place();
                Confirm::ask(&format!("Purge {dead_letters} of {namespace} at {place} for good?"))?;
            }
            redrive_or_purge(session, &namespace, "purge", selection.request()).await
        }
        Action::Overdue(args) => overdue(args, session).await,
    }
}

/// Redrives or purges, call by call. Prints the count, and fails if a named dead letter was refused.
async fn redrive_or_purge(
    session: &Session,
    namespace: &NamespaceName,
    action: &str,
    mut request: RedriveRequest,
) -> Outcome {
    let participle = if action == "redrive" { "redriven" } else { "purged" };
    let (mut done, mut refusals) = (0, Vec::new());
    let document = loop {
        let call = session.http.post(namespace, &["dead", action]);
        let reply = call.body(&request).send_patiently(session.printer).await?;
        let (count, cursor, errors) = match action {
            "redrive" => {
                let RedriveResponse { redriven, cursor, errors } = reply.parse()?;
                (redriven, cursor, errors)
            }
            _ => {
                let PurgeResponse { purged, cursor, errors } = reply.parse()?;
                (purged, cursor, errors)
            }
        };
        done += count;
        let sentences =
            errors.into_iter().filter_map(|item| Some(http::sentence(&item.error?, &[])));
        refusals.extend(sentences);
        request.cursor = cursor;
        match request.cursor {
            Some(_) => {}
            None if request.all.is_some() => break json!({ participle: done }).to_string(),
            None => break reply.text,
        }
    };
    session.printer.document(&document, || {
        let purged_at = format!(" at {}", session.http.place());
        let at = if action == "purge" { purged_at } else { String::new() };
        Ok(format!("{done} {participle}{at}"))
    })?;
    if refusals.is_empty() {
        return Ok(());
    }
    let refusals = refusals.join("\n       ");
    let hint = format!("`duly dead list {namespace}` shows the dead letters");
    Err(Failure::coded("some_refused", format_args!("{refusals}\n  {hint}")))
}

impl DeadLetterSelection {
    /// Returns a request about these dead letters. A purge has the same fields as a redrive, for those
    /// set here.
    fn request(self) -> RedriveRequest {
        let named = |names: Vec<_>| (!names.is_empty()).then_some(DeadLetterNames { names });
        RedriveRequest {
            ids: named(self.ids.iter().map(TimerId::to_string).collect()),
            delivery_ids: named(self.delivery_ids),
            all: self.all.then_some(true),
            ..RedriveRequest::default()
        }
    }
}

/// Dead-letter overdue timers, instead of delivering them late
///
/// Meant for a paused namespace, as after a restore: timers that fired since the backup was made would
/// fire again. Timers that are being delivered are skipped.
#[derive(clap::Args)]
struct OverdueArgs {
    #[command(flatten)]
    named: NamespaceArg,
    /// Timers that were due by this time, which is not in the future; default now
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    due_by: Option<Timestamp>,
    #[command(flatten)]
    confirm: Confirm,
}

async fn overdue(args: OverdueArgs, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    let mut moment = args.due_by.map(Time::from);
    if args.confirm.is_needed() {
        let by = moment.as_ref().map_or_else(|| "now".to_owned(), Time::to_string);
        let place = session.http.place();
        Confirm::ask(&format!(
            "Dead-letter every timer of {namespace} at {place} that was due by {by}?"
        ))?;
    }
    let dead_lettered = dead_letter_overdue(session, namespace, &mut moment).await?;
    let due_by = moment.unwrap_or_default();
    let document = json!({ "dead_lettered": dead_lettered, "due_by": due_by });
    session.printer.document(&document.to_string(), || {
        let dead_letters = text::count(dead_lettered, "dead letter");
        let by = when::with_distance(&due_by, when::now());
        let place = session.http.place();
        Ok(format!("{namespace}  {dead_letters} created from timers due by {by} at {place}"))
    })
}

/// Dead-letters the overdue timers of a namespace, call by call, so that it can show progress: after a
/// restore there may be millions of them. Returns their number. `moment` is the latest due
/// time. If it is `None`, the first call sets it, for all namespaces.
pub(crate) async fn dead_letter_overdue(
    session: &Session,
    namespace: &NamespaceName,
    moment: &mut Option<Time>,
) -> Result<u64, Failure> {
    let mut progress = Progress::new(session.printer);
    let (mut total, mut cursor) = (0, None);
    loop {
        let due_by = moment.take();
        let body = DeadLetterOverdueRequest { namespace: String::new(), due_by, cursor };
        let call = session.http.post(namespace, &["dead", "overdue"]);
        let step: DeadLetterOverdueResponse =
            call.body(&body).send_patiently(session.printer).await?.parse()?;
        total += step.dead_lettered;
        *moment = step.due_by;
        cursor = step.cursor;
        if cursor.is_none() {
            progress.clear();
            return Ok(total);
        }
        progress.show(0, None, &format!("{namespace}: {total} dead-lettered"));
    }
}
