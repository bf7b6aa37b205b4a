//! `duly fire`: makes a timer due now.

use duly_core::{NamespaceName, TimerId};
use reqwest::Method;

use crate::{Outcome, args::values, cli::Session, commands::get};

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
    let below = ["timers", args.id.as_str(), "fire"];
    let call = session.http.namespace(Method::POST, &args.namespace, &below);
    get::show(session.printer, &call.send().await?)
}
