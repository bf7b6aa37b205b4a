//! Checks that no file or folder has a meaningless name: such a place collects unrelated code.

use super::Complaint;
use super::tree::File;

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
