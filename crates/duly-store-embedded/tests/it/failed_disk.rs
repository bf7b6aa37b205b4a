//! EIO: no caller is acknowledged, the store stops for good, and a restart finds everything that had
//! been acknowledged.

use duly_core::{Millis, State};
use duly_store::{ClaimRequest, Error, MemberId, Outcome, Owner};
use duly_store_embedded::disk::{Operation, SimDisk};

use crate::{
    faulty::{FaultKind, FaultyDisk, Rule},
    harness::Shell,
    snapshot::Snapshot,
    stage::{Stage, open},
    steps::{Step, apply, cancel, claim_request, get, perform, schedule, wait},
    twins::small,
    workload::{LARGE_BYTES, settings},
};

/// Checks that the store has failed for good: every call returns that, and so does its health.
fn assert_ended(stage: &Stage) {
    let store = stage.store();
    let steps = [
        Step::Apply("shop", vec![schedule("later", 10, 10)]),
        Step::Apply("shop", vec![cancel("a")]),
        Step::Claim("shop", 10),
        Step::Put("shop", Box::new(settings())),
        Step::Activity("shop", duly_store::namespaces::Activity::Paused),
        Step::Tick,
    ];
    for step in steps {
        let answer = perform(store, &step, &mut Default::default());
        let refused = matches!(answer, Err(Error::Unavailable { .. } | Error::InDoubt { .. }));
        assert!(refused, "{step:?} is answered {answer:?}");
    }
    let why = store.health().not_ready.join("; ");
    assert!(why.contains("must be restarted"), "health says it: {why:?}");
}

/// Makes the next change fail with `fails`. It is never acknowledged, though the disk heals at once.
fn ends(shell: Shell, fails: Rule, operations: Vec<duly_store::Operation>) {
    let shown = format!("{shell:?} {fails:?}");
    let mut stage = Stage::new(shell, FaultyDisk::new(SimDisk::new(3)));
    stage.take(&Step::Put("shop", Box::new(settings())));
    stage.take(&Step::Apply("shop", vec![schedule("a", 1_000, 100), schedule("b", 1_000, 100)]));
    stage.take(&Step::Apply("shop", vec![cancel("b")]));
    stage.disk.fail(fails);
    let answer = apply(stage.store(), "shop", operations);
    match answer {
        Err(Error::InDoubt { .. } | Error::Unavailable { .. }) => {}
        Ok(outcomes) => {
            let last = outcomes.last().expect("an outcome for each operation");
            assert!(matches!(last, Outcome::Failed(_)), "{shown}: {last:?} is acknowledged");
        }
        Err(other) => panic!("{shown}: {other}"),
    }
    stage.disk.heal();
    assert_ended(&stage);
    for _ in 0..3 {
        stage.restart_killed();
        let found = Snapshot::of(stage.store());
        assert_eq!(get(stage.store(), "shop", "a").map(|view| view.state), Some(State::Scheduled));
        assert_eq!(get(stage.store(), "shop", "b").map(|view| view.state), Some(State::Cancelled));
        assert!(found.namespaces.contains_key("shop"), "{shown}");
        stage.take(&Step::Apply("shop", vec![schedule("c", 5_000, 10), cancel("c")]));
    }
}

fn rule(operation: Operation, name: &'static str, after: u64) -> Rule {
    Rule { operation, name, fault_kind: FaultKind::Broken, after, times: 1 }
}

/// Returns enough operations for a roll.
fn many() -> Vec<duly_store::Operation> {
    (0..15).map(|i| schedule(&format!("m{i}"), 2_000, LARGE_BYTES)).collect()
}

fn one() -> Vec<duly_store::Operation> {
    vec![schedule("x", 2_000, 100)]
}

#[test]
fn p1_a_failed_sync_acknowledges_nothing_and_stops_the_store() {
    for shell in [Shell::Inline, Shell::Threads] {
        ends(shell, rule(Operation::Sync, ".log", 0), one());
    }
}

#[test]
fn p1_a_failed_write_acknowledges_nothing_and_stops_the_store() {
    for shell in [Shell::Inline, Shell::Threads] {
        ends(shell, rule(Operation::Write, ".log", 0), one());
    }
}

#[test]
fn p1_a_failed_write_or_sync_of_the_journal_in_a_roll_ends_it() {
    for shell in [Shell::Inline, Shell::Threads] {
        for operation in [Operation::Write, Operation::Sync] {
            // The frame before the roll; the old segment; the new one's first frame.
            for after in 0..2 {
                ends(shell, rule(operation, ".log", after), many());
            }
        }
        ends(shell, rule(Operation::SyncDir, "journal", 0), many());
    }
}

/// Number of timers whose leases end in one pass that needs more than one segment, with small records
/// between large ones.
const LEASED: usize = 30;

fn leased(stage: &mut Stage, owner: Owner) {
    stage.take(&Step::Put("shop", Box::new(settings())));
    for i in 0..LEASED {
        let bytes = if i % 3 == 0 { 2 * LARGE_BYTES } else { 100 };
        stage.take(&Step::Apply("shop", vec![schedule(&format!("t{i}"), 0, bytes)]));
    }
    let request = ClaimRequest { owner, ..claim_request("shop", LEASED) };
    let claimed = wait(stage.store().claim(crate::steps::SHARD, request)).expect("they are due");
    assert_eq!(claimed.firings.len(), LEASED);
    // A verdict that waits for its sync: the claims are durable.
    stage.take(&Step::Apply("shop", vec![schedule("last", 5_000, 10)]));
}

/// Makes a roll fail when its segment has its name. Another roll after it would fail before that.
fn break_rolls(disk: &FaultyDisk, syncs_before: u64) {
    disk.fail(rule(Operation::SyncDir, "journal", syncs_before));
    disk.fail(Rule { times: 1_000, ..rule(Operation::Rename, ".log", 1) });
}

fn assert_all_there(stage: &Stage) {
    for id in (0..LEASED).map(|i| format!("t{i}")).chain(["last".to_owned()]) {
        assert!(get(stage.store(), "shop", &id).is_some(), "{id} is there");
    }
}

/// Once a new segment has its name, nothing may be written into the one before it. The next start would
/// find frames there with the numbers that the new segment begins with, and refuse.
#[test]
fn p1_nothing_is_written_behind_a_failed_roll() {
    for shell in [Shell::Inline, Shell::Threads] {
        let mut stage = Stage::new(shell, FaultyDisk::new(SimDisk::new(3)));
        leased(&mut stage, Owner::Consumer { lease: None });
        break_rolls(&stage.disk, 0);
        stage.clock.advance(Millis::from_secs(3_600));
        stage.attempt(&Step::Tick).ok();
        // The pass over the leases runs beside the calls: some may come before the roll.
        let has_ended = (0..10_000).any(|_| stage.attempt(&Step::Apply("shop", one())).is_err());
        assert!(has_ended, "{shell:?}");
        let times_left = stage.disk.times_left();
        stage.restart_killed();
        assert_all_there(&stage);
        assert_eq!(times_left, 1_000, "{shell:?}: no second roll was begun");
    }
}

/// The same if the leases of nodes end at a start.
#[test]
fn p1_nothing_is_written_behind_a_failed_roll_at_a_start() {
    for shell in [Shell::Inline, Shell::Threads] {
        let mut stage = Stage::new(shell, FaultyDisk::new(SimDisk::new(3)));
        leased(&mut stage, Owner::Node(MemberId(7)));
        let disk = FaultyDisk::new(stage.disk.sim.kill());
        // The start itself syncs the names first.
        break_rolls(&disk, 1);
        let broken = std::sync::Arc::new(disk.clone());
        open(shell, broken, &stage.clock, small(77)).expect_err("it cannot write");
        let times_left = disk.times_left();
        stage.disk = disk;
        stage.restart_killed();
        assert_all_there(&stage);
        assert_eq!(times_left, 1_000, "{shell:?}: no second roll was begun");
    }
}
