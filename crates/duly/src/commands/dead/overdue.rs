//! `duly dead overdue`: makes dead letters of what is overdue, instead of having it delivered late.
//!
//! Over HTTP, call by call, so that progress is seen: after a restore there may be millions.

use std::io::{self, Write as _};

use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    Outcome,
    args::{confirm::Confirm, named::Named, values},
    cli::Session,
    failure::Failure,
    output::{terminal::Screen, text, when},
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

#[derive(Default, Serialize)]
struct DeadLetterOverdue {
    #[serde(skip_serializing_if = "Option::is_none")]
    due_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct DeadLettered {
    dead_lettered: u64,
    due_by: String,
    cursor: Option<String>,
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    let mut moment = args.due_by.map(|at| at.to_string());
    if args.confirm.is_needed() {
        let by = moment.clone().unwrap_or_else(|| "now".to_owned());
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
    moment: &mut Option<String>,
) -> Result<u64, Failure> {
    let mut body = DeadLetterOverdue { due_by: moment.clone(), cursor: None };
    let mut total = 0;
    let watched = Screen::stderr().is_terminal();
    loop {
        let call = session.http.namespace(Method::POST, namespace, &["dead", "overdue"]);
        let step: DeadLettered = call.body(&body).send().await?.parse()?;
        total += step.dead_lettered;
        *moment = Some(step.due_by.clone());
        let is_done = step.cursor.is_none();
        body = DeadLetterOverdue { due_by: Some(step.due_by), cursor: step.cursor };
        if watched && (!is_done || total > step.dead_lettered) {
            let end = if is_done { "\n" } else { "" };
            let line = format!("\r{namespace}: {total} given up{end}");
            // It does not matter whether anybody sees it.
            io::stderr().write_all(line.as_bytes()).ok();
        }
        if is_done {
            return Ok(total);
        }
    }
}
