//! Numbers that the environment may set, for longer runs and to repeat a failure, and how to.

use std::{fmt::Write, thread};

/// The number in a variable of the environment, or a default.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Tells how to repeat a course that ends with a panic, wherever in it: hold one for as long as the
/// course lasts, with every number that decides it.
#[derive(Debug)]
pub(crate) struct Repeat {
    how_often: &'static str,
    module: &'static str,
    variables: String,
}

impl Repeat {
    /// A course of a test in this module of the crate.
    pub(crate) fn new(module: &'static str, variables: &[(&str, u64)]) -> Self {
        let mut text = String::new();
        for (variable, number) in variables {
            write!(text, "{variable}={number} ").expect("a String takes all text");
        }
        Self { how_often: "", module, variables: text }
    }

    /// The scheduling of threads decides it, too.
    pub(crate) fn with_threads(mut self) -> Self {
        self.how_often = " (threads: several times)";
        self
    }

    fn command(&self) -> String {
        // The thread of a test has the name of the test, unless tests run one after the other.
        let thread = thread::current();
        let test = thread.name().filter(|name| name.starts_with(self.module));
        let filter = test.unwrap_or(self.module);
        format!("{}cargo test -p duly-store-embedded --test it {filter}", self.variables)
    }
}

impl Drop for Repeat {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("repeat with{}: {}", self.how_often, self.command());
        }
    }
}

#[test]
fn a_command_names_the_numbers_and_the_test() {
    let repeat = Repeat::new("seeds", &[("DULY_CRASH_SEED", 7), ("DULY_CRASH_OP", 3)]);
    let command = repeat.command();
    let plain =
        "DULY_CRASH_SEED=7 DULY_CRASH_OP=3 cargo test -p duly-store-embedded --test it seeds";
    let rest = command.strip_prefix(plain).unwrap_or_else(|| panic!("{command}"));
    assert!(["", "::a_command_names_the_numbers_and_the_test"].contains(&rest), "{command}");
}
