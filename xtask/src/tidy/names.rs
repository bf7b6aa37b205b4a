//! No file or folder whose name says nothing: such a place attracts whatever has no home.

use super::Complaint;
use super::tree::File;

const NAMELESS: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "types", "shared", "stuff"];

/// Complains of a nameless file, or of a file in a nameless folder.
pub(super) fn check(source: &File) -> Option<Complaint> {
    let parts = source.path.trim_end_matches(".rs").split('/');
    parts.into_iter().find(|part| NAMELESS.contains(part)).map(|part| {
        let text = format!("`{part}` says nothing: name the file after the idea it holds");
        Complaint::about(&source.path, text)
    })
}
