//! Numbers from the environment, for longer runs and to repeat a failure.

use std::{fmt::Write, thread};

use duly_store::conformance::{rounds, stride};

/// Returns the number in a variable of the environment, or a default. For a number of rounds and for a stride, the
/// default is that of the nightly run.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| match variable {
        "DULY_CRASH_SEEDS" | "DULY_MODEL_SEEDS" | "DULY_RACES" => rounds(default),
        "DULY_CRASH_STRIDE" => stride(default),
        _ => default,
    })
}

/// Prints how to repeat a test that panics. A test holds one while it runs, with every number that
/// decides its course.
#[derive(Debug)]
pub(crate) struct Repeat {
    how_often: &'static str,
    module: &'static str,
    variables: String,
}

impl Repeat {
    /// Makes one for a test in this module of the crate.
    pub(crate) fn new(module: &'static str, variables: &[(&str, u64)]) -> Self {
        let mut text = String::new();
        for (variable, number) in variables {
            write!(text, "{variable}={number} ").expect("a String takes all text");
        }
        Self { how_often: "", module, variables: text }
    }

    /// Notes that the scheduling of threads decides the course too.
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
