//! `duly get` and `duly fire`: show a timer, and make it due now.

use reqwest::Method;

use crate::{
    Outcome,
    args::identity::TimerArg,
    cli::Session,
    http::HttpResponse,
    output::{Printer, fields::Fields, table, when},
};

/// Shows the timer.
pub(crate) async fn run(timer: TimerArg, session: &Session) -> Outcome {
    show(session.printer, &timer.call(Method::GET, session).send().await?)
}

/// Makes the timer due now.
pub(crate) async fn fire(timer: TimerArg, session: &Session) -> Outcome {
    let below = ["timers", timer.id.as_str(), "fire"];
    let call = session.http.namespace(Method::POST, &timer.named.namespace, &below);
    show(session.printer, &call.send().await?)
}

/// Prints a response that is one object with any fields.
pub(crate) fn show(printer: Printer, response: &HttpResponse) -> Outcome {
    printer.document(&response.text, || {
        let fields: Fields = response.parse()?;
        Ok(table::of_pairs(printer.screen(), fields.pairs(when::now())))
    })
}
