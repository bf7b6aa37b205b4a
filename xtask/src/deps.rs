//! `cargo xtask deps`: checks the dependency policy of `deny.toml`.
//!
//! 1. Bans, licences and sources are checked here, on what `cargo metadata` prints ([`policy`]). That takes a second
//!    and installs nothing, so CI does it.
//! 2. With `--advisories`, as every night and before a release, cargo-deny checks the same file again, and the
//!    advisories of RustSec as well. It fetches their database with git, and fails if that cannot be fetched. If
//!    cargo-deny is missing, a fixed version of it is compiled, which takes minutes.

mod policy;

use std::fs;

use anyhow::{Context, Result};
use clap::Args;

use crate::process::{self, Outcome};
use policy::{Metadata, Policy};

/// The version that is installed if cargo-deny is missing, and that `deny.toml` is written for.
const CARGO_DENY_VERSION: &str = "0.20.2";

/// Options of `cargo xtask deps`.
#[derive(Args)]
pub(crate) struct Options {
    /// Check advisories as well, with cargo-deny.
    #[arg(long)]
    advisories: bool,
}

/// Runs all checks, even if an earlier one failed.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    let file = process::root().join("deny.toml");
    let text = fs::read_to_string(&file).context("cannot read deny.toml")?;
    let policy: Policy = toml::from_str(&text).context("deny.toml")?;
    let metadata = metadata(&policy)?;
    for line in policy.duplicates(&metadata) {
        println!("warning: {line}");
    }
    let violations = policy.violations(&metadata)?;
    for violation in &violations {
        eprintln!("error: {violation}");
    }
    println!("{} crates: {} against the policy", metadata.packages.len(), violations.len());
    let advisories = if options.advisories { deny()? } else { Outcome::Passed };
    let passed = violations.is_empty() && advisories == Outcome::Passed;
    Ok(if passed { Outcome::Passed } else { Outcome::Failed })
}

/// Returns the crates of the lock file that the platforms of the policy need.
fn metadata(policy: &Policy) -> Result<Metadata> {
    let mut command =
        process::cargo(["metadata", "--format-version", "1", "--locked", "--all-features"]);
    for target in &policy.graph.targets {
        command.args(["--filter-platform", target]);
    }
    let text = process::output(&mut command)?;
    serde_json::from_str(&text).context("cargo metadata prints another format")
}

/// Runs every check of cargo-deny.
fn deny() -> Result<Outcome> {
    install_if_missing()?;
    let mut deny = process::cargo(["deny", "--locked", "check", "--hide-inclusion-graph"]);
    // Never asks for a password, and gives a stalled connection up.
    deny.env("GIT_TERMINAL_PROMPT", "0");
    deny.env("GIT_HTTP_LOW_SPEED_LIMIT", "1000").env("GIT_HTTP_LOW_SPEED_TIME", "60");
    process::run(&mut deny)
}

fn install_if_missing() -> Result<()> {
    if let Ok(version) = process::output(&mut process::cargo(["deny", "--version"])) {
        let version = version.trim();
        if !version.ends_with(&format!(" {CARGO_DENY_VERSION}")) {
            println!("using {version}; the policy is written for {CARGO_DENY_VERSION}");
        }
        return Ok(());
    }
    println!("installing cargo-deny {CARGO_DENY_VERSION}, which takes some minutes");
    let install = ["install", "--locked", "cargo-deny", "--version", CARGO_DENY_VERSION];
    process::run_or_fail(&mut process::cargo(install))
}
