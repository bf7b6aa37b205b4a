//! `duly cancel`: ends timers before they are delivered: one by its id, with a definite answer, or
//! all that fit a filter.

mod bulk;

use duly_core::{NamespaceName, TimerId};
use reqwest::Method;
use serde::Deserialize;

use crate::{
    Outcome,
    args::{confirm::Confirm, values},
    cli::Session,
    commands::reschedule,
    output::text,
};

/// Cancel a timer, or all that fit a filter
///
/// After it is answered with success, the timer is never delivered. Without an id, every pending
/// timer is cancelled that fits all the conditions given; `--dry-run` counts them first, and at a
/// terminal you are asked. What is being delivered is left alone and counted.
#[derive(clap::Args)]
#[command(
    override_usage = "duly cancel [OPTIONS] <NAMESPACE> <ID>\n       duly cancel [OPTIONS] <NAMESPACE> <--tag <TAG>|--id-prefix <TEXT>|--due-from <TIME>|--due-to <TIME>|--state <STATE>|--all>"
)]
pub(crate) struct Args {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    namespace: NamespaceName,
    /// The timer's id
    #[arg(
        value_parser = values::timer_id,
        required_unless_present_any = ["tag", "id_prefix", "due_from", "due_to", "state", "all"]
    )]
    id: Option<TimerId>,
    /// Only if the timer has this revision
    #[arg(long, value_name = "N", requires = "id", value_parser = values::whole::<u32>)]
    if_revision: Option<u32>,
    #[command(flatten)]
    filter: bulk::Filter,
    #[command(flatten)]
    confirm: Confirm,
}

#[derive(Deserialize)]
struct Cancelled {
    outcome: String,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    maybe_delivered: bool,
    #[serde(default)]
    already: bool,
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let Some(id) = args.id else {
        return bulk::run(&args.namespace, &args.filter, &args.confirm, session).await;
    };
    let revision = args.if_revision.map(|n| ("if_revision", n.to_string()));
    let call = session
        .client
        .timer(Method::DELETE, (&args.namespace, &id), &[])
        .query(revision.as_slice())
        .hints(reschedule::REVISION_HINTS);
    let answer = call.send().await?;
    session.printer.answer(&answer, || {
        let cancelled: Cancelled = answer.parse()?;
        let mut line = format!(
            "{}  {}",
            text::preview(id.as_str(), usize::MAX),
            text::preview(&cancelled.outcome, usize::MAX)
        );
        if cancelled.already {
            line.push_str(" already");
        }
        if cancelled.attempts > 0 {
            line.push_str(&format!(
                ", after {}",
                text::count(cancelled.attempts.into(), "attempt")
            ));
        }
        if cancelled.maybe_delivered {
            line.push_str("; it may have been delivered: the outcome of an attempt is not known");
        }
        Ok(line)
    })
}
