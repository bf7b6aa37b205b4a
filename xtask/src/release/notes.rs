//! The release notes: the section of the version in the changelog.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::package::Release;
use crate::process;

/// Returns the notes of a release. Its section of the changelog must have a date, unless this is a trial.
pub(super) fn of(release: &Release, is_trial: bool) -> Result<String> {
    let changelog = fs::read_to_string(process::root().join("CHANGELOG.md"))?;
    let version = &release.version;
    let (date, section) = section(&changelog, version)
        .with_context(|| format!("CHANGELOG.md has no section for {version}"))?;
    let is_date = date.starts_with(|c: char| c.is_ascii_digit());
    ensure!(
        is_date || is_trial,
        "CHANGELOG.md says {version} is {date:?}: write the date of the release there, or use --trial"
    );
    Ok(format!("# Duly {version}\n\n{date}, commit {}.\n\n{section}\n", release.commit))
}

/// Returns the date and the text of the section `## [VERSION] - DATE`.
fn section<'a>(changelog: &'a str, version: &str) -> Option<(&'a str, &'a str)> {
    let heading = format!("\n## [{version}] - ");
    let (_, after) = changelog.split_once(&heading)?;
    let (date, text) = after.split_once('\n')?;
    Some((date, text.split("\n## [").next().unwrap_or(text).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_the_section_of_the_version() {
        let changelog = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-30\n\n### Added\n\n- A.\n\n## [0.1.0] - 2026-10-01\n";
        assert_eq!(section(changelog, "0.2.0"), Some(("2026-11-30", "### Added\n\n- A.")));
        assert_eq!(section(changelog, "0.1.0"), Some(("2026-10-01", "")));
        assert_eq!(section(changelog, "0.3.0"), None);
    }
}
