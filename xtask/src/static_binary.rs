//! The static binary of Duly, which needs no library of the machine.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::debian::{self, Tool};
use crate::process;

/// The variable with the path of a static `duly` binary, for the image.
pub(crate) const DULY_STATIC_BIN: &str = "DULY_STATIC_BIN";

/// The target of static binaries (musl).
pub(crate) const TARGET: &str = "x86_64-unknown-linux-musl";

/// The C compiler of static binaries.
const MUSL: Tool = Tool { name: "musl-gcc", package: "musl-tools" };

/// Returns the static binary that [`DULY_STATIC_BIN`] names, or else builds it: the crate alone, as a user
/// builds it, without the features that other crates add.
pub(crate) fn build() -> Result<PathBuf> {
    if let Some(built) = std::env::var_os(DULY_STATIC_BIN) {
        return Ok(built.into());
    }
    build_in("dev")
}

/// Builds the optimized static binary.
pub(crate) fn build_release() -> Result<PathBuf> {
    build_in("release")
}

fn build_in(profile: &str) -> Result<PathBuf> {
    install_tools()?;
    let mut command = process::cargo(["build", "--package", "duly", "--target", TARGET]);
    command.args(["--profile", profile]);
    command.arg("--message-format=json-render-diagnostics");
    let messages = process::output(command.stderr(Stdio::inherit()))?;
    process::executable(&messages, "duly").context("cargo built no static binary")
}

/// Installs the tool chain of static binaries.
pub(crate) fn install_tools() -> Result<()> {
    process::install_target(TARGET)?;
    debian::install_missing(&[&MUSL], |name| {
        process::output(process::program(name).arg("--version")).is_ok()
    });
    Ok(())
}
