//! The list of the parts of a binary (SBOM, CycloneDX), from the lock file: name, version, licence and checksum of
//! each crate.

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
    if process::output(&mut process::cargo(["cyclonedx", "--version"])).is_err() {
        println!("installing {tool} {version}, which takes some minutes");
        let install = ["install", "--locked", tool, "--version", version];
        process::run_or_fail(&mut process::cargo(install))?;
    }
    let name = format!("duly-{}.cdx", release.version);
    let mut list = process::cargo(["cyclonedx", "--format", "json", "--spec-version", "1.5"]);
    list.args(["--manifest-path", "crates/duly/Cargo.toml", "--target", TARGET, "--no-build-deps"]);
    list.args(["--override-filename", &name]).env("SOURCE_DATE_EPOCH", &release.epoch);
    process::output(&mut list)?;
    let file = process::root().join("crates/duly").join(format!("{name}.json"));
    fs::rename(&file, dist.join(format!("{name}.json"))).context("cyclonedx wrote no list")
}
