//! The terminal error: a store that cannot know what its journal holds ends and says why. It can be
//! opened again, in the same process too, with everything that was acknowledged.

use duly_core::State;
use duly_store::{Error, Outcome, Store};
use duly_store_embedded::disk::{Operation, SimDisk};

use crate::{
    faulty::{FaultKind, FaultyDisk, Rule},
    harness::Shell,
    stage::Stage,
    steps::{Answer, Step, apply, cancel, get, schedule},
    workload::settings,
};

const SHELLS: [Shell; 2] = [Shell::Inline, Shell::Threads];

/// Makes a store with the timers `a`, and `b` which was cancelled; both are durable.
fn stage(shell: Shell, seed: u64) -> Stage {
    let mut stage = Stage::new(shell, FaultyDisk::new(SimDisk::new(seed)));
    stage.take(&Step::Put("shop", Box::new(settings())));
    stage.take(&Step::Apply("shop", vec![schedule("a", 90_000, 100), schedule("b", 90_000, 9)]));
    stage.take(&Step::Apply("shop", vec![cancel("b")]));
    stage
}

fn fails(operation: Operation, fault_kind: FaultKind) -> Rule {
    Rule { operation, name: ".log", fault_kind, after: 0, times: 1 }
}

fn check_acknowledged(store: &dyn Store, what: &str) {
    let state = |id| get(store, "shop", id).map(|view| view.state);
    assert_eq!(state("a"), Some(State::Scheduled), "{what}");
    assert_eq!(state("b"), Some(State::Cancelled), "{what}");
}

/// After a failed sync the operating system shows the unwritten bytes to every reader, and no later sync
/// writes them. So recovery writes the tail again before it trusts it. What it finds there and reports
/// survives a power loss.
#[test]
fn p1_reopening_rewrites_the_tail_of_a_failed_sync() {
    let mut found = 0;
    for (shell, seed) in SHELLS.iter().flat_map(|shell| (0..12).map(|seed| (*shell, seed))) {
        let what = format!("{shell:?} seed {seed}");
        let mut stage = stage(shell, seed);
        stage.disk.fail(fails(Operation::Sync, FaultKind::Broken));
        let once = || Step::Apply("shop", vec![schedule("x", 90_000, 5_000)]);
        let error = stage.attempt(&once()).expect_err("its sync failed");
        assert!(matches!(error, Error::InDoubt { .. }), "{what}: {error:?}");
        assert!(stage.ended().contains("journal"), "{what}");
        stage.reopen();
        check_acknowledged(stage.store(), &what);
        // The same call again: its result follows from what recovery found.
        let Answer::Outcomes(outcomes) = stage.take(&once()) else { panic!("{what}") };
        found += usize::from(!matches!(outcomes[0], Outcome::Created(_)));
        stage.restart_crashed();
        check_acknowledged(stage.store(), &what);
        let x = get(stage.store(), "shop", "x").map(|view| view.state);
        assert_eq!(x, Some(State::Scheduled), "{what}: it was acknowledged after the reopening");
    }
    assert!(found > 0, "recovery finds what the failed sync left in memory");
}

/// Opens the store again after an error, or a panic, in one of its threads.
fn ends_and_reopens(shell: Shell, rule: Rule, says: &str) {
    let what = format!("{shell:?} {rule:?}");
    let mut stage = stage(shell, 1);
    assert_eq!(stage.store().terminal_error(), None, "{what}");
    stage.disk.fail(rule);
    let answer = apply(stage.store(), "shop", vec![schedule("x", 90_000, 100)]);
    assert!(matches!(answer, Err(Error::InDoubt { .. })), "{what}: {answer:?}");
    let reason = stage.ended();
    let health = stage.store().health();
    assert!(reason.contains(says), "{what}: {reason}");
    assert_eq!(stage.store().terminal_error(), Some(reason.clone()), "{what}");
    let later = stage.attempt(&Step::Apply("shop", vec![cancel("a")])).expect_err("it has ended");
    assert!(later.to_string().contains(says), "{what}: {later}");
    let not_ready = health.not_ready;
    assert!(not_ready.iter().any(|why| why.contains(says)), "{what}: {not_ready:?}");
    stage.reopen();
    assert_eq!(stage.store().terminal_error(), None, "{what}");
    check_acknowledged(stage.store(), &what);
    stage.take(&Step::Apply("shop", vec![schedule("y", 90_000, 100)]));
    stage.restart_crashed();
    check_acknowledged(stage.store(), &what);
    assert!(get(stage.store(), "shop", "y").is_some(), "{what}");
}

#[test]
fn p1_a_store_that_ended_says_why_and_is_opened_again() {
    for shell in SHELLS {
        for operation in [Operation::Write, Operation::Sync] {
            ends_and_reopens(shell, fails(operation, FaultKind::Broken), "os error 5");
            ends_and_reopens(shell, fails(operation, FaultKind::Interrupted), "os error 4");
        }
    }
}

#[test]
fn p1_a_panic_of_the_engine_or_sync_thread_ends_the_store() {
    ends_and_reopens(Shell::Threads, fails(Operation::Write, FaultKind::Panics), "internal error");
    ends_and_reopens(Shell::Threads, fails(Operation::Sync, FaultKind::Panics), "panicked");
}
