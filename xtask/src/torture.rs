//! `cargo xtask torture --minutes N --seed S`: a real server under load, killed with -9 at random
//! moments, started again, and checked against everything it had acknowledged.
//!
//! The work is `duly-torture` of `duly-testkit`; this builds it and `duly` for release and passes
//! the arguments on. With `DULY_FUZZ_SEEDS` set, so many seeds of damaged bytes go through every
//! decoder first.

use anyhow::Result;

use crate::process::{self, Outcome};

/// How many seeds the decoders are tried with; read by their test.
const FUZZ_SEEDS: &str = "DULY_FUZZ_SEEDS";

/// Builds, runs, and answers the checker's verdict.
pub(crate) fn run(args: &[String]) -> Result<Outcome> {
    if std::env::var_os(FUZZ_SEEDS).is_some() {
        let fuzz = ["test", "--release", "-p", "duly-store-embedded", "--lib", "fuzz"];
        if process::run(&mut process::cargo(fuzz))? == Outcome::Failed {
            return Ok(Outcome::Failed);
        }
    }
    process::run_testkit("duly-torture", args)
}
