//! `cargo xtask bench …`: measures a release build on this machine.
//!
//! `duly-bench` measures the engine and the webhook sink in process. `duly-measure` of `duly-testkit`
//! measures a whole server. This module builds the release binaries that are needed, and passes the
//! arguments on.

use anyhow::{Result, bail};

use crate::process::{self, Outcome, Profile};

/// First arguments that are passed to `duly-bench`.
const IN_PROCESS: &[&str] = &["engine", "webhooks"];

/// Builds, and runs the measurement that the arguments name.
pub(crate) fn run(args: &[String]) -> Result<Outcome> {
    if !args.first().is_some_and(|subject| is_in_process(subject)) {
        return process::run_testkit("duly-measure", args);
    }
    let built = process::build_binaries(Profile::Release, &["duly-bench"])?;
    let [bench] = built.as_slice() else { bail!("cargo did not build `duly-bench`") };
    process::run(process::program(bench).args(args))
}

fn is_in_process(subject: &str) -> bool {
    IN_PROCESS.contains(&subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_in_process_goes_to_duly_bench() {
        assert!(is_in_process("engine") && is_in_process("webhooks"));
        for subject in ["lateness", "http-schedules", "memory", "--help"] {
            assert!(!is_in_process(subject), "{subject}");
        }
    }
}
