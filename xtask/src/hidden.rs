//! Writes reference pages that the `duly` binary itself prints.
//!
//! Hidden commands of the binary print pages that are generated from its own types. A test beside each
//! command fails if the committed page is stale. Used by [`crate::openapi`] and [`crate::cli_docs`].

use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::process::{self, Outcome};

/// Runs a hidden command of `duly` and writes its output to `page`, a path from the root.
///
/// The page is written only if the command succeeded and printed something.
pub(crate) fn regenerate(command: &str, page: &str) -> Result<Outcome> {
    let mut cargo = process::cargo(["run", "--quiet", "-p", "duly", "--", command]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("`{}` failed; {page} is unchanged", process::shown(&cargo));
    }
    if output.stdout.trim_ascii().is_empty() {
        bail!("`{}` printed nothing; {page} is unchanged", process::shown(&cargo));
    }
    let path = process::root().join(page);
    let news = if fs::read(&path).is_ok_and(|old| old == output.stdout) {
        "is up to date"
    } else {
        fs::write(&path, &output.stdout).with_context(|| format!("cannot write {page}"))?;
        "written"
    };
    println!("{page} {news}");
    Ok(Outcome::Passed)
}
