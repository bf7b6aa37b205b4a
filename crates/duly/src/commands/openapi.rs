//! `duly openapi`: the description of the HTTP interface.
//!
//! `duly __openapi` prints that of this program, `docs/reference/openapi.json`, without a server.

use reqwest::Method;

use crate::{Outcome, cli::Session, output::Printer};

/// Print the OpenAPI document of the server
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) async fn run(session: &Session) -> Outcome {
    let answer = session.http.root(Method::GET, &["openapi.json"]).send().await?;
    session.printer.json(&answer.text)
}

/// Prints that of this program.
pub(crate) fn own(printer: Printer) -> Outcome {
    printer.json(&duly_server::openapi_json())
}
