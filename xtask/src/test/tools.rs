//! `cargo xtask tools`: installs the programs that tests start. Receivers and workers of the guide run in their own
//! languages, the guide's pages are typed into a shell, a store runs on real servers, packages are made and checked.
//!
//! 1. Missing programs are installed if that needs no confirmation, as in a container. The test command does it while
//!    it compiles.
//! 2. A program that cannot be installed is a failure of the test command, and the tests that need it
//!    print that they did not run.
//! 3. `DULY_TEST_TOOLS` lists the programs that are present. A test must not skip a program in this
//!    list.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::valkey;
use crate::clients;
use crate::debian::{self, Tool};
use crate::fuzz_http;
use crate::package;
use crate::process::{self, Outcome};
use crate::venv;

/// The variable that lists the programs that tests must use.
pub(super) const TEST_TOOLS: &str = "DULY_TEST_TOOLS";

/// An OpenTelemetry collector, from PyPI.
const COLLECTOR: &str = "rotel==0.0.1a15";
/// The variable with its program.
const COLLECTOR_VARIABLE: &str = "DULY_TEST_COLLECTOR";

const TOOLS: [Tool; 10] = [
    Tool { name: "bash", package: "bash" },
    Tool { name: "curl", package: "curl" },
    Tool { name: "python3", package: "python3" },
    Tool { name: "tzdata", package: "tzdata" },
    Tool { name: "node", package: "nodejs" },
    Tool { name: "npm", package: "npm" },
    Tool { name: "ruby", package: "ruby" },
    Tool { name: "javac", package: "default-jdk-headless" },
    Tool { name: "redis-server", package: "redis-server" },
    Tool { name: "rsync", package: "rsync" },
];

/// Programs for the torture run of several nodes. Without one of them it skips itself, or a fault, by
/// name.
const OF_TORTURE: [Tool; 2] =
    [Tool { name: "ip", package: "iproute2" }, Tool { name: "faketime", package: "faketime" }];

/// The programs that are present, and the number of missing ones.
pub(super) struct Tools {
    /// Names of the present programs, separated by spaces.
    pub(super) found: String,
    /// Number of programs that could not be installed.
    pub(super) missing: u64,
    /// The variable with the path of the collector of spans.
    pub(super) collector: Option<(&'static str, PathBuf)>,
}

/// Installs each program that can be installed. Prints each fault; the step that needs the program fails later.
pub(crate) fn install() -> Outcome {
    let all: Vec<_> = TOOLS.iter().chain(&OF_TORTURE).collect();
    debian::install_missing(&all, is_there);
    let clients = || clients::LANGUAGES.iter().try_for_each(clients::Language::install);
    let parts: [(&str, &dyn Fn() -> Result<()>); 5] = [
        ("the collector of spans", &|| collector().map(drop)),
        ("Valkey", &|| valkey::find().map(drop)),
        ("the HTTP fuzzer", &|| fuzz_http::install().map(drop)),
        ("the generators of clients", &clients),
        ("the tools of packages", &package::check::install),
    ];
    let mut outcome = Outcome::Passed;
    for (name, install) in parts {
        if let Err(error) = install() {
            eprintln!("error: cannot install {name}: {error:#}");
            outcome = Outcome::Failed;
        }
    }
    outcome
}

/// Returns the programs that are present, and prints an error for each missing one.
pub(super) fn found() -> Tools {
    let (found, missing): (Vec<&Tool>, Vec<&Tool>) =
        TOOLS.iter().partition(|tool| is_there(tool.name));
    for tool in &missing {
        eprintln!(
            "error: {} is missing, so tests that start it are NOT RUN: install it (Debian: `{}`)",
            tool.name, tool.package
        );
    }
    let found: Vec<_> = found.iter().map(|tool| tool.name).collect();
    let collector = collector();
    if let Err(error) = &collector {
        eprintln!("error: {COLLECTOR} is missing, so the tests of traces are NOT RUN: {error:#}");
    }
    Tools {
        found: found.join(" "),
        missing: missing.len() as u64 + u64::from(collector.is_err()),
        collector: collector.ok().map(|path| (COLLECTOR_VARIABLE, path)),
    }
}

/// Installs the collector, and returns its program. Its package has the program beside its modules.
fn collector() -> Result<PathBuf> {
    let folder = venv::install(&process::root().join("target/collector"), &[COLLECTOR])?;
    let program = venv::packages_of(&folder)?.join("rotel/rotel-agent");
    ensure!(program.exists(), "the package has no rotel-agent");
    Ok(program)
}

fn is_there(name: &str) -> bool {
    if name == "tzdata" {
        return Path::new("/usr/share/zoneinfo/Europe/Berlin").exists();
    }
    // `ip` has no `--version`.
    let version = if name == "ip" { "-V" } else { "--version" };
    process::output(process::program(name).arg(version)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_running_it() {
        assert!(is_there("cargo"));
        assert!(!is_there("a-program-that-does-not-exist"));
    }
}
