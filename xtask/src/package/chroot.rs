//! Runs a script in namespaces of its own, with the root of another system at hand.
//!
//! The network has the loopback device alone, so the usual ports are free, and every process ends with the
//! script. That needs root, as for the namespaces of the torture runs.

use std::path::Path;

use anyhow::Result;

use crate::process::{self, Outcome};

/// Runs a shell script; `root` is its `$ROOT`. A failure is an error.
pub(super) fn run(script: &str, root: &Path, variables: &[(&str, &str)]) -> Result<()> {
    let proc = format!("mount -t proc proc {0}/proc 2>/dev/null || true", root.display());
    let script = format!("ip link set lo up\n{proc}\n{script}");
    let mut unshare = process::program("unshare");
    unshare.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c"]);
    unshare.arg(script).env("ROOT", root).envs(variables.iter().copied());
    let passed = process::run(&mut unshare)? == Outcome::Passed;
    anyhow::ensure!(passed, "the script failed after the lines above");
    Ok(())
}
