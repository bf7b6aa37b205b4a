//! The length of random and exhaustive tests: all rounds in the nightly run, and a part of them in CI.
//!
//! A test that gets its numbers here runs in both. What it leaves out in CI is a repetition: other seeds, and the
//! places between those that it tries.

/// The variable that the nightly run sets (`cargo xtask nightly`).
const NIGHTLY: &str = "DULY_NIGHTLY";

/// CI runs one of this many rounds.
const PART: u64 = 3;

/// Returns `true` in the nightly run.
pub fn is_nightly() -> bool {
    std::env::var_os(NIGHTLY).is_some()
}

/// Returns the number of random rounds of a test: `all` in the nightly run, and otherwise a third of them.
pub fn rounds(all: u64) -> u64 {
    if is_nightly() { all } else { all.div_ceil(PART) }
}

/// Returns the distance between two places that a test tries: `least` in the nightly run, and otherwise three times as
/// much.
pub fn stride(least: u64) -> u64 {
    if is_nightly() { least } else { least * PART }
}
