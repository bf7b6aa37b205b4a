//! `duly dead overdue`: dead-letters overdue timers, instead of delivering them late.
//!
//! It works over HTTP, call by call, so that it can show progress: after a restore there may be millions
//! of timers.

use duly_api::{DeadLetterOverdueRequest, DeadLetterOverdueResponse, Time};
use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;
use serde_json::json;

use crate::{
    Outcome,
    args::{confirm::Confirm, identity::NamespaceArg, values},
    cli::Session,
    failure::Failure,
    output::{progress::Progress, text, when},
};

/// Dead-letter overdue timers, instead of delivering them late
///
/// Meant for a paused namespace, as after a restore: timers that fired since the backup was made would
/// fire again. Timers that are being delivered are skipped.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    named: NamespaceArg,
    /// Timers that were due by this time, which is not in the future; default now
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    due_by: Option<Timestamp>,
    #[command(flatten)]
    confirm: Confirm,
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    let mut moment = args.due_by.map(Time::from);
    if args.confirm.is_needed() {
        let by = moment.as_ref().map_or_else(|| "now".to_owned(), Time::to_string);
        Confirm::ask(&format!("Dead-letter every timer of {namespace} that was due by {by}?"))?;
    }
    let dead_lettered = dead_letter_overdue(session, namespace, &mut moment).await?;
    let due_by = moment.unwrap_or_default();
    let document = json!({ "dead_lettered": dead_lettered, "due_by": due_by });
    session.printer.document(&document.to_string(), || {
        let dead_letters = text::count(dead_lettered, "dead letter");
        let by = when::with_distance(&due_by, when::now());
        Ok(format!("{namespace}  {dead_letters} created from timers due by {by}"))
    })
}

/// Dead-letters the overdue timers of a namespace, and returns their number. `moment` is the latest due
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
        let call = session.http.namespace(Method::POST, namespace, &["dead", "overdue"]);
        let step: DeadLetterOverdueResponse = call.body(&body).send().await?.parse()?;
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
