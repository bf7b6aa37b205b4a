//! Python packages of pinned versions in virtual environments below `target/`.
//!
//! Used by [`crate::fuzz_http`] and [`crate::clients`]. It needs `python3` with its `venv` and, the
//! first time, a network.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::process::{self, Outcome};

/// The file that marks an environment as complete.
const COMPLETE: &str = "complete";

/// Returns the environment at `folder` with these packages (`name==version`). Creates it if it is missing.
pub(crate) fn install(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    let wanted = packages.join("\n");
    if fs::read_to_string(folder.join(COMPLETE)).is_ok_and(|present| present == wanted) {
        return Ok(folder.to_owned());
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let venv =
        || process::run(process::program("python3").args(["-m", "venv", "--clear"]).arg(folder));
    if venv().ok() != Some(Outcome::Passed) {
        // Debian has `venv` in a package of its own; root, as in a container, can install it.
        debian::install(&["python3-venv"]);
        if venv()? == Outcome::Failed {
            bail!("python3 makes no virtual environment: install it (Debian: python3-venv)");
        }
    }
    let mut pip = process::program(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
    if let Err(error) = process::run_or_fail(&mut pip) {
        fs::remove_dir_all(folder).ok();
        return Err(
            error.context(format!("cannot install {}: check the network", packages.join(" ")))
        );
    }
    fs::write(folder.join(COMPLETE), wanted).context("cannot note that pip is done")?;
    Ok(folder.to_owned())
}
