//! `duly dead`: looks after dead letters.

pub(crate) mod overdue;

use clap::Subcommand;
use duly_core::{Millis, NamespaceName, TimerId};
use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::{
    Outcome,
    args::{confirm::Confirm, filter::Filter, values},
    cli::Session,
    commands::list,
    failure::Failure,
    output::{text, timers},
};

/// List, redrive or purge dead letters: firings that were given up
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List dead letters with their last error
    List {
        /// The namespace
        #[arg(value_parser = values::namespace)]
        namespace: NamespaceName,
        #[command(flatten)]
        filter: Filter,
    },
    /// Send dead letters again, with a fresh budget of attempts
    Redrive {
        /// The namespace
        #[arg(value_parser = values::namespace)]
        namespace: NamespaceName,
        #[command(flatten)]
        which: Which,
        /// Wait this long first
        #[arg(long, value_name = "DURATION", value_parser = values::duration)]
        delay: Option<Millis>,
        /// Space them: at most this many a second
        #[arg(long, value_name = "N", value_parser = values::decimal)]
        per_second: Option<f64>,
    },
    /// Drop dead letters for good
    Purge {
        /// The namespace
        #[arg(value_parser = values::namespace)]
        namespace: NamespaceName,
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        confirm: Confirm,
    },
    Overdue(overdue::Args),
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
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

#[derive(Serialize)]
struct Body {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ids: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    delivery_ids: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    all: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_second: Option<f64>,
}

/// What one call did.
#[derive(Deserialize)]
struct Done {
    #[serde(alias = "redriven", alias = "purged")]
    count: u64,
    cursor: Option<String>,
    #[serde(default)]
    errors: Vec<LetterError>,
}

#[derive(Deserialize)]
struct LetterError {
    error: Refusal,
}

#[derive(Deserialize)]
struct Refusal {
    detail: String,
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    match args.action {
        Action::List { namespace, filter } => {
            list::pages(session, &namespace, Some("dead"), &filter, timers::dead).await
        }
        Action::Redrive { namespace, which, delay, per_second } => {
            let pace = Pace { delay, per_second };
            change(session, &namespace, Verb::Redrive, which, pace).await
        }
        Action::Purge { namespace, which, confirm } => {
            if which.all && confirm.is_needed() {
                let call = session.client.namespace(Method::GET, &namespace, &["stats"]);
                let Holding { dead } = call.send().await?.parse()?;
                let letters = text::count(dead, "dead letter");
                Confirm::ask(&format!("Drop {letters} of {namespace} for good?"))?;
            }
            change(session, &namespace, Verb::Purge, which, Pace::default()).await
        }
        Action::Overdue(args) => overdue::run(args, session).await,
    }
}

/// What would be dropped.
#[derive(Deserialize)]
struct Holding {
    dead: u64,
}

#[derive(Clone, Copy)]
enum Verb {
    Redrive,
    Purge,
}

/// How redriven letters are spread over time.
#[derive(Clone, Copy, Default)]
struct Pace {
    delay: Option<Millis>,
    per_second: Option<f64>,
}

/// Calls until everything that was asked for is dealt with.
async fn change(
    session: &Session,
    namespace: &NamespaceName,
    verb: Verb,
    which: Which,
    pace: Pace,
) -> Outcome {
    let (path, done) = match verb {
        Verb::Redrive => ("redrive", "redriven"),
        Verb::Purge => ("purge", "purged"),
    };
    let mut body = Body {
        ids: which.ids.iter().map(ToString::to_string).collect(),
        delivery_ids: which.delivery_ids,
        all: which.all.then_some(true),
        cursor: None,
        // The server spaces on from one call to the next through the cursor.
        delay: pace.delay.map(|delay| delay.to_string()),
        per_second: pace.per_second,
    };
    let mut total = 0;
    let mut refusals = Vec::new();
    let last = loop {
        let call = session.client.namespace(Method::POST, namespace, &["dead", path]);
        let answer = call.body(&body).send().await?;
        let step: Done = answer.parse()?;
        total += step.count;
        refusals.extend(step.errors.into_iter().map(|letter| letter.error.detail));
        if step.cursor.is_none() || !which.all {
            break answer;
        }
        body.cursor = step.cursor;
    };
    if !session.printer.is_json() {
        session.printer.line(&format!("{total} {done}"))?;
    } else if which.all {
        session.printer.json(&format!(r#"{{"{done}":{total}}}"#))?;
    } else {
        session.printer.json(&last.text)?;
    }
    if refusals.is_empty() {
        return Ok(());
    }
    let refusals = refusals.join("\n       ");
    let hint = format!("`duly dead list {namespace}` shows the dead letters");
    Err(Failure::coded("some_refused", format_args!("{refusals}\n  {hint}")))
}
