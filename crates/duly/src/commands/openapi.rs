//! `duly openapi`: the description of the HTTP interface.
//!
//! `duly __openapi` prints the description of this binary, `docs/reference/openapi.json`, without a
//! server.

use crate::{Outcome, cli::Session, output::Printer};

/// Print the OpenAPI document of the server
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
pub(crate) async fn run(session: &Session) -> Outcome {
    let response = session.http.root(&["openapi.json"]).send().await?;
    session.printer.json(&response.text)
}

/// Prints the description of this binary.
pub(crate) fn print_own_document(printer: Printer) -> Outcome {
    printer.json(&duly_server::openapi_json())
}
