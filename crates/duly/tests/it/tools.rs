//! Programs of the machine that some tests need.

use std::{path::Path, process::Command};

/// Whether all of these are there. What is missing is named on standard error, so that nobody takes
/// the test for passed; it is a failure where `DULY_TEST_TOOLS` names it, as `cargo xtask test` does
/// when it has installed what it can.
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
    let found = Command::new(tool).arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}
