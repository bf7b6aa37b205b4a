//! `duly get` and `duly fire`: show a timer, and make it due now.

use reqwest::Method;

use crate::{
    Outcome,
    args::named::NamedTimer,
    cli::Session,
    http::Answer,
    output::{Printer, fields::Fields, table, when},
};

/// Shows the timer.
pub(crate) async fn run(timer: NamedTimer, session: &Session) -> Outcome {
    show(session.printer, &timer.call(Method::GET, session).send().await?)
}

/// Makes the timer due now.
pub(crate) async fn fire(timer: NamedTimer, session: &Session) -> Outcome {
    let below = ["timers", timer.id.as_str(), "fire"];
    let call = session.http.namespace(Method::POST, &timer.named.namespace, &below);
    show(session.printer, &call.send().await?)
}

/// Prints a response that is one object with any fields.
pub(crate) fn show(printer: Printer, answer: &Answer) -> Outcome {
    printer.document(&answer.text, || {
        let fields: Fields = answer.parse()?;
        Ok(table::of_pairs(printer.screen(), fields.pairs(when::now())))
    })
}
