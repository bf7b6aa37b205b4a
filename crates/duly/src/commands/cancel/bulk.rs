//! Cancels by filter, call after call until nothing is left that fits.

use clap::ValueEnum;
use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::{
    Outcome,
    args::{confirm::Confirm, values},
    cli::Session,
    failure::Failure,
    output::text,
};

/// Which timers: all conditions have to be met.
#[derive(clap::Args)]
pub(super) struct Filter {
    /// It has this tag
    #[arg(long, conflicts_with = "id")]
    tag: Option<String>,
    /// The id begins with this
    #[arg(long, value_name = "TEXT", conflicts_with = "id")]
    id_prefix: Option<String>,
    /// Due at or after this time
    #[arg(long, value_name = "TIME", value_parser = values::time, conflicts_with = "id")]
    due_from: Option<Timestamp>,
    /// Due before this time
    #[arg(long, value_name = "TIME", value_parser = values::time, conflicts_with = "id")]
    due_to: Option<Timestamp>,
    /// In this state
    #[arg(long, conflicts_with = "id")]
    state: Option<State>,
    /// Every pending timer of the namespace: said in full, in place of any condition
    #[arg(
        long,
        conflicts_with_all = ["id", "tag", "id_prefix", "due_from", "due_to", "state"]
    )]
    all: bool,
    /// Cancel at most this many; again, it goes on with those that are left
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "id",
        value_parser = values::within::<1, 10_000>
    )]
    limit: Option<u16>,
    /// Cancel nothing, and say how many would be
    #[arg(long, conflicts_with = "id")]
    dry_run: bool,
}

/// The states in which a timer can be cancelled.
#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum State {
    /// Waiting for its due time
    Scheduled,
    /// Due, not yet claimed
    Due,
    /// Waiting for its next attempt
    Retrying,
}

#[derive(Serialize)]
struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<Conditions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    all: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Serialize)]
struct Conditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_prefix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
}

/// What one call came to, and all of them together.
#[derive(Default, Deserialize, Serialize)]
struct Done {
    cancelled: u64,
    maybe_delivered: u64,
    skipped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<bool>,
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

/// Runs it. Repeated after a failure, it goes on with those that are left.
pub(super) async fn run(
    namespace: &NamespaceName,
    filter: &Filter,
    confirm: &Confirm,
    session: &Session,
) -> Outcome {
    if !filter.dry_run && confirm.is_needed() {
        let counting = Body { dry_run: Some(true), ..filter.body() };
        let count = calls(namespace, counting, session).await?.cancelled;
        if count > 0 {
            let timers = text::count(count, "timer");
            Confirm::ask(&format!("Cancel {timers} of {namespace}?"))?;
        }
    }
    let total = calls(namespace, filter.body(), session).await?;
    let document = serde_json::to_string(&total).expect("numbers are JSON");
    session.printer.document(&document, || Ok(shown(&total)))
}

/// Calls until nothing is left that fits, or as many are dealt with as may be.
async fn calls(
    namespace: &NamespaceName,
    mut body: Body,
    session: &Session,
) -> Result<Done, Failure> {
    let mut total = Done::default();
    loop {
        let call = session.client.namespace(Method::POST, namespace, &["cancel"]);
        let step: Done = call.body(&body).send().await?.parse()?;
        total.cancelled += step.cancelled;
        total.maybe_delivered += step.maybe_delivered;
        total.skipped += step.skipped;
        total.dry_run = step.dry_run;
        // A call of its own has a limit as well, and may end before it has found so many.
        let done = u16::try_from(step.cancelled).unwrap_or(u16::MAX);
        let left = body.limit.map(|limit| limit.saturating_sub(done));
        if step.cursor.is_none() || left == Some(0) {
            return Ok(total);
        }
        body.limit = left;
        body.cursor = step.cursor;
    }
}

impl Filter {
    fn body(&self) -> Body {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let state = self.state.and_then(|state| state.to_possible_value());
        let conditions = Conditions {
            tag: self.tag.clone(),
            id_prefix: self.id_prefix.clone(),
            due_from: time(self.due_from),
            due_to: time(self.due_to),
            state: state.map(|state| state.get_name().to_owned()),
        };
        Body {
            filter: (!self.all).then_some(conditions),
            all: self.all.then_some(true),
            dry_run: self.dry_run.then_some(true),
            limit: self.limit,
            cursor: None,
        }
    }
}

fn shown(total: &Done) -> String {
    let done = if total.dry_run == Some(true) { "would be cancelled" } else { "cancelled" };
    let mut line = format!("{} {done}", text::count(total.cancelled, "timer"));
    if total.maybe_delivered > 0 {
        line.push_str(&format!(
            "; {} of them may have been delivered: the outcome of an attempt is not known",
            total.maybe_delivered
        ));
    }
    if total.skipped > 0 {
        line.push_str(&format!(
            "; {} left alone, being delivered or changed meanwhile: `duly list` shows what is \
             pending",
            text::count(total.skipped, "timer")
        ));
    }
    line
}
