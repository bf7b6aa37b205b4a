//! Writes reference pages that the `duly` binary itself prints.
//!
//! Hidden commands of the binary print pages that are generated from its own types. A test beside each
//! command fails if the committed page is stale. Used by `cargo xtask openapi` and
//! `cargo xtask cli-docs`.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::process::{self, Outcome};

/// Runs a hidden command of `duly` and writes its output to `page`, a path from the root.
///
/// The page is written only if the command succeeded and printed something.
pub(crate) fn regenerate(command: &str, page: &str) -> Result<Outcome> {
    let mut cargo = process::cargo(["run", "--quiet", "-p", "duly", "--", command]);
    let text = process::output(cargo.stderr(Stdio::inherit()))
        .with_context(|| format!("{page} is unchanged"))?;
    ensure!(!text.trim().is_empty(), "`{command}` printed nothing; {page} is unchanged");
    let path = process::root().join(page);
    let news = if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        "is up to date"
    } else {
        fs::write(&path, &text).with_context(|| format!("cannot write {page}"))?;
        "written"
    };
    println!("{page} {news}");
    Ok(Outcome::Passed)
}
