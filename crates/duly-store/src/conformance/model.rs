//! Compares a store with the reference store under the same random operations.
//!
//! 1. [`generate`] creates operations from a seed.
//! 2. [`apply_to`] runs one of them on a harness and returns the result in a *normal form*.
//! 3. [`compare`] does that for both stores step by step, and stops at the first difference.
//!
//! The normal form leaves out all that may differ between two correct stores: tokens, incarnations, the text
//! of reasons, and the time at which the end of a lease was noticed. It replaces each delivery id by a
//! number in the order in which the ids were first seen. Equal numbers mean that the ids are as stable in
//! one store as in the other (P7).
//!
//! Every step moves the clock by a few milliseconds, and the due times of different commands differ by
//! milliseconds. So first attempts have one order, and a claim may end anywhere in it.

use duly_core::Millis;

use super::{Harness, MemoryHarness, Restart, scene::SHARD};
use crate::MemberId;

mod generate;
mod known;
mod normal;
mod op;
mod run;
mod snapshot;

pub use generate::generate;
pub use known::Known;
pub use op::{ClaimOp, ImportedHistory, Op, OpCommand, Timing};
pub use run::apply_to;

/// Disturbances of the stores besides the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// No disturbance.
    Nothing,
    /// Steps of the wall clock, in both directions.
    ClockSteps,
    /// Orderly restarts and kills of the subject.
    Restarts,
}

/// Number of steps between comparisons of everything; other steps compare only their results.
const SNAPSHOT_EVERY: usize = 8;

/// Runs `steps` operations from `seed` on `reference` and `subject`. Both must be fresh. Each has its own
/// clock, and the clocks start at the same time. If the subject restarts, the reference ends the leases of
/// nodes, as opening a store does.
///
/// # Errors
/// At the first difference: the step, the operation, and the results of both.
pub async fn compare(
    reference: &dyn Harness,
    subject: &dyn Harness,
    seed: u64,
    steps: usize,
    disturb: Disturbance,
) -> Result<(), String> {
    let (mut known_reference, mut known_subject) = (Known::default(), Known::default());
    for (step, op) in generate(seed, steps, disturb).into_iter().enumerate() {
        let describe = |what: &str, expected: &str, actual: &str| {
            format!(
                "seed {seed}, step {step}, {what}\n  {op:?}\n  reference: {expected}\n  subject:   {actual}"
            )
        };
        let expected = match &op {
            Op::Restart(_) => reopen(reference).await,
            op => apply_to(reference, op, &mut known_reference).await,
        };
        let actual = apply_to(subject, &op, &mut known_subject).await;
        if expected != actual {
            let (expected, actual) = first_difference(&expected, &actual);
            return Err(describe("the results differ", expected, actual));
        }
        if reference.now() != subject.now() {
            let (expected, actual) = (reference.now().to_string(), subject.now().to_string());
            return Err(describe("the clocks differ", &expected, &actual));
        }
        if step % SNAPSHOT_EVERY == 0 || step + 1 == steps || matches!(op, Op::Restart(_)) {
            let expected = snapshot::snapshot(reference, &mut known_reference, disturb).await;
            let actual = snapshot::snapshot(subject, &mut known_subject, disturb).await;
            if expected != actual {
                let (expected, actual) = first_difference(&expected, &actual);
                return Err(describe("the contents differ", expected, actual));
            }
        }
    }
    Ok(())
}

/// Runs [`compare`] with a fresh reference store, on a clock that starts at the time of
/// [`super::ManualClock`].
///
/// # Errors
/// At the first difference, as [`compare`].
pub async fn compare_with_memory(
    subject: &dyn Harness,
    seed: u64,
    steps: usize,
    disturb: Disturbance,
) -> Result<(), String> {
    compare(&MemoryHarness::new(seed), subject, seed, steps, disturb).await
}

/// Applies the effect of opening a store to a reference store that stays open.
async fn reopen(reference: &dyn Harness) -> Vec<String> {
    reference.advance(op::STEP).await;
    for node in 0..op::NODES {
        let released = reference.store().release_owner(SHARD, MemberId(node)).await;
        if let Err(error) = released {
            return vec![format!("{error}")];
        }
    }
    vec!["restarted".to_owned()]
}

fn first_difference<'a>(expected: &'a [String], actual: &'a [String]) -> (&'a str, &'a str) {
    let longest = expected.len().max(actual.len());
    let line = |lines: &'a [String], i: usize| lines.get(i).map_or("(nothing)", String::as_str);
    (0..longest)
        .map(|i| (line(expected, i), line(actual, i)))
        .find(|(expected, actual)| expected != actual)
        .unwrap_or(("", ""))
}

/// Moves a harness's clocks by one step.
async fn tick(harness: &dyn Harness) {
    harness.advance(op::STEP).await;
}

/// Restarts the store.
async fn restart(harness: &dyn Harness, how: Restart) -> Vec<String> {
    match harness.restart(how).await {
        Some(()) => vec!["restarted".to_owned()],
        None => vec!["this store cannot restart".to_owned()],
    }
}

/// Moves a harness's clocks forward.
async fn advance(harness: &dyn Harness, by: Millis) -> Vec<String> {
    harness.advance(by).await;
    Vec::new()
}

#[cfg(test)]
mod tests;
