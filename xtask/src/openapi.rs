//! `cargo xtask openapi`: regenerates the OpenAPI document from the server's code.

use anyhow::Result;

use crate::hidden;
use crate::process::Outcome;

/// Writes `docs/reference/openapi.json`.
pub(crate) fn run() -> Result<Outcome> {
    hidden::regenerate("__openapi", "docs/reference/openapi.json")
}
