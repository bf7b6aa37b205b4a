//! `cargo xtask torture --minutes N --seed S`: a real server under load, killed with -9 at random
//! moments, started again, and checked against everything it had acknowledged.
//!
//! The work is `duly-torture` of `duly-testkit`; this builds it and `duly` for release and passes
//! the arguments on.

use anyhow::Result;

use crate::process::{self, Outcome};

/// Builds, runs, and answers the checker's verdict.
pub(crate) fn run(args: &[String]) -> Result<Outcome> {
    process::run_testkit("duly-torture", args)
}
