//! `cargo xtask ci`: what CI does, here and now.
//!
//! The order stands in one place, the script `.ci/run`, which needs nothing built beforehand.

use anyhow::Result;

use crate::process::{self, Outcome};

/// Runs the script.
pub(crate) fn run() -> Result<Outcome> {
    process::run(process::program("bash").arg(".ci/run"))
}
