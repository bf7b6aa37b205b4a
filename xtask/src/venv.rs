//! Python packages of pinned versions in virtual environments below `target/`.
//!
//! The environments share one pip, because to install pip takes longer than most packages.
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
    let packages_of_pip = pip()?;
    make(folder, &["--without-pip"])?;
    let mut pip = process::program(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    // Python compiles the few modules that run; to compile all would take most of the time.
    pip.arg("--no-compile").args(packages).env("PYTHONPATH", packages_of_pip);
    if let Err(error) = process::run_or_fail(&mut pip) {
        fs::remove_dir_all(folder).ok();
        return Err(
            error.context(format!("cannot install {}: check the network", packages.join(" ")))
        );
    }
    fs::write(folder.join(COMPLETE), wanted).context("cannot note that pip is done")?;
    Ok(folder.to_owned())
}

/// Makes the environment of pip if it is missing, and returns the folder of its packages.
fn pip() -> Result<PathBuf> {
    let folder = process::root().join("target/pip");
    if !folder.join(COMPLETE).exists() {
        make(&folder, &[])?;
        // pip alone may be seen by the other environments: what they need is installed there.
        let mut pip = process::program(folder.join("bin/pip"));
        process::output(pip.args(["uninstall", "--quiet", "--yes", "setuptools"]))?;
        fs::write(folder.join(COMPLETE), "pip").context("cannot note that pip is there")?;
    }
    packages_of(&folder)
}

/// Returns the folder of an environment's packages.
pub(crate) fn packages_of(folder: &Path) -> Result<PathBuf> {
    let version = fs::read_dir(folder.join("lib"))?.next().context("no version of Python")??;
    Ok(version.path().join("site-packages"))
}

/// Makes an empty environment.
fn make(folder: &Path, options: &[&str]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let venv = || {
        let mut python = process::program("python3");
        process::run(python.args(["-m", "venv", "--clear"]).args(options).arg(folder))
    };
    if venv().ok() != Some(Outcome::Passed) {
        // Debian has `venv` in a package of its own; root, as in a container, can install it.
        debian::install(&["python3-venv"]);
        if venv()? == Outcome::Failed {
            bail!("python3 makes no virtual environment: install it (Debian: python3-venv)");
        }
    }
    Ok(())
}
