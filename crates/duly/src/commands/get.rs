//! `duly get`: shows a timer.

use duly_core::{NamespaceName, TimerId};
use reqwest::Method;

use crate::{
    Outcome,
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
    let call = session.http.namespace(Method::GET, &args.namespace, &["timers", args.id.as_str()]);
    show(session.printer, &call.send().await?)
}

/// Prints an answer that is one object, whatever its fields.
pub(crate) fn show(printer: Printer, answer: &Answer) -> Outcome {
    printer.answer(answer, || {
        let fields: Fields = answer.parse()?;
        Ok(table::of_pairs(printer.screen(), fields.pairs(when::now())))
    })
}
