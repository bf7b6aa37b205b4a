//! `duly cancel`: ends a timer before it is delivered, with a definite answer.

use duly_core::{NamespaceName, TimerId};
use reqwest::Method;
use serde::Deserialize;

use crate::{Outcome, args::values, cli::Session, commands::reschedule, output::text};

/// Cancel a timer
///
/// After it is answered with success, the timer is never delivered.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    namespace: NamespaceName,
    /// The timer's id
    #[arg(value_parser = values::timer_id)]
    id: TimerId,
    /// Only if the timer has this revision
    #[arg(long, value_name = "N")]
    if_revision: Option<u32>,
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
    let revision = args.if_revision.map(|n| ("if_revision", n.to_string()));
    let call = session
        .client
        .timer(Method::DELETE, (&args.namespace, &args.id), &[])
        .query(revision.as_slice())
        .hints(reschedule::REVISION_HINTS);
    let answer = call.send().await?;
    session.printer.answer(&answer, || {
        let cancelled: Cancelled = answer.parse()?;
        let mut line = format!(
            "{}  {}",
            text::preview(args.id.as_str(), usize::MAX),
            text::preview(&cancelled.outcome, usize::MAX)
        );
        if cancelled.already {
            line.push_str(" already");
        }
        if cancelled.attempts > 0 {
            line.push_str(&format!(", after {} attempts", cancelled.attempts));
        }
        if cancelled.maybe_delivered {
            line.push_str("; it may have been delivered: the outcome of an attempt is not known");
        }
        Ok(line)
    })
}
