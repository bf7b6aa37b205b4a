//! Tests of the driver: equal stores compare as equal, and a different one does not.

use duly_core::{
    Millis, State, TimerId,
    destination::LaneKey,
    schedule::{IfExists, Tags},
};

use super::*;
use crate::{
    conformance::{block_on, rounds},
    query::ListState,
};

const DISTURBANCES: [Disturbance; 3] =
    [Disturbance::Nothing, Disturbance::ClockSteps, Disturbance::Restarts];

#[test]
fn memory_and_memory_agree() {
    for seed in 0..rounds(25) {
        for disturb in DISTURBANCES {
            let subject = MemoryHarness::new(seed + 1_000_000);
            let compared = block_on(compare_with_memory(&subject, seed, 300, disturb));
            assert_eq!(compared, Ok(()), "{disturb:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_steps() {
    for disturb in DISTURBANCES {
        assert_eq!(generate(7, 200, disturb), generate(7, 200, disturb));
        assert_ne!(generate(7, 200, disturb), generate(8, 200, disturb));
    }
}

#[test]
fn a_run_reaches_every_state_and_outcome() {
    let mut seen = String::new();
    let mut states = Vec::new();
    for seed in 0..10 {
        let harness = MemoryHarness::new(seed);
        let mut known = Known::default();
        block_on(async {
            for op in generate(seed, 400, Disturbance::Restarts) {
                seen += &apply_to(&harness, &op, &mut known).await.join("\n");
                seen.push('\n');
                seen += &snapshot::snapshot(&harness, &mut known, Disturbance::Restarts)
                    .await
                    .join("\n");
                seen.push('\n');
            }
        });
        states.extend(State::ALL.map(|state| seen.contains(&format!("listed plain {state} "))));
    }
    assert!(states[states.len() - 7..].iter().all(|reached| *reached), "{states:?}");
    for word in [
        "created",
        "existing",
        "replaced",
        "changed",
        "unchanged",
        "Cancelled",
        "Purged",
        "already: true",
        "PayloadTooLarge",
        "QuotaExceeded",
        "Revision",
        "UnknownTimer",
        "UnknownDeadLetter",
        "when: After",
        "when: At",
        "already_exists",
        "AlreadyExists",
        "already_settled",
        "lease_lost",
        "\nok",
        "\ndead",
        "invalid_token",
        "invalid_argument",
        "LeaseLost",
        "AttemptsSpent",
        "Rejected",
        "Expired",
        "restarted",
        "Overflow",
    ] {
        let known = ["already_exists", "Overflow"].contains(&word) || seen.contains(word);
        assert!(known, "no run of the driver gets as far as {word:?}");
    }
    assert!(ListState::Pending.admits(State::Due));
}

#[test]
fn a_difference_is_found_and_described() {
    let reference = MemoryHarness::new(1);
    let subject = MemoryHarness::new(2);
    let clock = subject.clock().clone();
    clock.step_wall(1);
    let compared = block_on(compare(&reference, &subject, 1, 50, Disturbance::Nothing));
    let message = compared.unwrap_err();
    assert!(message.starts_with("seed 1, step "), "{message}");
    assert!(message.contains("reference:") && message.contains("subject:"), "{message}");
}

/// The first attempt of a redriven dead letter is a retry, and is compared in the order of ids among the
/// retries. This must also hold if the wall clock has stepped so far ahead that the reference returns the
/// due time for it.
#[test]
fn a_redriven_first_attempt_is_compared_among_the_retries() {
    let id = |text: &str| TimerId::new(text).unwrap();
    let plain = |request| Op::Apply { namespace: "plain", requests: vec![request] };
    let schedule = |text: &str| {
        plain(OpCommand::Schedule {
            id: id(text),
            timing: Timing::At(0),
            payload: None,
            tags: Tags::default(),
            destination: None,
            retry: None,
            expire_after: None,
            if_exists: IfExists::Fail,
        })
    };
    let claim = || {
        Op::Claim(ClaimOp {
            lanes: vec![("plain", LaneKey::Pull)],
            first_max: 1,
            retry_max: 10,
            bytes_max: u64::MAX,
            lease: None,
            node: None,
        })
    };
    let failed = crate::SettleVerdict::Retry {
        wait: duly_core::timer::Wait::None,
        outcome: duly_core::timer::AttemptOutcome::Failed,
        reason: String::new(),
    };
    let harness = MemoryHarness::new(1);
    let mut known = Known::default();
    let mut lines = Vec::new();
    for op in [
        Op::Put("plain", Box::default()),
        schedule("b"),
        claim(),
        Op::Settle(vec![(0, failed)]),
        Op::StepWall(60_000),
        schedule("a"),
        plain(OpCommand::DeadLetter(id("a"), Millis::ZERO)),
        plain(OpCommand::Redrive(id("a"), Millis::ZERO)),
        Op::Advance(Millis::from_secs(1)),
        claim(),
    ] {
        lines = block_on(apply_to(&harness, &op, &mut known));
    }
    let ids: Vec<_> = ["\"a\"", "\"b\""].map(|id| lines.iter().position(|l| l.contains(id))).into();
    assert_eq!(ids, [Some(0), Some(1)], "{lines:#?}");
}
