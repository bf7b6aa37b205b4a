//! `duly fire`: makes a timer due now.

use duly_core::{NamespaceName, TimerId};

use crate::{Outcome, answer::problem, args::values, cli::Session, commands::get};

/// Fire a timer now: make it due, or start its next attempt
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    namespace: NamespaceName,
    /// The timer's id
    #[arg(value_parser = values::timer_id)]
    id: TimerId,
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let timer = session.client()?.fire(args.namespace.as_str(), args.id.as_str()).await;
    let timer = timer.map_err(|error| problem::failure(&error, &[]))?;
    get::show_timer(session.printer, &timer)
}
