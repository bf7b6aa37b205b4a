//! `cargo xtask deps`: checks the dependency policy of `deny.toml` with cargo-deny.
//!
//! 1. Bans, licences and sources need only the crates themselves; they are always checked.
//! 2. Advisories come from a database that is fetched with git. If it cannot be fetched, the command
//!    prints a prominent warning and continues. With `--advisories required` (as for a release) it fails
//!    instead.
//! 3. If cargo-deny is missing, a fixed version of it is installed.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::process::{self, Outcome};

/// The version that is installed if cargo-deny is missing, and that `deny.toml` is written for.
const CARGO_DENY_VERSION: &str = "0.20.2";

/// Time limit for fetching the advisory database.
const FETCH_LIMIT: Duration = Duration::from_secs(120);

/// Options of `cargo xtask deps`.
#[derive(Args)]
pub(crate) struct Options {
    /// Action if the advisory database cannot be fetched.
    #[arg(long, value_enum, default_value_t = Advisories::IfReachable)]
    advisories: Advisories,
}

/// The action if the advisory database cannot be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Advisories {
    /// Warn and continue.
    IfReachable,
    /// Fail.
    Required,
}

/// Runs all checks, even if an earlier one failed.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    install_if_missing()?;
    let policy = check(&[], &["--hide-inclusion-graph", "bans", "licenses", "sources"])?;
    let advisories = match fetch_advisories() {
        // The database was just fetched: `--offline` keeps the check from using the network again.
        Ok(()) => check(&["--offline"], &["advisories"])?,
        Err(error) => {
            warn_unchecked(&error);
            match options.advisories {
                Advisories::IfReachable => Outcome::Passed,
                Advisories::Required => Outcome::Failed,
            }
        }
    };
    let passed = policy == Outcome::Passed && advisories == Outcome::Passed;
    Ok(if passed { Outcome::Passed } else { Outcome::Failed })
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

fn check(options: &[&str], what: &[&str]) -> Result<Outcome> {
    process::run(process::cargo(["deny", "--locked"]).args(options).arg("check").args(what))
}

/// Updates the advisory database. Never asks for a password and never hangs.
fn fetch_advisories() -> Result<()> {
    let mut child = process::cargo(["deny", "fetch", "db"])
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start cargo deny")?;
    let started = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(_) => bail!("the advisory database could not be fetched (see above)"),
            None if started.elapsed() > FETCH_LIMIT => {
                child.kill()?;
                child.wait()?;
                bail!("the advisory database did not arrive within {FETCH_LIMIT:?}");
            }
            None => thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn warn_unchecked(reason: &anyhow::Error) {
    let bar = "!".repeat(80);
    eprintln!("{bar}");
    eprintln!("ADVISORIES WERE NOT CHECKED: {reason:#}.");
    eprintln!("Known vulnerabilities in dependencies go unnoticed in this run. Run");
    eprintln!("`cargo xtask deps --advisories required` where the network allows it.");
    eprintln!("{bar}");
}
