//! `duly cancel`: cancels timers: one by its id, with a definite result, or all that match a filter.

mod bulk;

use duly_api::CancelResponse;
use duly_core::TimerId;
use reqwest::Method;

use crate::{
    Outcome,
    args::{confirm::Confirm, identity::NamespaceArg, values},
    cli::Session,
    commands::reschedule,
    output::text,
};

/// Cancel a timer, or all that match a filter
///
/// When the command succeeds, the timer is never delivered. Without an id, every pending timer that
/// meets all given conditions is cancelled. `--dry-run` counts them first, and at a terminal you are
/// asked for confirmation. Timers that are being delivered are skipped and counted.
#[derive(clap::Args)]
#[command(
    override_usage = "duly cancel [OPTIONS] <NAMESPACE> <ID>\n       duly cancel [OPTIONS] <NAMESPACE> <--tag <TAG>|--id-prefix <TEXT>|--due-from <TIME>|--due-to <TIME>|--state <STATE>|--all>"
)]
pub(crate) struct Args {
    #[command(flatten)]
    named: NamespaceArg,
    /// The timer's id
    #[arg(
        value_parser = values::timer_id,
        required_unless_present_any = ["tag", "id_prefix", "due_from", "due_to", "state", "all"],
        conflicts_with_all = ["tag", "id_prefix", "due_from", "due_to", "state", "all", "limit", "dry_run"]
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

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let Some(id) = args.id else {
        return bulk::run(&args.named.namespace, &args.filter, &args.confirm, session).await;
    };
    let query: Vec<_> =
        args.if_revision.iter().map(|revision| ("if_revision", revision.to_string())).collect();
    let call =
        session.http.namespace(Method::DELETE, &args.named.namespace, &["timers", id.as_str()]);
    let reply = call.query(&query).hints(reschedule::REVISION_HINTS).send().await?;
    session.printer.document(&reply.text, || {
        let cancelled: CancelResponse = reply.parse()?;
        let mut line = format!("{}  cancelled", text::preview(id.as_str(), usize::MAX));
        if cancelled.already {
            line.push_str(" already");
        }
        if cancelled.attempts > 0 {
            let attempts = text::count(cancelled.attempts.into(), "attempt");
            line.push_str(&format!(", after {attempts}"));
        }
        if cancelled.maybe_delivered {
            line.push_str("; it may have been delivered: the outcome of an attempt is unknown");
        }
        Ok(line)
    })
}
