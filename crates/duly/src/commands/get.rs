//! `duly get`: shows a timer.

use duly_client::Timer;
use duly_core::{NamespaceName, TimerId};

use crate::{
    Outcome,
    answer::{self, problem},
    args::values,
    cli::Session,
    failure::Failure,
    output::{Printer, fields::Fields, table, when},
};

/// Show a timer: its state, attempts and history
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
    let timer = session.client()?.get(args.namespace.as_str(), args.id.as_str()).await;
    show_timer(session.printer, &timer.map_err(|error| problem::failure(&error, &[]))?)
}

/// Prints a timer with all its fields.
pub(crate) fn show_timer(printer: Printer, timer: &Timer) -> Outcome {
    show(printer, &answer::timer(timer)?)
}

/// Prints a document that is one object, whatever its fields.
pub(crate) fn show(printer: Printer, document: &str) -> Outcome {
    printer.document(document, || {
        let fields: Fields = serde_json::from_str(document).map_err(|error| {
            Failure::coded("not_duly", format_args!("the server answered no object ({error}): is it a Duly server, and of the same version as this command?"))
        })?;
        Ok(table::of_pairs(printer.screen(), fields.pairs(when::now())))
    })
}
