//! `duly dead`: looks after dead letters.

pub(crate) mod overdue;

use clap::Subcommand;
use duly_client::{DeadLetterResult, Error, Letters, Redrive};
use duly_core::{Millis, NamespaceName, State, TimerId};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    Outcome,
    answer::{self, problem},
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

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    match args.action {
        Action::List { namespace, filter } => {
            list::pages(session, &namespace, Some(State::Dead), &filter, timers::dead).await
        }
        Action::Redrive { namespace, which, delay, per_second } => {
            let is_all = which.all;
            let mut redrive = Redrive::new(which.letters());
            if let Some(delay) = delay {
                redrive = redrive.after(delay.to_std());
            }
            if let Some(rate) = per_second {
                redrive = redrive.per_second(rate);
            }
            let dealt = session.client()?.redrive(namespace.as_str(), redrive).await;
            said(session, &namespace, dealt, Verb::Redrive, is_all)
        }
        Action::Purge { namespace, which, confirm } => {
            if which.all && confirm.is_needed() {
                let stats = session.client()?.stats(namespace.as_str()).await;
                let dead = stats.map_err(|error| problem::failure(&error, &[]))?.dead;
                let letters = text::count(dead, "dead letter");
                Confirm::ask(&format!("Drop {letters} of {namespace} for good?"))?;
            }
            let is_all = which.all;
            let dealt = session.client()?.purge(namespace.as_str(), which.letters()).await;
            said(session, &namespace, dealt, Verb::Purge, is_all)
        }
        Action::Overdue(args) => overdue::run(args, session).await,
    }
}

#[derive(Clone, Copy)]
enum Verb {
    Redrive,
    Purge,
}

/// What was done, as a document.
#[derive(Default, Serialize)]
struct DeadLetterResultOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    redriven: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<DeadLetterError>,
}

#[derive(Serialize)]
struct DeadLetterError {
    index: usize,
    error: Box<RawValue>,
}

/// Prints what was done, and fails where a letter that was named was not dealt with.
fn said(
    session: &Session,
    namespace: &NamespaceName,
    dealt: Result<DeadLetterResult, Error>,
    verb: Verb,
    is_all: bool,
) -> Outcome {
    let DeadLetterResult { done, refused, .. } =
        dealt.map_err(|error| problem::failure(&error, &[]))?;
    let error = |(index, error): &(usize, Error)| DeadLetterError {
        index: *index,
        error: RawValue::from_string(problem::of_item(error))
            .expect("it was written as JSON just now"),
    };
    let errors = if is_all { Vec::new() } else { refused.iter().map(error).collect() };
    let (words, document) = match verb {
        Verb::Redrive => (
            "redriven",
            DeadLetterResultOut { redriven: Some(done), errors, ..DeadLetterResultOut::default() },
        ),
        Verb::Purge => (
            "purged",
            DeadLetterResultOut { purged: Some(done), errors, ..DeadLetterResultOut::default() },
        ),
    };
    session.printer.document(&answer::json(&document), || Ok(format!("{done} {words}")))?;
    if refused.is_empty() {
        return Ok(());
    }
    let refusals: Vec<_> = refused
        .into_iter()
        .map(|(_, error)| match error.refusal() {
            Some(refusal) => refusal.detail.clone(),
            None => error.to_string(),
        })
        .collect();
    let refusals = refusals.join("\n       ");
    let hint = format!("`duly dead list {namespace}` shows the dead letters");
    Err(Failure::coded("some_refused", format_args!("{refusals}\n  {hint}")))
}

impl Which {
    fn letters(self) -> Letters {
        match self {
            Self { all: true, .. } => Letters::All,
            Self { ids, .. } if !ids.is_empty() => Letters::ids(ids.iter().map(TimerId::as_str)),
            Self { delivery_ids, .. } => Letters::DeliveryIds(delivery_ids),
        }
    }
}
