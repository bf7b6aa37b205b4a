//! Cancels by filter, until nothing is left that fits.

use clap::ValueEnum;
use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;
use serde::{Deserialize, Serialize};

use crate::{
    Outcome,
    args::{confirm::Confirm, fields::RequestFields, values},
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

/// What was cancelled, or would be.
#[derive(Default, Serialize)]
struct Done {
    cancelled: u64,
    maybe_delivered: u64,
    skipped: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

/// What one call came to.
#[derive(Deserialize)]
struct Step {
    cancelled: u64,
    #[serde(default)]
    maybe_delivered: u64,
    #[serde(default)]
    skipped: u64,
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
        let count = filter.cancel(namespace, true, session).await?.cancelled;
        if count > 0 {
            let timers = text::count(count, "timer");
            Confirm::ask(&format!("Cancel {timers} of {namespace}?"))?;
        }
    }
    let total = filter.cancel(namespace, filter.dry_run, session).await?;
    let document = serde_json::to_string(&total).expect("counts are JSON");
    session.printer.document(&document, || Ok(shown(&total)))
}

impl Filter {
    /// Cancels what fits, call by call, or counts it.
    async fn cancel(
        &self,
        namespace: &NamespaceName,
        dry_run: bool,
        session: &Session,
    ) -> Result<Done, Failure> {
        let mut total = Done { dry_run, ..Done::default() };
        let mut left = self.limit.map(u64::from);
        let mut cursor = None;
        loop {
            let mut fields = self.which();
            fields.set_some("limit", left);
            fields.set_some("dry_run", dry_run.then_some(true));
            fields.set_some("cursor", cursor);
            let call = session.http.namespace(Method::POST, namespace, &["cancel"]);
            let step: Step = call.body(&fields).send().await?.parse()?;
            total.cancelled += step.cancelled;
            total.maybe_delivered += step.maybe_delivered;
            total.skipped += step.skipped;
            left = left.map(|left| left.saturating_sub(step.cancelled));
            cursor = step.cursor;
            if cursor.is_none() || left == Some(0) {
                return Ok(total);
            }
        }
    }

    fn which(&self) -> RequestFields {
        let mut fields = RequestFields::default();
        if self.all {
            fields.set("all", &true);
            return fields;
        }
        let mut filter = RequestFields::default();
        filter.set_some("tag", self.tag.as_ref());
        filter.set_some("id_prefix", self.id_prefix.as_ref());
        filter.set_some("due_from", self.due_from.map(|from| from.to_string()));
        filter.set_some("due_to", self.due_to.map(|to| to.to_string()));
        let state = self.state.and_then(|state| state.to_possible_value());
        filter.set_some("state", state.map(|state| state.get_name().to_owned()));
        fields.set("filter", &filter);
        fields
    }
}

fn shown(total: &Done) -> String {
    let done = if total.dry_run { "would be cancelled" } else { "cancelled" };
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
