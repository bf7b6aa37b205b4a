//! Random operations, compared with the in-memory reference step by step.

use duly_store::conformance::{
    Harness, MemoryHarness,
    model::{self, Disturbance},
};

use crate::{
    harness::{EmbeddedHarness, Shell},
    seeds::{Repeat, number},
};

fn compare(shell: Shell, disturb: Disturbance, seeds: u64, steps: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let first = number("DULY_MODEL_SEED", 1);
    for seed in first..first + number("DULY_MODEL_SEEDS", seeds) {
        let one = [("DULY_MODEL_SEED", seed), ("DULY_MODEL_SEEDS", 1)];
        let _repeat = Repeat::new("model", &one);
        let reference = MemoryHarness::new(seed);
        let subject = EmbeddedHarness::new(shell);
        let compared = model::compare(&reference, &subject, seed, steps, disturb);
        if let Err(difference) = runtime.block_on(compared) {
            panic!("seed {seed}: {difference}");
        }
        let health = subject.store().health();
        assert_eq!(health.audit_findings, 0, "seed {seed}: the auditor found something");
    }
}

#[test]
fn behaves_like_the_reference() {
    compare(Shell::Inline, Disturbance::Nothing, 60, 300);
}

#[test]
fn behaves_like_the_reference_over_clock_steps() {
    compare(Shell::Inline, Disturbance::ClockSteps, 60, 300);
}

#[test]
fn behaves_like_the_reference_over_restarts() {
    compare(Shell::Inline, Disturbance::Restarts, 60, 300);
}

#[test]
fn behaves_like_the_reference_with_threads() {
    compare(Shell::Threads, Disturbance::Restarts, 5, 200);
}
