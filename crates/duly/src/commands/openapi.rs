//! `duly __openapi`: prints the OpenAPI document, `docs/reference/openapi.json`.

use crate::{Outcome, output::Printer};

/// Runs it.
pub(crate) fn run(printer: Printer) -> Outcome {
    printer.line(&duly_server::openapi_json())
}
