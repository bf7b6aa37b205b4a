//! A full disk although the journal has its space already, as on a copy-on-write file system. The store
//! waits for space and continues. It does not end, and nothing is lost.

use std::{thread, time::Duration};

use duly_core::{Millis, State};
use duly_store::{Error, Outcome, Result, Store};
use duly_store_embedded::disk::{Operation, SimDisk};

use crate::{
    faulty::{FaultKind, FaultyDisk, Rule},
    harness::Shell,
    stage::Stage,
    steps::{Step, apply, cancel, get, schedule},
    workload::{LARGE_BYTES, settings},
};

fn stage(shell: Shell, seed: u64) -> Stage {
    let mut stage = Stage::new(shell, FaultyDisk::new(SimDisk::new(seed)));
    stage.take(&Step::Put("shop", Box::new(settings())));
    stage.take(&Step::Apply("shop", vec![schedule("a", 90_000, 100), schedule("b", 90_000, 9)]));
    stage.take(&Step::Apply("shop", vec![cancel("b")]));
    stage
}

fn full(operation: Operation, after: u64, times: u64) -> Rule {
    Rule { operation, name: ".log", fault_kind: FaultKind::Full, after, times }
}

/// Polls until a condition is true.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "{what}");
        thread::yield_now();
    }
}

fn is_stalled(store: &dyn Store) -> bool {
    store.health().not_ready.iter().any(|why| why.contains("waits for disk space"))
}

fn one() -> Vec<duly_store::Operation> {
    vec![schedule("x", 90_000, 5_000)]
}

/// Returns enough operations for a roll.
fn many() -> Vec<duly_store::Operation> {
    (0..15).map(|i| schedule(&format!("m{i}"), 90_000, LARGE_BYTES)).collect()
}

/// Checks that every call is refused until there is space.
fn refuses(store: &dyn Store, what: &str) {
    for operation in [schedule("later", 90_000, 10), cancel("a")] {
        match apply(store, "shop", vec![operation]) {
            Err(Error::Unavailable { reason, .. }) => {
                assert!(reason.contains("waits for disk space"), "{what}: {reason}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    assert_eq!(store.terminal_error(), None, "{what}");
}

/// Makes space, and advances the clock to the next attempt.
fn frees_space(stage: &Stage, what: &str) {
    stage.disk.heal();
    stage.clock.advance(Millis::from_secs(2));
    until(what, || {
        // An inline store tries when it is called.
        apply(stage.store(), "shop", vec![schedule("probe", 90_000, 1)]).ok();
        !is_stalled(stage.store())
    });
}

fn check_all(stage: &mut Stage, made: &[String], what: &str) {
    stage.take(&Step::Apply("shop", vec![schedule("y", 90_000, 100)]));
    stage.restart_crashed();
    let state = |id: &str| get(stage.store(), "shop", id).map(|view| view.state);
    assert_eq!(state("b"), Some(State::Cancelled), "{what}");
    for id in ["a", "y"].into_iter().chain(made.iter().map(String::as_str)) {
        assert_eq!(state(id), Some(State::Scheduled), "{what}: {id}");
    }
}

fn ids_of(made: &[Outcome], operations: &[duly_store::Operation]) -> Vec<String> {
    let ids = operations.iter().map(|operation| match operation {
        duly_store::Operation::Schedule { schedule, .. } => schedule.id.to_string(),
        other => panic!("{other:?}"),
    });
    let made = made.iter().map(|outcome| matches!(outcome, Outcome::Created(_)));
    ids.zip(made).filter_map(|(id, is_made)| is_made.then_some(id)).collect()
}

#[test]
fn p10_a_full_disk_below_the_journal_ends_no_inline_store() {
    for (operation, after) in [(Operation::Write, 0), (Operation::Sync, 0), (Operation::Sync, 1)] {
        for (operations, seed) in
            [one(), many()].into_iter().flat_map(|o| (0..6).map(move |s| (o.clone(), s)))
        {
            let what = format!("{operation} {after} seed {seed}, {} timers", operations.len());
            let mut stage = stage(Shell::Inline, seed);
            stage.disk.fail(full(operation, after, u64::MAX));
            let mut made = Vec::new();
            if let Ok(outcomes) = apply(stage.store(), "shop", operations.clone()) {
                // Some were made before a roll; or there is only one sync.
                made = ids_of(&outcomes, &operations);
                assert!(after > 0 || made.len() < operations.len(), "{what}: {outcomes:?}");
            }
            if is_stalled(stage.store()) {
                refuses(stage.store(), &what);
                frees_space(&stage, &what);
                let again = apply(stage.store(), "shop", operations).expect("there is room");
                assert!(
                    again.iter().all(|o| !matches!(o, Outcome::Failed(_))),
                    "{what}: {again:?}"
                );
            } else {
                stage.disk.heal();
            }
            check_all(&mut stage, &made, &what);
        }
    }
}

/// A call whose frame waits for space returns when the frame is durable.
#[test]
fn p1_p10_calls_wait_until_their_frame_has_space() {
    for operation in [Operation::Write, Operation::Sync] {
        for seed in 0..6 {
            let what = format!("{operation} seed {seed}");
            let mut stage = stage(Shell::Threads, seed);
            stage.disk.fail(full(operation, 0, u64::MAX));
            let answer: Result<Vec<Outcome>> = thread::scope(|scope| {
                let waiting = scope.spawn(|| apply(stage.store(), "shop", one()));
                until(&what, || is_stalled(stage.store()));
                refuses(stage.store(), &what);
                assert!(!waiting.is_finished(), "{what}");
                frees_space(&stage, &what);
                waiting.join().expect("it is answered")
            });
            let made = answer.expect("it is durable");
            assert!(matches!(made[0], Outcome::Created(_)), "{what}: {made:?}");
            check_all(&mut stage, &["x".to_owned()], &what);
        }
    }
}

#[test]
fn p1_a_store_that_waits_for_room_is_closed_at_once() {
    for operation in [Operation::Write, Operation::Sync] {
        let mut stage = stage(Shell::Threads, 1);
        stage.disk.fail(full(operation, 0, u64::MAX));
        let answer = thread::scope(|scope| {
            let waiting = scope.spawn(|| apply(stage.store(), "shop", one()));
            until("it waits", || is_stalled(stage.store()));
            stage.close();
            waiting.join().expect("it is answered")
        });
        assert!(matches!(answer, Err(Error::InDoubt { .. })), "{operation}: {answer:?}");
        stage.disk.heal();
        stage.reopen();
        check_all(&mut stage, &[], "after a close");
    }
}
