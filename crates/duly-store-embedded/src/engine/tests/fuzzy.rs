//! Checkpoints, rewrites and removals while the engine continues, and crashes at any moment of them.
//!
//! `DULY_CRASH_SEED` and `DULY_CRASH_SEEDS` repeat one seed or try many.

use super::loose::{End, Loose};

/// Crashes of one seed.
const ENDS: u64 = 6;
/// Steps before each.
const STEPS: u64 = 260;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Prints how to repeat a seed, on every kind of failure.
struct Repeat(u64);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seed = self.0;
            eprintln!(
                "repeat with: DULY_CRASH_SEED={seed} DULY_CRASH_SEEDS=1 cargo test -p \
                 duly-store-embedded --lib fuzzy"
            );
        }
    }
}

fn run(seed: u64) -> Result<(), String> {
    let mut loose = Loose::new(seed);
    for end in 0..ENDS {
        for _ in 0..STEPS + seed % 37 {
            loose.step();
        }
        let how = if (seed + end).is_multiple_of(2) { End::Kill } else { End::Power };
        loose.end(how).map_err(|wrong| format!("end {end}, {how:?}: {wrong}"))?;
    }
    if loose.audits == 0 {
        return Err("the auditor never came round".to_owned());
    }
    Ok(())
}

#[test]
fn p1_p4_t28_fuzzy_checkpoint_and_journal_restore_the_state() {
    let first = number("DULY_CRASH_SEED", 1);
    for seed in first..first + number("DULY_CRASH_SEEDS", 20) {
        let _repeat = Repeat(seed);
        run(seed).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
}
