//! `duly get`: shows a timer.

use duly_client::Timer;
use duly_core::{NamespaceName, TimerId};

use crate::{
    Outcome,
    answer::{self, problem},
    args::values,
    cli::Session,
    http::Answer,
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
    let document = answer::timer(timer)?;
    printer.document(&document, || {
        let fields = serde_json::from_str(&document).expect("it was written as JSON just now");
        Ok(pairs(printer, &fields))
    })
}

/// Prints an answer that is one object, whatever its fields.
pub(crate) fn show(printer: Printer, answer: &Answer) -> Outcome {
    printer.answer(answer, || Ok(pairs(printer, &answer.parse()?)))
}

fn pairs(printer: Printer, fields: &Fields) -> String {
    table::of_pairs(printer.screen(), fields.pairs(when::now()))
}
