//! A store and the reference under the same random operations.
//!
//! [`generate`] makes operations from a seed, [`apply_to`] carries one out on a harness and answers
//! what was seen in a *normal form*, and [`compare`] does both stores step by step and stops at the
//! first difference. The normal form leaves out what two right stores may do differently (tokens,
//! incarnations, the text of reasons, the moment at which a lease end was noticed) and replaces
//! each delivery id by a number in order of first sight, so equal numbers mean that the ids are as
//! stable in one store as in the other (P7).
//!
//! Every step moves the clock by a few milliseconds, and due times of different commands differ in
//! them; so first attempts have one order, and a claim may cut it anywhere.

use duly_core::Millis;

use super::{Harness, MemoryHarness, Restart, scene::SHARD};
use crate::MemberId;

mod generate;
mod known;
mod look;
mod normal;
mod op;
mod run;

pub use generate::generate;
pub use known::Known;
pub use op::{Claiming, Comes, Op, Request, Timing};
pub use run::apply_to;

/// What shakes the stores besides the operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturb {
    /// Nothing.
    Nothing,
    /// The wall clock steps, in both directions.
    ClockSteps,
    /// The subject is closed or killed and opened again.
    Restarts,
}

/// How often everything is compared, and not only the outcome of the step.
const LOOK_EVERY: usize = 8;

/// Drives `reference` and `subject` through `steps` operations from `seed`. Both are fresh, each
/// has a clock of its own, and the clocks start at the same moment. When the subject restarts, the
/// reference ends the leases of nodes, as opening a store does.
///
/// # Errors
/// At the first difference: the step, the operation, and what each of the two answered.
pub async fn compare(
    reference: &dyn Harness,
    subject: &dyn Harness,
    seed: u64,
    steps: usize,
    disturb: Disturb,
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
            return Err(describe("the answers differ", expected, actual));
        }
        if reference.now() != subject.now() {
            let (expected, actual) = (reference.now().to_string(), subject.now().to_string());
            return Err(describe("the clocks have parted", &expected, &actual));
        }
        if step % LOOK_EVERY == 0 || step + 1 == steps || matches!(op, Op::Restart(_)) {
            let expected = look::look(reference, &mut known_reference, disturb).await;
            let actual = look::look(subject, &mut known_subject, disturb).await;
            if expected != actual {
                let (expected, actual) = first_difference(&expected, &actual);
                return Err(describe("the contents differ", expected, actual));
            }
        }
    }
    Ok(())
}

/// [`compare`] with a fresh reference on a clock that starts where [`super::ManualClock`] does.
///
/// # Errors
/// At the first difference, as [`compare`].
pub async fn compare_with_memory(
    subject: &dyn Harness,
    seed: u64,
    steps: usize,
    disturb: Disturb,
) -> Result<(), String> {
    compare(&MemoryHarness::new(seed), subject, seed, steps, disturb).await
}

/// What the opening of a store does, on one that stays open.
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

/// Carries out a restart.
async fn restart(harness: &dyn Harness, how: Restart) -> Vec<String> {
    match harness.restart(how).await {
        Some(()) => vec!["restarted".to_owned()],
        None => vec!["this store cannot restart".to_owned()],
    }
}

/// Moves a harness's clocks on.
async fn advance(harness: &dyn Harness, by: Millis) -> Vec<String> {
    harness.advance(by).await;
    Vec::new()
}

#[cfg(test)]
mod tests;
