//! Checks that every module begins with a statement of its purpose.

use super::Complaint;
use super::tree::File;

/// Complains if a file does not begin with module documentation. Tests, examples, benchmarks and
/// generated files need none. Attributes of the whole file may precede it.
pub(super) fn check(source: &File) -> Option<Complaint> {
    if !source.path.contains("/src/") || source.is_test() || source.is_generated() {
        return None;
    }
    let first = first_line(&source.text);
    let documented = first
        .is_some_and(|line| line.strip_prefix("//!").is_some_and(|doc| !doc.trim().is_empty()));
    (!documented).then(|| {
        Complaint::about(
            &source.path,
            "must open with a `//!` doc: its job, its invariants, its callers",
        )
    })
}

/// Returns the first line that is neither empty nor part of a `#![…]` attribute.
fn first_line(text: &str) -> Option<&str> {
    let mut in_attribute = false;
    for line in text.lines().map(str::trim) {
        if in_attribute || line.starts_with("#![") {
            in_attribute = !line.ends_with(']');
        } else if !line.is_empty() {
            return Some(line);
        }
    }
    None
}
