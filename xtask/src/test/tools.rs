//! The programs that some tests start: receivers and workers of the guide are run in their own
//! languages, its pages are typed into a shell, and a store is kept on real servers.
//!
//! What is missing is installed where that can be done without asking, as in a container; what
//! cannot be is a failure of the test command, and the tests that want it name themselves as not
//! run. All that is there is handed to the tests in `DULY_TEST_TOOLS`, which keeps them from
//! passing over it.

use std::path::Path;

use crate::process::{self, Outcome};

/// Name of the variable that tells tests which programs they are to use.
pub(super) const TEST_TOOLS: &str = "DULY_TEST_TOOLS";

/// A program, and the package of Debian that has it.
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

/// What the torture of several nodes takes; without them it skips itself, or a fault, by name.
const OF_TORTURE: [Tool; 2] =
    [Tool { name: "ip", package: "iproute2" }, Tool { name: "faketime", package: "faketime" }];

/// What is there, and what is not.
pub(super) struct Tools {
    /// Names of programs, with a space between.
    pub(super) found: String,
    /// How many could not be had.
    pub(super) missing: u64,
}

/// Installs what is missing, as far as that can be done.
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
        // Lists of packages that were never fetched are the usual reason for a failure.
        if !apt(&install) && apt(&["update"]) {
            apt(&install);
        }
    }
    let (found, missing): (Vec<_>, Vec<_>) = TOOLS.iter().partition(|tool| is_there(tool.name));
    for tool in &missing {
        eprintln!(
            "error: {} is not there, so tests that start it are NOT RUN: install it (Debian: `{}`)",
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
    // `ip` knows no other word for it.
    let version = if name == "ip" { "-V" } else { "--version" };
    let output = process::program(name).arg(version).output();
    output.is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_running_it() {
        assert!(is_there("cargo"));
        assert!(!is_there("a-program-that-nobody-has"));
    }
}
