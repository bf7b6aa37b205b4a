//! Builds the tests, and with them the binaries that other steps start.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::TORTURE;
use super::jobs::{Job, Verdict};
use crate::process::{self, Profile};
use crate::timings;

/// The test binaries that take longest, in this order.
pub(super) const LONG: [&str; 6] = [
    "duly it",
    "duly-store-redis it",
    "duly-store-redis it on Valkey",
    "duly-store-embedded it",
    "duly-server it",
    "duly-node",
];

/// The result of the build.
pub(super) struct Built {
    /// The server that all steps use.
    pub(super) duly: PathBuf,
    /// The binary of the torture runs.
    pub(super) torture: PathBuf,
    tests: Vec<TestBinary>,
}

/// A test binary.
#[derive(Debug, PartialEq, Eq)]
struct TestBinary {
    /// The crate, and for integration tests their target.
    name: String,
    path: PathBuf,
    /// The folder of the crate, where cargo would run it.
    folder: PathBuf,
}

/// Builds everything in the form of `cargo test --workspace`.
pub(super) fn all() -> Result<Built> {
    let build = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let messages = process::output(process::cargo(build).stderr(Stdio::inherit()))?;
    let tests: Vec<_> = messages.lines().filter_map(TestBinary::of).collect();
    ensure!(!tests.is_empty(), "cargo built no test");
    for name in LONG.iter().filter(|name| !name.ends_with(" on Valkey")) {
        ensure!(tests.iter().any(|test| test.name == **name), "there is no test binary {name}");
    }
    let built = process::build_binaries(Profile::Dev, &["duly", TORTURE])?;
    let mut built = built.into_iter();
    let (duly, torture) = (built.next(), built.next());
    Ok(Built { duly: duly.context("no duly")?, torture: torture.context("no torture")?, tests })
}

impl Built {
    /// Returns a job for each test binary.
    pub(super) fn tests(&self) -> Vec<Job> {
        let job = |test: &TestBinary| {
            let mut command = process::program(&test.path);
            command.current_dir(&test.folder);
            if std::env::var_os(timings::VARIABLE).is_some() {
                command.args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
            }
            Job { name: test.name.clone(), command, verdict: Verdict::Harness }
        };
        self.tests.iter().map(job).collect()
    }
}

impl TestBinary {
    /// Reads one of cargo's messages.
    fn of(line: &str) -> Option<Self> {
        let message: Value = serde_json::from_str(line).ok()?;
        let path = message["executable"].as_str()?;
        if message["profile"]["test"] != true {
            return None;
        }
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        let package = folder.file_name()?.to_string_lossy();
        let target = &message["target"];
        let is_integration = target["kind"][0] == "test";
        let name = match target["name"].as_str() {
            Some(target) if is_integration => format!("{package} {target}"),
            _ => package.into_owned(),
        };
        Some(Self { name, path: path.into(), folder: folder.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_among_cargos_messages() {
        let message = |kind: &str, name: &str, test: bool, path: &str| {
            format!(
                r#"{{"manifest_path":"/d/crates/duly-x/Cargo.toml",
                     "target":{{"kind":["{kind}"],"name":"{name}"}},
                     "profile":{{"test":{test}}},"executable":{path}}}"#
            )
            .replace('\n', "")
        };
        let found = |line: &str| TestBinary::of(line).map(|test| (test.name, test.path));
        let unit = message("lib", "duly_x", true, r#""/t/x""#);
        assert_eq!(found(&unit), Some(("duly-x".to_owned(), "/t/x".into())));
        let integration = message("test", "it", true, r#""/t/it""#);
        assert_eq!(found(&integration), Some(("duly-x it".to_owned(), "/t/it".into())));
        for other in [
            message("lib", "duly_x", false, "null"),
            message("example", "measure", false, r#""/t/measure""#),
            "not json".to_owned(),
        ] {
            assert_eq!(found(&other), None);
        }
    }
}
