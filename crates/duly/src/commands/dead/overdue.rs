//! `duly dead overdue`: makes dead letters of what is overdue, instead of having it delivered late.
//!
//! Over HTTP, call by call, so that progress is seen: after a restore there may be millions.

use duly_api::{DeadLetterOverdueRequest, DeadLetterOverdueResponse, Time};
use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;
use serde_json::json;

use crate::{
    Outcome,
    args::{confirm::Confirm, named::Named, values},
    cli::Session,
    failure::Failure,
    output::{progress::Progress, text, when},
};

/// Make dead letters of what is overdue, instead of having it delivered late
///
/// Meant for a paused namespace, as after a restore: what fired since the backup was made would fire
/// again. What is being delivered is left alone.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    named: Named,
    /// What was due by this time, not in the future; now unless given
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    due_by: Option<Timestamp>,
    #[command(flatten)]
    confirm: Confirm,
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    let mut moment = args.due_by.map(Time::from);
    if args.confirm.is_needed() {
        let by = moment.as_ref().map_or_else(|| "now".to_owned(), Time::to_string);
        Confirm::ask(&format!("Give up everything of {namespace} that was due by {by}?"))?;
    }
    let dead_lettered = give_up(session, namespace, &mut moment).await?;
    let due_by = moment.unwrap_or_default();
    let document = json!({ "dead_lettered": dead_lettered, "due_by": due_by });
    session.printer.document(&document.to_string(), || {
        let letters = text::count(dead_lettered, "dead letter");
        let by = when::with_distance(&due_by, when::now());
        Ok(format!("{namespace}  {letters} made of what was due by {by}"))
    })
}

/// Makes dead letters of what is overdue in a namespace; answers how many. `moment` is by when they
/// must be due: that of the first call, for all namespaces.
pub(crate) async fn give_up(
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
        progress.show(0, None, &format!("{namespace}: {total} given up"));
    }
}
