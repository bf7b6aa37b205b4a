//! EIO and ENOSPC in everything that the engine writes except the journal: checkpoints, sorted runs,
//! names, removals.
//!
//! None of these errors stops the store. It continues, tries again after ten seconds, and removes every
//! dead file in the end. Acknowledged changes survive a restart at any time.

use duly_core::Millis;
use duly_store_embedded::{
    Options,
    disk::{Fault, Operation, SimDisk},
};

use crate::{
    faulty::{FaultKind, FaultyDisk, Rule},
    harness::Shell,
    seeds::{Repeat, number},
    snapshot::Snapshot,
    stage::Stage,
    steps::{Step, cancel, dead_letter_verdict, perform, schedule},
    twins::busy,
    workload::{LARGE_BYTES, settings},
};

/// A little more than the wait before a failed operation is tried again.
const AGAIN: Millis = Millis::from_ms(11_000);

fn stage(seed: u64) -> Stage {
    let mut stage = Stage::with(Shell::Inline, FaultyDisk::new(SimDisk::new(seed)), busy);
    stage.take(&Step::Put("shop", Box::new(settings())));
    stage.take(&Step::Apply("shop", vec![schedule("dead", 0, 300)]));
    stage.take(&Step::Claim("shop", 1));
    stage.take(&Step::Settle("shop", "dead".into(), dead_letter_verdict()));
    stage
}

/// Writes a segment's worth of timers and cancels half of them.
fn fill(stage: &mut Stage, round: u64) {
    let ids: Vec<String> = (0..10).map(|i| format!("r{round:02} {i}")).collect();
    let made = ids.iter().map(|id| schedule(id, 90_000_000, LARGE_BYTES)).collect();
    stage.take(&Step::Apply("shop", made));
    stage.take(&Step::Apply("shop", ids.iter().step_by(2).map(|id| cancel(id)).collect()));
}

fn names(stage: &Stage, part: &str) -> Vec<String> {
    stage.disk.sim.names().into_iter().filter(|name| name.contains(part)).collect()
}

/// Runs rounds and advances the clock, so that failed operations are tried again.
fn run_rounds(stage: &mut Stage, rounds: std::ops::Range<u64>) {
    for round in rounds {
        stage.clock.advance(AGAIN);
        fill(stage, round);
    }
}

fn check_restarts(stage: &mut Stage, what: &str) {
    let shown = Snapshot::of(stage.store());
    stage.restart_killed();
    assert!(Snapshot::of(stage.store()) == shown, "{what}: after kill -9");
    stage.restart_crashed();
    assert!(Snapshot::of(stage.store()) == shown, "{what}: after a power loss");
}

fn fails(operation: Operation, name: &'static str, fault_kind: FaultKind) {
    for after in 0..number("DULY_CRASH_STEPS", 4) {
        let _repeat = Repeat::new("background_faults", &[("DULY_CRASH_STEPS", after + 1)]);
        for times in [1, 3] {
            let what = format!("{operation} of {name} {fault_kind:?} after {after}, {times} times");
            let mut stage = stage(after + 1);
            run_rounds(&mut stage, 0..2);
            let rule = Rule { operation, name, fault_kind, after, times };
            stage.disk.fail(rule);
            run_rounds(&mut stage, 2..5);
            // A restart between the failures. The check of everything reads the disk, so the disk is
            // healed first.
            if after % 2 == 1 {
                stage.disk.heal();
                check_restarts(&mut stage, &what);
            }
            run_rounds(&mut stage, 5..8);
            stage.disk.heal();
            let before = names(&stage, ".ckp");
            run_rounds(&mut stage, 8..13);
            assert!(stage.store().health().not_ready.is_empty(), "{what}: the store goes on");
            // It was tried again: there are newer checkpoints, and old segments are gone.
            assert!(names(&stage, ".ckp") > before, "{what}: {before:?}");
            assert_eq!(names(&stage, ".ckp").len(), 2, "{what}: {:?}", names(&stage, ".ckp"));
            let segments = names(&stage, ".log");
            assert!(segments.len() <= 7, "{what}: files are given back: {segments:?}");
            check_restarts(&mut stage, &what);
        }
    }
}

#[test]
fn p1_a_checkpoint_that_cannot_be_written_is_tried_again() {
    for fault_kind in [FaultKind::Broken, FaultKind::Full] {
        for operation in [Operation::Create, Operation::Write, Operation::Sync] {
            fails(operation, "checkpoints/", fault_kind);
        }
    }
}

/// The growth of the journal since the last successful checkpoint still counts.
#[test]
fn p1_a_failed_checkpoint_is_retried_without_journal_growth() {
    // Nothing is rewritten, so no space waits for a checkpoint, which would be another reason to take
    // one.
    let young_for_good = |seed| Options { young_bytes: 1 << 30, ..busy(seed) };
    let mut stage = Stage::with(Shell::Inline, FaultyDisk::new(SimDisk::new(1)), young_for_good);
    stage.take(&Step::Put("shop", Box::new(settings())));
    stage.disk.fail(Rule {
        operation: Operation::Create,
        name: "checkpoints/",
        fault_kind: FaultKind::Broken,
        after: 0,
        times: 1,
    });
    let mut round = 0;
    while stage.disk.times_left() > 0 {
        let id = format!("large {round}");
        stage.take(&Step::Apply("shop", vec![schedule(&id, 90_000_000, LARGE_BYTES)]));
        round += 1;
    }
    let before = names(&stage, ".ckp");
    stage.clock.advance(AGAIN);
    stage.take(&Step::Apply("shop", vec![schedule("small", 90_000_000, 10)]));
    assert!(names(&stage, ".ckp") > before, "{before:?}");
}

#[test]
fn p1_a_checkpoint_that_cannot_be_named_is_tried_again() {
    fails(Operation::Rename, ".ckp", FaultKind::Broken);
    fails(Operation::Rename, ".ckp", FaultKind::Full);
    fails(Operation::SyncDir, "checkpoints", FaultKind::Broken);
}

#[test]
fn p1_a_checkpoint_that_cannot_be_removed_is_not_in_the_way() {
    for operation in [Operation::Remove, Operation::SyncDir] {
        fails(operation, "checkpoints", FaultKind::Broken);
    }
}

#[test]
fn p1_runs_that_cannot_be_written_are_tried_again() {
    for fault_kind in [FaultKind::Broken, FaultKind::Full] {
        for operation in [Operation::Create, Operation::Write, Operation::Sync] {
            fails(operation, "runs/", fault_kind);
        }
    }
}

#[test]
fn p1_runs_that_cannot_be_named_or_opened_are_tried_again() {
    fails(Operation::Rename, "runs/", FaultKind::Broken);
    fails(Operation::Rename, "runs/", FaultKind::Full);
    fails(Operation::SyncDir, "runs", FaultKind::Broken);
    fails(Operation::Open, "runs/", FaultKind::Broken);
}

#[test]
fn p1_a_rewrite_that_cannot_read_is_tried_again() {
    fails(Operation::Read, "runs/", FaultKind::Broken);
    fails(Operation::Read, ".log", FaultKind::Broken);
}

#[test]
fn p1_a_failed_hole_is_punched_later() {
    fails(Operation::PunchHole, "runs/", FaultKind::Broken);
}

#[test]
fn p1_files_that_cannot_be_listed_or_measured_are_tried_again() {
    for operation in [Operation::List, Operation::Length, Operation::SetLength] {
        fails(operation, "runs", FaultKind::Broken);
        fails(operation, "checkpoints", FaultKind::Broken);
    }
    fails(Operation::Space, "", FaultKind::Broken);
}

#[test]
fn p4_files_that_cannot_be_removed_go_later() {
    fails(Operation::Remove, "runs/", FaultKind::Broken);
    fails(Operation::Remove, ".log", FaultKind::Broken);
    fails(Operation::Rename, "journal/spare", FaultKind::Broken);
}

/// A removal that fails half-way has already recycled a segment.
#[test]
fn p4_p10_a_half_failed_removal_restarts_from_the_beginning() {
    for after in 0..4 {
        let mut stage = stage(after + 1);
        run_rounds(&mut stage, 0..3);
        let rule = Rule {
            operation: Operation::SyncDir,
            name: "runs",
            fault_kind: FaultKind::Broken,
            after,
            times: 1,
        };
        stage.disk.fail(rule);
        stage.disk.fail(Rule {
            operation: Operation::Remove,
            name: "runs/",
            fault_kind: FaultKind::Broken,
            after,
            times: 1,
        });
        run_rounds(&mut stage, 3..16);
        let segments = names(&stage, ".log");
        assert!(segments.len() <= 7, "after {after}: {segments:?}");
        check_restarts(&mut stage, "a removal that failed");
    }
}

/// The output of a failed rewrite is of no use to the next one.
#[test]
fn p10_repeatedly_failing_rewrites_do_not_fill_the_disk() {
    let mut stage = stage(1);
    // The first sorted run of a job is written, the second one never.
    for after in (1..40).step_by(2) {
        stage.disk.fail(Rule {
            operation: Operation::Rename,
            name: "runs/",
            fault_kind: FaultKind::Full,
            after,
            times: 1,
        });
    }
    let mut most = 0;
    for round in 0..6 {
        run_rounds(&mut stage, round..round + 1);
        most = most.max(names(&stage, "runs/").len());
    }
    let shown = names(&stage, "runs/");
    check_restarts(&mut stage, "a rewrite that fails");
    let needed = names(&stage, "runs/");
    assert!(shown.len() <= needed.len() + 2, "{shown:?} where {needed:?} are needed");
}

#[test]
fn p10_a_full_disk_keeps_one_loadable_checkpoint() {
    let mut stage = stage(1);
    run_rounds(&mut stage, 0..5);
    let rule = Rule {
        operation: Operation::Write,
        name: "checkpoints/",
        fault_kind: FaultKind::Full,
        after: 0,
        times: u64::MAX,
    };
    stage.disk.fail(rule);
    let newest = names(&stage, ".ckp").pop().expect("there are two");
    run_rounds(&mut stage, 5..8);
    assert_eq!(names(&stage, ".ckp"), [newest], "the older one is given up, the newer never");
    check_restarts(&mut stage, "with one checkpoint");
    run_rounds(&mut stage, 8..12);
    assert_eq!(names(&stage, ".ckp").len(), 2, "room brings the second one back");
    check_restarts(&mut stage, "with two");
}

/// A segment became the spare and then the next segment, before its new names were durable.
#[test]
fn p1_a_power_loss_after_a_half_removal_swaps_no_segments() {
    let at_ops = number("DULY_CRASH_OP", 1)..number("DULY_CRASH_STEPS", 90);
    for at_op in at_ops.step_by(5) {
        let one = [("DULY_CRASH_OP", at_op), ("DULY_CRASH_STEPS", at_op + 1)];
        let _repeat = Repeat::new("background_faults", &one);
        let mut stage = stage(at_op);
        run_rounds(&mut stage, 0..3);
        // The removal ends after the first rename, before any of it is synced.
        stage.disk.fail(Rule {
            operation: Operation::Remove,
            name: "runs/",
            fault_kind: FaultKind::Broken,
            after: 0,
            times: 50,
        });
        stage.disk.fail(Rule {
            operation: Operation::Remove,
            name: ".log",
            fault_kind: FaultKind::Broken,
            after: 0,
            times: 50,
        });
        let mut round = 3;
        while !names(&stage, "journal/").iter().any(|name| name.ends_with(".old")) && round < 12 {
            run_rounds(&mut stage, round..round + 1);
            round += 1;
        }
        assert!(round < 12, "a segment is recycled");
        let before = Snapshot::of(stage.store());
        stage.disk.sim.plan(Fault::CrashAtOp(at_op));
        for i in 0..12 {
            let step =
                Step::Apply("shop", vec![schedule(&format!("l{i}"), 90_000_000, LARGE_BYTES)]);
            if perform(stage.store(), &step, &mut Default::default()).is_err() {
                break;
            }
        }
        stage.restart_crashed();
        let after = Snapshot::of(stage.store());
        for (key, view) in &before.timers {
            assert_eq!(after.timers.get(key), Some(view), "operation {at_op}");
        }
    }
}
