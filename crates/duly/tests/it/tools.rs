//! Programs of the machine that some tests need.

use std::path::Path;

use crate::harness::program;

/// Returns `true` if all of these programs are present. Missing ones are printed to stderr, so that the
/// test does not seem to have passed. A missing program is a failure if `DULY_TEST_TOOLS` names it:
/// `cargo xtask test` sets the variable after it has installed what it can.
pub(crate) fn are_there(test: &str, tools: &[&str]) -> bool {
    let wanted = std::env::var("DULY_TEST_TOOLS").unwrap_or_default();
    let missing: Vec<_> = tools.iter().filter(|tool| !is_there(tool)).collect();
    for tool in &missing {
        let is_wanted = wanted.split_whitespace().any(|name| name == **tool);
        assert!(!is_wanted, "{tool} is wanted by DULY_TEST_TOOLS and not there");
        eprintln!("NOT RUN: {test}, {tool} is not there");
    }
    missing.is_empty()
}

fn is_there(tool: &str) -> bool {
    if tool == "tzdata" {
        return Path::new("/usr/share/zoneinfo/Europe/Berlin").exists();
    }
    let found = program(tool).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}
