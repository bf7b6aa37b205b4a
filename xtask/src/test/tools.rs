//! The programs that some tests start: receivers and workers of the guide run in their own languages,
//! the guide's pages are typed into a shell, and a store runs on real servers.
//!
//! 1. Missing programs are installed if that needs no confirmation, as in a container.
//! 2. A program that cannot be installed is a failure of the test command, and the tests that need it
//!    print that they did not run.
//! 3. `DULY_TEST_TOOLS` lists the programs that are present. A test must not skip a program in this
//!    list.

use std::path::Path;

use crate::process::{self, Outcome};

/// The variable that lists the programs that tests must use.
pub(super) const TEST_TOOLS: &str = "DULY_TEST_TOOLS";

/// A program, and its Debian package.
struct Tool {
    name: &'static str,
    package: &'static str,
}

const TOOLS: [Tool; 9] = [
    Tool { name: "bash", package: "bash" },
    Tool { name: "curl", package: "curl" },
    Tool { name: "python3", package: "python3" },
    Tool { name: "tzdata", package: "tzdata" },
    Tool { name: "node", package: "nodejs" },
    Tool { name: "npm", package: "npm" },
    Tool { name: "ruby", package: "ruby" },
    Tool { name: "javac", package: "default-jdk-headless" },
    Tool { name: "redis-server", package: "redis-server" },
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
}

/// Installs missing programs as far as possible.
pub(super) fn install() -> Tools {
    let all = TOOLS.iter().chain(&OF_TORTURE);
    let absent: Vec<&Tool> = all.filter(|tool| !is_there(tool.name)).collect();
    if !absent.is_empty() {
        let packages: Vec<_> = absent.iter().map(|tool| tool.package).collect();
        println!("trying apt-get install {}", packages.join(" "));
        let apt = |args: &[&str]| {
            let mut command = process::program("apt-get");
            command.env("DEBIAN_FRONTEND", "noninteractive").args(args);
            process::run(&mut command).is_ok_and(|outcome| outcome == Outcome::Passed)
        };
        let install = [&["install", "-y", "--no-install-recommends"][..], &packages].concat();
        // A failure is usually due to package lists that were never fetched.
        if !apt(&install) && apt(&["update"]) {
            apt(&install);
        }
    }
    let (found, missing): (Vec<_>, Vec<_>) = TOOLS.iter().partition(|tool| is_there(tool.name));
    for tool in &missing {
        eprintln!(
            "error: {} is missing, so tests that start it are NOT RUN: install it (Debian: `{}`)",
            tool.name, tool.package
        );
    }
    let found: Vec<_> = found.iter().map(|tool| tool.name).collect();
    Tools { found: found.join(" "), missing: u64::try_from(missing.len()).unwrap_or(u64::MAX) }
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
