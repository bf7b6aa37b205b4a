//! `cargo xtask bench …`: measures a release build on this machine.
//!
//! The work is `duly-measure` of `duly-testkit`; this builds it and `duly` for release and passes
//! the arguments on.

use anyhow::Result;

use crate::process::{self, Outcome};

/// Builds, and runs the measurement that the arguments name.
pub(crate) fn run(args: &[String]) -> Result<Outcome> {
    process::run_testkit("duly-measure", args)
}
