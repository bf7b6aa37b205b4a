//! Cancels by filter, until nothing is left that fits.

use clap::ValueEnum;
use duly_client::{CancelMany, CancelledMany};
use duly_core::{NamespaceName, Timestamp};
use serde::Serialize;

use crate::{
    Outcome,
    answer::{self, problem},
    args::{confirm::Confirm, due, values},
    cli::Session,
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
#[derive(Serialize)]
struct Done {
    cancelled: u64,
    maybe_delivered: u64,
    skipped: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

/// Runs it. Repeated after a failure, it goes on with those that are left.
pub(super) async fn run(
    namespace: &NamespaceName,
    filter: &Filter,
    confirm: &Confirm,
    session: &Session,
) -> Outcome {
    let client = session.client()?;
    let call = async |which| {
        let done = client.cancel_many(namespace.as_str(), which).await;
        done.map_err(|error| problem::failure(&error, &[]))
    };
    if !filter.dry_run && confirm.is_needed() {
        let count = call(filter.which().dry_run()).await?.cancelled;
        if count > 0 {
            let timers = text::count(count, "timer");
            Confirm::ask(&format!("Cancel {timers} of {namespace}?"))?;
        }
    }
    let which = filter.which();
    let total = call(if filter.dry_run { which.dry_run() } else { which }).await?;
    let CancelledMany { cancelled, maybe_delivered, skipped, .. } = total;
    let total = Done { cancelled, maybe_delivered, skipped, dry_run: filter.dry_run };
    session.printer.document(&answer::json(&total), || Ok(shown(&total)))
}

impl Filter {
    fn which(&self) -> CancelMany {
        let mut which = if self.all {
            CancelMany::all()
        } else {
            let mut fitting = duly_client::Filter::new();
            if let Some(tag) = &self.tag {
                fitting = fitting.tag(tag);
            }
            if let Some(prefix) = &self.id_prefix {
                fitting = fitting.id_prefix(prefix);
            }
            if let Some(from) = self.due_from {
                fitting = fitting.due_from(due::time(from));
            }
            if let Some(to) = self.due_to {
                fitting = fitting.due_to(due::time(to));
            }
            if let Some(state) = self.state {
                fitting = fitting.state(state.into());
            }
            CancelMany::fitting(fitting)
        };
        if let Some(limit) = self.limit {
            which = which.limit(limit.into());
        }
        which
    }
}

impl From<State> for duly_client::State {
    fn from(state: State) -> Self {
        match state {
            State::Scheduled => Self::Scheduled,
            State::Due => Self::Due,
            State::Retrying => Self::Retrying,
        }
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
