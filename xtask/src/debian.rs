//! Debian packages: installs the programs that commands need, or unpacks a package below `target/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{self, Outcome};

/// A program, and the Debian package that has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
}

/// Installs packages, if that needs no confirmation, as in a container. The caller checks the result.
pub(crate) fn install(packages: &[&str]) {
    println!("trying apt-get install {}", packages.join(" "));
    let apt = |args: &[&str]| {
        let mut command = process::program("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        // Another step may install at the same time.
        command.args(["-o", "DPkg::Lock::Timeout=300"]).args(args);
        process::run(&mut command).is_ok_and(|outcome| outcome == Outcome::Passed)
    };
    let install = [&["install", "-y", "--no-install-recommends"][..], packages].concat();
    // A failure is usually due to package lists that were never fetched.
    if !apt(&install) && apt(&["update"]) {
        apt(&install);
    }
}

/// Installs those tools that are missing, and returns those that are still missing.
pub(crate) fn install_missing<'a>(
    tools: &[&'a Tool],
    is_there: impl Fn(&str) -> bool,
) -> Vec<&'a Tool> {
    let missing = || tools.iter().copied().filter(|tool| !is_there(tool.name));
    let absent: Vec<_> = missing().map(|tool| tool.package).collect();
    if !absent.is_empty() {
        install(&absent);
    }
    missing().collect()
}

/// Returns apt-get, to be run in a folder.
pub(crate) fn apt(folder: &Path) -> Command {
    let mut command = process::program("apt-get");
    command.current_dir(folder).args(["-qq", "-o", "APT::Sandbox::User=root"]);
    command
}

/// Fetches a package into a folder and unpacks it, without an installation. Returns the root of its files.
pub(crate) fn unpack(package: &str, folder: &Path, options: &[String]) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    process::output(apt(folder).args(options).args(["download", package]))?;
    let file = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    let unpacked = folder.join("unpacked");
    process::output(process::program("dpkg").arg("--extract").arg(&file).arg(&unpacked))?;
    Ok(unpacked)
}
