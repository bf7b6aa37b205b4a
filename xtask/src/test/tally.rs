//! Adds up the verdicts of test binaries, read from the lines they print.
//!
//! The test harness ends each binary with
//! `test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s`.

use std::fmt;
use std::ops::AddAssign;

use crate::process::Outcome;

/// The numbers of passed and failed tests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Tests that passed.
    pub(super) passed: u64,
    /// Tests that failed, and steps that ended without a verdict.
    pub(super) failed: u64,
}

impl Tally {
    /// Adds the verdict of a line, if it has one.
    pub(super) fn read(&mut self, line: &str) {
        let Some(verdict) = line.strip_prefix("test result: ") else {
            return;
        };
        for part in verdict.split(';') {
            let mut words = part.split_whitespace().rev();
            let (what, number) =
                (words.next(), words.next().and_then(|word| word.parse::<u64>().ok()));
            match (what, number) {
                (Some("passed"), Some(number)) => self.passed += number,
                (Some("failed"), Some(number)) => self.failed += number,
                _ => {}
            }
        }
    }

    /// Returns `Failed` if a test failed or no test ran at all.
    pub(super) fn outcome(self) -> Outcome {
        if self.failed == 0 && self.passed > 0 { Outcome::Passed } else { Outcome::Failed }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn sums_over_all_binaries() {
        let output = "\
running 3 tests
test a ... ok
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: FAILED. 10 passed; 2 failed; 1 ignored; 0 measured; 7 filtered out; finished in 1.5s
   Doc-tests duly_core
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.30s
";
        let sum = tally(output);
        assert_eq!(sum, Tally { passed: 17, failed: 2 });
        assert_eq!(sum.to_string(), "17 passed, 2 failed");
        assert_eq!(sum.outcome(), Outcome::Failed);
    }

    #[test]
    fn other_lines_do_not_count() {
        let sum =
            tally("the test result: ok. 3 passed; 0 failed\ntest result: \n5 passed; 1 failed");
        assert_eq!(sum, Tally::default());
    }

    #[test]
    fn a_run_without_tests_is_no_success() {
        assert_eq!(Tally::default().outcome(), Outcome::Failed);
        assert_eq!(Tally { passed: 1, failed: 0 }.outcome(), Outcome::Passed);
    }

    #[test]
    fn tallies_add_up() {
        let mut sum = Tally { passed: 1, failed: 0 };
        sum += Tally { passed: 2, failed: 3 };
        assert_eq!(sum, Tally { passed: 3, failed: 3 });
    }
}
