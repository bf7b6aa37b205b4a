//! A Python package of one pinned version in a virtual environment below `target/`.
//!
//! Used by [`crate::fuzz_http`] and [`crate::clients`]. It needs `python3` with its `venv` and, the
//! first time, a network.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::{self, Outcome};

/// The file that marks an environment as complete.
const COMPLETE: &str = "complete";

/// Returns the environment at `place` with this package (`name==version`). Creates it if it is missing.
pub(crate) fn install(place: &Path, package: &str) -> Result<PathBuf> {
    if place.join(COMPLETE).exists() {
        return Ok(place.to_owned());
    }
    fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let venv =
        || process::run(process::program("python3").args(["-m", "venv", "--clear"]).arg(place));
    if venv().ok() != Some(Outcome::Passed) {
        // Debian has `venv` in a package of its own; root, as in a container, can install it.
        println!("no venv: trying apt-get install python3-venv");
        let install = ["install", "-y", "--no-install-recommends", "python3-venv"];
        process::run(process::program("apt-get").args(install)).ok();
        if venv()? == Outcome::Failed {
            bail!("python3 makes no virtual environment: install it (Debian: python3-venv)");
        }
    }
    let mut pip = process::program(place.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", package]);
    if process::run(&mut pip)? == Outcome::Failed {
        fs::remove_dir_all(place).ok();
        bail!("{package} cannot be installed: is there a network?");
    }
    fs::write(place.join(COMPLETE), package).context("cannot note that pip is done")?;
    Ok(place.to_owned())
}
