//! `cargo xtask bench …`: builds a release binary and runs `duly bench …` with it.

use anyhow::{Result, bail};

use crate::process::{self, Outcome, Profile};

/// Builds, and runs the measurement that the arguments name.
pub(crate) fn run(args: &[String]) -> Result<Outcome> {
    let built = process::build_binaries(Profile::Release, &["duly"])?;
    let [duly] = built.as_slice() else { bail!("cargo did not build `duly`") };
    process::run(process::program(duly).arg("bench").args(args))
}
