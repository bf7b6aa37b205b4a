//! `cargo xtask contract`: replaces the snapshot of the public interface in `contract/`.
//!
//! Tests of `duly-api` and `duly-server` fail if a client that was written for the snapshot would break.
//! From 0.2.0 on the snapshot is that of the last release. A commit that replaces it must tell users
//! why: `cargo xtask tidy` requires a changelog entry in the same commit.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process::{self, Outcome};

/// The folder of the snapshot. The constants below name its sources.
const SNAPSHOT: &str = "contract";
const PROTO: &str = "crates/duly-api/proto/duly/v1";
const OPENAPI: &str = "docs/reference/openapi.json";
const CHANGELOG: &str = "CHANGELOG.md";

/// Replaces the snapshot with the current interface.
pub(crate) fn run() -> Result<Outcome> {
    let root = process::root();
    let proto = root.join(SNAPSHOT).join("proto/duly/v1");
    if proto.exists() {
        fs::remove_dir_all(&proto)?;
    }
    fs::create_dir_all(&proto)?;
    for file in fs::read_dir(root.join(PROTO))? {
        let file = file?;
        copy(&file.path(), &proto.join(file.file_name()))?;
    }
    copy(&root.join(OPENAPI), &root.join(SNAPSHOT).join("openapi.json"))?;
    println!(
        "{SNAPSHOT}/ has the interface as it is: describe in {CHANGELOG} what users must change"
    );
    Ok(Outcome::Passed)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Returns an error text if the snapshot was replaced without a changelog entry: in the uncommitted
/// changes, or else in the last commit that replaced it.
pub(crate) fn missing_changelog_entry() -> Result<Option<String>> {
    let changed = changed_paths(&["diff", "--name-only", "HEAD"])?;
    let commit = process::git(&["log", "-1", "--format=%h", "--", SNAPSHOT])?;
    let committed = match commit.trim() {
        "" => Vec::new(),
        commit => changed_paths(&["show", "--name-only", "--format=", commit])?,
    };
    let is_open = changed.iter().any(|path| is_snapshot(path));
    let (names, place) = if is_open {
        (changed, "the changes that are not committed".to_owned())
    } else {
        (committed, format!("commit {}", commit.trim()))
    };
    Ok(lacks_changelog_entry(&names).then(|| {
        format!("{place} replaces the snapshot of the interface and has no entry in {CHANGELOG}")
    }))
}

fn is_snapshot(path: &str) -> bool {
    path.starts_with("contract/")
}

fn lacks_changelog_entry(names: &[String]) -> bool {
    names.iter().any(|path| is_snapshot(path)) && !names.iter().any(|path| path == CHANGELOG)
}

fn changed_paths(arguments: &[&str]) -> Result<Vec<String>> {
    Ok(process::git(arguments)?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::lacks_changelog_entry;

    #[test]
    fn a_snapshot_comes_with_a_changelog_entry() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert!(lacks_changelog_entry(&names(&["contract/openapi.json", "README.md"])));
        assert!(!lacks_changelog_entry(&names(&["contract/openapi.json", "CHANGELOG.md"])));
        assert!(!lacks_changelog_entry(&names(&["README.md"])));
    }
}
