//! Checks that no file or folder has a meaningless name: such a place collects unrelated code. The root has only
//! files of a list: what a hand-made attempt left there is not committed.

use anyhow::Result;

use super::Complaint;
use super::tree::File;
use crate::process;

const NAMELESS: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "types", "shared", "stuff"];

/// Complains of a file with a meaningless name, or in a folder with one.
pub(super) fn check(source: &File) -> Option<Complaint> {
    let parts = source.path.trim_end_matches(".rs").split('/');
    parts.into_iter().find(|part| NAMELESS.contains(part)).map(|part| {
        let text = format!("`{part}` is too general: name the file after its idea");
        Complaint::about(&source.path, text)
    })
}

/// The files of the root.
const ROOT: &[&str] = &[
    ".gitattributes",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "clippy.toml",
    "deny.toml",
    "rustfmt.toml",
];

/// Complains of each committed file of the root that is not one of [`ROOT`].
pub(super) fn check_root() -> Result<Vec<Complaint>> {
    Ok(check_committed(&process::git(&["ls-files"])?))
}

fn check_committed(paths: &str) -> Vec<Complaint> {
    let others = paths.lines().filter(|path| !path.contains('/') && !ROOT.contains(path));
    let text = "nothing of the project needs it: `git rm` the file, or add it to the list in xtask/src/tidy/names.rs";
    others.map(|path| Complaint::about(path, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_root_are_named() {
        let found = check_committed("README.md\nsrv.log\nh2-4.4.1-py3-none-any.whl\ndocs/x.log\n");
        let paths: Vec<_> = found.iter().map(|complaint| &*complaint.path).collect();
        assert_eq!(paths, ["srv.log", "h2-4.4.1-py3-none-any.whl"]);
    }
}
