//! The static binary of Duly, which needs no library of the machine.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::debian::{self, Tool};
use crate::process;

/// The target of static binaries (musl).
pub(crate) const TARGET: &str = "x86_64-unknown-linux-musl";

/// The C compiler of static binaries.
const MUSL: Tool = Tool { name: "musl-gcc", package: "musl-tools" };

/// Builds the optimized static binary: the crate alone, as a user builds it, without the features that other crates
/// add.
pub(crate) fn build() -> Result<PathBuf> {
    process::install_target(TARGET)?;
    debian::install_missing(&[&MUSL], |name| {
        process::output(process::program(name).arg("--version")).is_ok()
    });
    let mut command = process::cargo(["build", "--release", "--package", "duly"]);
    command.args(["--target", TARGET]);
    command.arg("--message-format=json-render-diagnostics");
    let messages = process::output(command.stderr(Stdio::inherit()))?;
    process::executable(&messages, "duly").context("cargo built no static binary")
}
