//! The list of the crates of a binary (SBOM, CycloneDX), from the lock file: name, version, licence and checksum of
//! each.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::package::Release;
use crate::process;

/// The tool, from crates.io.
const TOOL: (&str, &str) = ("cargo-cyclonedx", "0.5.9");
/// The target whose crates are listed. Those of the other targets are the same.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// Writes the list of the binary `duly`.
pub(super) fn write(release: &Release, dist: &Path) -> Result<()> {
    let (tool, version) = TOOL;
    let installed = process::output(&mut process::cargo(["cyclonedx", "--version"]));
    if !installed.is_ok_and(|installed| installed.trim().ends_with(version)) {
        println!("installing {tool} {version}, which takes some minutes");
        let install = ["install", "--locked", "--force", tool, "--version", version];
        process::run_or_fail(&mut process::cargo(install))?;
    }
    let name = format!("duly-{}.cdx", release.version);
    let mut list = process::cargo(["cyclonedx", "--format", "json", "--spec-version", "1.5"]);
    list.args(["--manifest-path", "crates/duly/Cargo.toml", "--target", TARGET, "--no-build-deps"]);
    list.args(["--override-filename", &name]).env("SOURCE_DATE_EPOCH", &release.epoch);
    process::output(&mut list)?;
    let file = format!("{name}.json");
    let written = process::root().join("crates/duly").join(&file);
    let text = fs::read_to_string(&written).context("cyclonedx wrote no list")?;
    // It writes a list for each crate of the workspace.
    let written = [format!("crates/*/{file}"), format!("xtask/{file}")];
    for list in process::git(&["ls-files", "--others", &written[0], &written[1]])?.lines() {
        fs::remove_file(process::root().join(list))?;
    }
    // The crates of the workspace have the path of the checkout in their references.
    let text = text.replace(&process::root().display().to_string(), "/duly");
    fs::write(dist.join(&file), text).context("cannot write the list")
}
