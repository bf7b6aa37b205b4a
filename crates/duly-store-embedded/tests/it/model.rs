//! Random operations, compared with the in-memory reference step by step.

use duly_store::conformance::{
    Harness, MemoryHarness,
    model::{self, Disturb},
};

use crate::harness::{EmbeddedHarness, Shell};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn compare(shell: Shell, disturb: Disturb, seeds: u64, steps: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let first = number("DULY_MODEL_SEED", 1);
    for seed in first..first + number("DULY_MODEL_SEEDS", seeds) {
        let reference = MemoryHarness::new(seed);
        let subject = EmbeddedHarness::new(shell);
        let compared = model::compare(&reference, &subject, seed, steps, disturb);
        if let Err(difference) = runtime.block_on(compared) {
            panic!(
                "{difference}\nrepeat with: DULY_MODEL_SEED={seed} DULY_MODEL_SEEDS=1 cargo test \
                 -p duly-store-embedded --test it model"
            );
        }
        let health = subject.store().health();
        assert_eq!(health.audit_findings, 0, "seed {seed}: the auditor found something");
    }
}

#[test]
fn behaves_like_the_reference() {
    compare(Shell::Inline, Disturb::Nothing, 60, 300);
}

#[test]
fn behaves_like_the_reference_over_clock_steps() {
    compare(Shell::Inline, Disturb::ClockSteps, 60, 300);
}

#[test]
fn behaves_like_the_reference_over_restarts() {
    compare(Shell::Inline, Disturb::Restarts, 60, 300);
}

#[test]
fn behaves_like_the_reference_with_threads() {
    compare(Shell::Threads, Disturb::Restarts, 5, 200);
}
