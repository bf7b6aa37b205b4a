//! The crates that the changes since a commit can affect.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// The crates that affect the steps that start a server: the server, and the crates with the steps.
const OF_STEPS: [&str; 3] = ["duly", "duly-testkit", "xtask"];

/// The crates to test.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Affected {
    All,
    Crates(BTreeSet<String>),
}

impl Affected {
    /// Returns the crates that changed since a commit, in commits or not, and those that use them.
    pub(super) fn since(commit: &str) -> Result<Self> {
        // With renames found, git would name only the new place of a file.
        let changed = process::git(&["diff", "--name-only", "--no-renames", "-z", commit, "--"])?;
        let new = process::git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
        let metadata = ["metadata", "--format-version", "1", "--no-deps"];
        let metadata = process::output(&mut process::cargo(metadata))?;
        let metadata: Value =
            serde_json::from_str(&metadata).context("cargo metadata is no JSON")?;
        Ok(Self::of(changed.split_terminator('\0').chain(new.split_terminator('\0')), &metadata))
    }

    fn of<'a>(files: impl Iterator<Item = &'a str>, metadata: &Value) -> Self {
        let mut crates = BTreeSet::new();
        for file in files {
            let mut parts = file.split('/');
            match (parts.next(), parts.next()) {
                (Some("crates"), Some(name)) => crates.insert(name.to_owned()),
                (Some("xtask"), Some(_)) => crates.insert("xtask".to_owned()),
                // Pages, the lock file, the packages: many tests read them.
                _ => return Self::All,
            };
        }
        loop {
            let users = users(&crates, metadata);
            if users.is_subset(&crates) {
                return Self::Crates(crates);
            }
            crates.extend(users);
        }
    }

    /// Returns `true` if a job is to run. Its name begins with that of the crate, if it runs the tests of one.
    pub(super) fn includes(&self, job: &str) -> bool {
        let Self::Crates(crates) = self else { return true };
        let first = job.split(' ').next().unwrap_or_default();
        match first {
            // Its tests read files of other crates.
            "xtask" | "doc" => !crates.is_empty(),
            _ if first.starts_with("duly") => crates.contains(first),
            _ => OF_STEPS.iter().any(|name| crates.contains(*name)),
        }
    }
}

/// Returns the crates of the workspace that depend on one of these, also for their tests.
fn users(crates: &BTreeSet<String>, metadata: &Value) -> BTreeSet<String> {
    let uses = |package: &Value| {
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        dependencies.filter_map(|it| it["name"].as_str()).any(|name| crates.contains(name))
    };
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .filter(|package| uses(package))
        .filter_map(|package| Some(package["name"].as_str()?.to_owned()))
        .collect()
}

impl fmt::Display for Affected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "everything"),
            Self::Crates(crates) if crates.is_empty() => write!(f, "nothing has changed"),
            Self::Crates(crates) => {
                write!(f, "{}", crates.iter().cloned().collect::<Vec<_>>().join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn affected(files: &[&str]) -> Affected {
        let package = |name: &str, uses: &[&str]| {
            let dependencies: Vec<_> = uses.iter().map(|name| json!({"name": name})).collect();
            json!({"name": name, "dependencies": dependencies})
        };
        let packages = [
            package("duly-core", &[]),
            package("duly-sink", &["duly-core", "http"]),
            package("duly", &["duly-sink"]),
            package("duly-wheel", &[]),
            package("xtask", &["clap"]),
        ];
        Affected::of(files.iter().copied(), &json!({ "packages": packages }))
    }

    #[test]
    fn a_change_reaches_the_crates_that_use_the_changed_one() {
        for (files, expected) in [
            (&["crates/duly-core/src/lib.rs"][..], "duly, duly-core, duly-sink"),
            (&["crates/duly-wheel/src/lib.rs", "xtask/src/main.rs"], "duly-wheel, xtask"),
            (&["crates/duly-wheel/src/lib.rs", "README.md"], "everything"),
            (&["Cargo.lock"], "everything"),
            (&[], "nothing has changed"),
        ] {
            assert_eq!(affected(files).to_string(), expected, "{files:?}");
        }
    }

    #[test]
    fn steps_that_start_a_server_run_if_it_has_changed() {
        let sink = affected(&["crates/duly-sink/src/lib.rs"]);
        let wheel = affected(&["crates/duly-wheel/src/lib.rs"]);
        for (job, with_sink, with_wheel) in [
            ("duly-sink", true, false),
            ("duly it", true, false),
            ("duly-wheel", false, true),
            ("duly-core", false, false),
            ("fuzz-http", true, false),
            ("torture --minutes 1", true, false),
            ("xtask", true, true),
            ("doc tests", true, true),
        ] {
            assert_eq!((sink.includes(job), wheel.includes(job)), (with_sink, with_wheel), "{job}");
        }
    }
}
