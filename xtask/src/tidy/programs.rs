//! Checks that the tests of the `duly` binary start programs without the environment of the test command.
//!
//! A variable of a developer or of the test command would change what a `duly` prints or does, in some runs and not in others.

use super::Complaint;
use super::tree::File;

/// The folder of the tests, and its file that starts programs.
const TESTS: &str = "crates/duly/tests/it/";
const HARNESS: &str = "crates/duly/tests/it/harness.rs";
/// The constructor that keeps the environment.
const KEEPS: &str = concat!("Command::", "new(");

/// Complains of each line that starts a program by itself.
pub(super) fn check(source: &File) -> Vec<Complaint> {
    if !source.path.starts_with(TESTS) || source.path == HARNESS {
        return Vec::new();
    }
    let lines = source.text.lines().zip(1..).filter(|(line, _)| line.contains(KEEPS));
    let text = "the program would get the variables of the test command: use harness::program";
    lines.map(|(_, number)| Complaint::at(&source.path, number, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_come_from_the_harness() {
        let found = |path: &str| {
            let text = format!("fn f() {{\n    {KEEPS}\"sh\");\n}}\n");
            check(&File { path: path.to_owned(), text }).len()
        };
        assert_eq!(found("crates/duly/tests/it/pages/shell.rs"), 1);
        assert_eq!(found(HARNESS), 0);
        assert_eq!(found("crates/duly/src/main.rs"), 0);
    }
}
