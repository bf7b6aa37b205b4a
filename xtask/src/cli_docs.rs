//! `cargo xtask cli-docs`: regenerates the command line's reference page from its definitions.

use anyhow::Result;

use crate::hidden;
use crate::process::Outcome;

/// Writes `docs/reference/cli.md`.
pub(crate) fn run() -> Result<Outcome> {
    hidden::regenerate("__cli-docs", "docs/reference/cli.md")
}
