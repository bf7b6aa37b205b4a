//! Checks that no file is too long to be read to its end.

use super::Complaint;
use super::tree::File;

/// Most lines of a source file.
const LINES_MAX: usize = 500;

/// Most lines of a test file.
const TEST_LINES_MAX: usize = 800;

/// Files that may be longer, each with its reason.
pub(super) const LONG_FILES: &[(&str, &str)] = &[];

/// Complains of files that are too long, and of exceptions that are no longer needed.
pub(super) fn check(sources: &[File], exceptions: &[(&str, &str)]) -> Vec<Complaint> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| !source.is_generated()) {
        let lines = source.text.lines().count();
        let max = if source.is_test() { TEST_LINES_MAX } else { LINES_MAX };
        let excepted = exceptions.iter().any(|(path, _)| *path == source.path);
        if lines > max && !excepted {
            let text = format!("{lines} lines, more than {max}: what second idea moved in?");
            found.push(Complaint::about(&source.path, text));
        } else if lines <= max && excepted {
            found.push(Complaint::about(&source.path, "short enough now: leave LONG_FILES"));
        }
    }
    for (path, _) in exceptions {
        if !sources.iter().any(|source| source.path == *path) {
            found.push(Complaint::about(path, "is in LONG_FILES but does not exist"));
        }
    }
    found
}
