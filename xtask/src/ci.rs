//! `cargo xtask ci`: runs the steps of CI on this machine.
//!
//! The steps and their order are in the script `.ci/run`, which needs nothing built beforehand.

use anyhow::Result;

use crate::process::{self, Outcome};

/// Runs the script.
pub(crate) fn run() -> Result<Outcome> {
    process::run(process::program("bash").arg(".ci/run"))
}
