//! Segments come and go: crashes around the making of one and the removal of others.
//!
//! The classic bugs: a cancel is removed before the schedule that it cancels, which then comes back. A
//! segment loses what it needs from an older one. A name exists only in the page cache.

use std::ops::RangeInclusive;

use duly_core::{Millis, State};
use duly_store_embedded::disk::{Fault, Operation, SimDisk};

use crate::{
    crash_points::fires_what_is_pending,
    faulty::{FaultKind, FaultyDisk, Rule},
    harness::Shell,
    seeds::{Repeat, number},
    snapshot::Snapshot,
    stage::Stage,
    steps::{Step, apply, cancel, get, schedule},
    twins::{Loss, Stepped, Twins},
    workload::{LARGE_BYTES, dying_segments, settings},
};

/// Longest distance from the first crash to the second: a segment comes and one goes between them.
const SECOND_MAX: u64 = 48;

/// Returns the operations of the first roll: the step that makes the second segment, from its first
/// operation to its last.
fn first_roll() -> RangeInclusive<u64> {
    let mut twins = Twins::new(1);
    let start = twins.subject.disk.ops();
    for line in dying_segments() {
        let step = twins.step_of(line);
        let before = twins.subject.disk.ops();
        assert!(matches!(twins.step(&step), Stepped::Done(_)), "a healthy disk takes {step:?}");
        if twins.subject.disk.names().contains(&"journal/0000000000000002.log".to_owned()) {
            return before - start + 1..=twins.subject.disk.ops() - start;
        }
    }
    panic!("the script rolls");
}

/// Runs the script of dying segments up to a crash at `first`, and another one `second` operations after
/// its recovery. Returns the number of crashes.
fn crash_twice(first: u64, second: u64, losses: [Loss; 2]) -> Result<usize, String> {
    let mut twins = Twins::new(first);
    twins.subject.disk.plan(Fault::CrashAtOp(first));
    let mut crashes = 0;
    for line in dying_segments() {
        let step = twins.step_of(line);
        while let Stepped::Failed(_) = twins.step(&step) {
            let loss = losses[crashes];
            crashes += 1;
            twins
                .restart(loss, Some(&step), |left, _| left)
                .map_err(|wrong| format!("crash {crashes}, {loss:?}: {wrong}"))?;
            if crashes == 1 {
                twins.subject.disk.plan(Fault::CrashAtOp(second));
            }
        }
        if crashes == 2 {
            break;
        }
    }
    twins.restart(Loss::Power, None, |left, _| left)?;
    fires_what_is_pending(&mut twins)?;
    Ok(crashes)
}

fn many_pairs(losses: [Loss; 2]) {
    let stride = number("DULY_CRASH_STRIDE", 3);
    let firsts = first_roll();
    for first in number("DULY_CRASH_OP", *firsts.start())..=*firsts.end() {
        let seconds = number("DULY_CRASH_SECOND", 1 + first % stride)..=SECOND_MAX;
        for second in seconds.step_by(usize::try_from(stride).expect("a small number")) {
            let one = [
                ("DULY_CRASH_OP", first),
                ("DULY_CRASH_SECOND", second),
                ("DULY_CRASH_STRIDE", stride),
            ];
            let _repeat = Repeat::new("rolls", &one);
            let crashes = crash_twice(first, second, losses)
                .unwrap_or_else(|wrong| panic!("at operation {first}, then {second}: {wrong}"));
            assert_eq!(crashes, 2, "the script is long enough: {first}, {second}");
        }
    }
}

#[test]
fn p10_dead_segments_are_dropped_without_a_restart() {
    let mut twins = Twins::new(1);
    for line in dying_segments() {
        let step = twins.step_of(line);
        assert!(matches!(twins.step(&step), Stepped::Done(_)), "a healthy disk takes {step:?}");
        let names = twins.subject.disk.names();
        let segments = names.iter().filter(|name| name.ends_with(".log")).count();
        // Two checkpoints must begin before a segment is removed.
        assert!(segments <= 6, "dead segments are dropped: {names:?}");
    }
}

#[test]
fn p1_p4_t10_rolls_survive_kill_9_and_a_power_loss() {
    many_pairs([Loss::Process, Loss::Power]);
}

#[test]
fn p1_p4_t10_rolls_survive_two_power_losses() {
    many_pairs([Loss::Power, Loss::Power]);
}

/// A thread makes segments ahead while the journal continues, and may be late.
#[test]
fn p1_spare_segments_lose_nothing_under_fast_rolls() {
    let mut stage = Stage::new(Shell::Threads, FaultyDisk::new(SimDisk::new(1)));
    stage.take(&Step::Put("shop", Box::new(settings())));
    let ids: Vec<String> = (0..400).map(|i| format!("t{i:03}")).collect();
    for some in ids.chunks(13) {
        let made = some.iter().map(|id| schedule(id, 9_000, LARGE_BYTES)).collect();
        stage.take(&Step::Apply("shop", made));
    }
    assert_eq!(Snapshot::of(stage.store()).pending("shop"), ids);
    for _ in 0..2 {
        stage.restart_killed();
        assert_eq!(Snapshot::of(stage.store()).pending("shop"), ids);
        stage.restart_crashed();
        assert_eq!(Snapshot::of(stage.store()).pending("shop"), ids);
    }
}

/// After a failed sync the page cache shows bytes that the disk does not have. A process that starts
/// after kill -9 reads them there, and must not take them for durable.
#[test]
fn p1_recovered_page_cache_contents_are_made_durable() {
    let first = number("DULY_CRASH_SEED", 1);
    for seed in first..first + number("DULY_CRASH_SEEDS", 40) {
        let one = [("DULY_CRASH_SEED", seed), ("DULY_CRASH_SEEDS", 1)];
        let _repeat = Repeat::new("rolls", &one);
        let mut stage = Stage::new(Shell::Inline, FaultyDisk::new(SimDisk::new(seed)));
        stage.take(&Step::Put("shop", Box::new(settings())));
        stage.disk.sim.plan(Fault::ErrorAtSync(1));
        let doubtful = apply(stage.store(), "shop", vec![schedule("doubtful", 9_000, 2_000)]);
        assert!(doubtful.is_err(), "seed {seed}: {doubtful:?}");
        stage.restart_killed();
        let seen = Snapshot::of(stage.store());
        stage.take(&Step::Apply("shop", vec![schedule("sure", 9_000, 2_000)]));
        stage.restart_crashed();
        assert!(get(stage.store(), "shop", "sure").is_some(), "seed {seed}");
        for (key, view) in &seen.timers {
            let again = get(stage.store(), "shop", key.1.as_str());
            assert_eq!(again.as_ref(), Some(view), "seed {seed}: it was shown");
        }
    }
}

#[test]
fn p4_t10_a_failed_drop_of_dead_segments_brings_nothing_back() {
    for (operation, name) in [(Operation::Remove, "001.log"), (Operation::SyncDir, "journal")] {
        for after in 0..4 {
            let mut stage = Stage::new(Shell::Inline, FaultyDisk::new(SimDisk::new(after)));
            stage.take(&Step::Put("shop", Box::new(settings())));
            let rule = Rule { operation, name, fault_kind: FaultKind::Broken, after, times: 1 };
            stage.disk.fail(rule);
            let mut cancelled = Vec::new();
            for i in 0..60 {
                let id = format!("t{i}");
                let made = apply(stage.store(), "shop", vec![schedule(&id, 9_000, LARGE_BYTES)]);
                let ended = apply(stage.store(), "shop", vec![cancel(&id)]);
                if made.is_err() || ended.is_err() {
                    break;
                }
                cancelled.push(id);
            }
            stage.restart_crashed();
            for id in cancelled {
                let state = get(stage.store(), "shop", &id).map(|view| view.state);
                let is_over = state.is_none_or(|state| state == State::Cancelled);
                assert!(is_over, "{operation} {after}: {id} is {state:?}");
            }
        }
    }
}

/// The operations of a roll before anything of the journal is written, those on a spare included.
const BEFORE: [(Operation, &str); 10] = [
    (Operation::Open, "journal/spare"),
    (Operation::Length, "journal/spare"),
    (Operation::Rename, "journal/next.tmp"),
    (Operation::List, "journal"),
    (Operation::Remove, "journal/"),
    (Operation::Create, "journal/next.tmp"),
    (Operation::Open, "journal/next.tmp"),
    (Operation::Write, "journal/next.tmp"),
    (Operation::Sync, "journal/next.tmp"),
    (Operation::Rename, "002.log"),
];

fn breaks(operation: Operation, name: &'static str, fault_kind: FaultKind, times: u64) -> Rule {
    Rule { operation, name, fault_kind, after: 0, times }
}

fn large(round: u64) -> Vec<duly_store::Operation> {
    (0..12).map(|i| schedule(&format!("r{round} {i}"), 90_000_000, LARGE_BYTES)).collect()
}

/// Makes a store that has rolled more than once, so that there are segments of all kinds.
fn rolled(shell: Shell) -> Stage {
    let mut stage = Stage::new(shell, FaultyDisk::new(SimDisk::new(5)));
    stage.take(&Step::Put("shop", Box::new(settings())));
    stage
}

fn all_made(answer: &[duly_store::Outcome]) -> bool {
    answer.iter().all(|outcome| matches!(outcome, duly_store::Outcome::Created(_)))
}

#[test]
fn p1_one_failure_before_a_segment_is_named_is_not_noticed() {
    for shell in [Shell::Inline, Shell::Threads] {
        for fault_kind in [FaultKind::Broken, FaultKind::TooManyFiles, FaultKind::Interrupted] {
            let after = [(Operation::Open, "002.log")];
            let listed = BEFORE.into_iter().chain(after);
            // A directory that could not be opened was not synced.
            let directory =
                (fault_kind == FaultKind::TooManyFiles).then_some((Operation::SyncDir, "journal"));
            for (operation, name) in listed.chain(directory) {
                let what = format!("{shell:?}: {operation} {name} {fault_kind:?}");
                let mut stage = rolled(shell);
                stage.disk.fail(breaks(operation, name, fault_kind, 1));
                let answer = apply(stage.store(), "shop", large(0)).expect("it is answered");
                assert!(all_made(&answer), "{what}: {answer:?}");
                assert_eq!(stage.store().terminal_error(), None, "{what}");
                stage.restart_crashed();
                for i in 0..12 {
                    assert!(get(stage.store(), "shop", &format!("r0 {i}")).is_some(), "{what}");
                }
            }
        }
    }
}

/// Too many open files, for as long as an operator takes to close some.
#[test]
fn p1_a_failing_roll_is_retried_until_it_succeeds() {
    for shell in [Shell::Inline, Shell::Threads] {
        for (operation, name) in [
            (Operation::Create, "journal/"),
            (Operation::Open, "002.log"),
            (Operation::SyncDir, "journal"),
        ] {
            let what = format!("{shell:?}: {operation} {name}");
            let mut stage = rolled(shell);
            stage.disk.fail(breaks(operation, name, FaultKind::TooManyFiles, u64::MAX));
            let answer = apply(stage.store(), "shop", large(0)).expect("it is answered");
            let made = answer.iter().filter(|it| matches!(it, duly_store::Outcome::Created(_)));
            let made = made.count();
            assert!(made < answer.len(), "{what}: the segment is full");
            let refused = match &answer[made] {
                duly_store::Outcome::Failed(error @ duly_store::Error::Unavailable { .. }) => error,
                other => panic!("{what}: {other:?}"),
            };
            assert!(refused.to_string().contains("too many files are open"), "{what}: {refused}");
            let not_ready = stage.store().health().not_ready.join("; ");
            assert!(not_ready.contains("no journal segment can be created"), "{what}: {not_ready}");
            assert_eq!(stage.store().terminal_error(), None, "{what}");

            stage.disk.heal();
            stage.clock.advance(Millis::from_secs(6));
            // Nothing is written, and the store is ready again all the same.
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
            while !stage.store().health().not_ready.is_empty() {
                assert!(std::time::Instant::now() < deadline, "{what}: it stays unready");
                stage.take(&Step::Tick);
            }
            let answer = apply(stage.store(), "shop", large(1)).expect("it is answered");
            assert!(all_made(&answer), "{what}: {answer:?}");
            let shown = Snapshot::of(stage.store());
            stage.restart_crashed();
            assert!(Snapshot::of(stage.store()) == shown, "{what}");
        }
    }
}

/// After a failed sync of the directory the name of a segment may exist in the page cache only. A start
/// in the same process does not rely on it.
#[test]
fn p1_recovery_remakes_a_segment_with_an_unsynced_name() {
    for seed in 0..12 {
        let mut stage = Stage::new(Shell::Inline, FaultyDisk::new(SimDisk::new(seed)));
        stage.take(&Step::Put("shop", Box::new(settings())));
        stage.disk.fail(breaks(Operation::SyncDir, "journal", FaultKind::Broken, 1));
        apply(stage.store(), "shop", large(0)).expect_err("the roll fails");
        assert!(stage.ended().contains("sync directory"), "seed {seed}");
        stage.reopen();
        stage.take(&Step::Apply("shop", large(1)));
        let shown = Snapshot::of(stage.store());
        stage.restart_crashed();
        assert!(Snapshot::of(stage.store()) == shown, "seed {seed}");
    }
}
