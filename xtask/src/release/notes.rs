//! The release notes: the section of the version in the changelog.

use std::fs;

use anyhow::{Context, Result};

use crate::package::Release;
use crate::process;

/// Returns the notes of a release.
pub(super) fn of(release: &Release) -> Result<String> {
    let changelog = fs::read_to_string(process::root().join("CHANGELOG.md"))?;
    let section = section(&changelog, &release.version)
        .with_context(|| format!("CHANGELOG.md has no section for {}", release.version))?;
    let version = &release.version;
    Ok(format!("# Duly {version}\n\nCommit {}.\n\n{section}\n", release.commit))
}

/// Returns the text below the heading `## [VERSION]`.
fn section<'a>(changelog: &'a str, version: &str) -> Option<&'a str> {
    let heading = format!("\n## [{version}]");
    let (_, after) = changelog.split_once(&heading)?;
    let (_, text) = after.split_once('\n')?;
    Some(text.split("\n## [").next().unwrap_or(text).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_the_section_of_the_version() {
        let changelog = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-30\n\n### Added\n\n- A.\n\n## [0.1.0]\n";
        assert_eq!(section(changelog, "0.2.0"), Some("### Added\n\n- A."));
        assert_eq!(section(changelog, "0.1.0"), Some(""));
        assert_eq!(section(changelog, "0.3.0"), None);
    }
}
