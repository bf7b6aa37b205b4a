//! A power loss, or kill -9, at every single disk operation of the scripted workload.

use duly_core::{Millis, env::Clock};
use duly_store::{SettleOutcome, SettleVerdict, conformance::ManualClock, namespaces::Activity};
use duly_store_embedded::disk::{Fault, SimDisk};

use crate::{
    seeds::{Repeat, number},
    snapshot::Snapshot,
    steps::{Step, claim, perform, settle},
    twins::{Loss, Stepped, Twins, open_inline},
    workload::script,
};

/// One of this many crash points continues to the end of the script; the others end right there.
const TO_THE_END: u64 = 4;

/// Runs the script on a disk that crashes at operation `at_op` of it. Returns `true` if it crashed.
fn crash_at(at_op: u64, seed: u64, loss: Loss, again_at: Option<u64>) -> Result<bool, String> {
    let mut twins = Twins::new(seed);
    twins.subject.disk.plan(Fault::CrashAtOp(at_op));
    let mut crashed = false;
    for line in script() {
        let step = twins.step_of(line);
        if crashed && !at_op.is_multiple_of(TO_THE_END) {
            break;
        }
        while let Stepped::Failed(_) = twins.step(&step) {
            assert!(!crashed, "it failed a second time, at {step:?}");
            crashed = true;
            twins
                .restart(loss, Some(&step), |left, clock| again(left, clock, again_at))
                .map_err(|wrong| format!("after {step:?}: {wrong}"))?;
        }
    }
    if !crashed {
        twins.restart(loss, None, |left, _| left)?;
    }
    fires_what_is_pending(&mut twins)?;
    Ok(crashed)
}

fn crash_or_panic(at_op: u64, seed: u64, loss: Loss, again_at: Option<u64>) -> bool {
    let one = [("DULY_CRASH_SEED", seed), ("DULY_CRASH_SEEDS", 1), ("DULY_CRASH_OP", at_op)];
    let _repeat = Repeat::new("crash_points", &one);
    crash_at(at_op, seed, loss, again_at).unwrap_or_else(|wrong| {
        panic!("seed {seed}, {loss:?} at operation {at_op}, then {again_at:?}: {wrong}")
    })
}

/// Crashes a second time, while the store opens.
fn again(left: SimDisk, clock: &ManualClock, at_op: Option<u64>) -> SimDisk {
    let Some(at_op) = at_op else {
        return left;
    };
    left.plan(Fault::CrashAtOp(at_op));
    match open_inline(&left, clock, 77) {
        Ok(store) => store.close(),
        Err(error) => assert!(left.is_down(), "only the crash keeps it from opening: {error}"),
    }
    left.crash()
}

/// Checks that in the end everything pending fires, nothing else, and nothing early.
pub(crate) fn fires_what_is_pending(twins: &mut Twins) -> Result<(), String> {
    for namespace in ["brief", "gone", "shop"] {
        let store = &twins.subject.store;
        let shown = Snapshot::of(store);
        if !shown.namespaces.contains_key(namespace) {
            continue;
        }
        let running = Step::Activity(namespace, Activity::Running);
        let resumed = perform(store, &running, &mut twins.subject.tokens);
        resumed.map_err(|error| error.to_string())?;
        let fired = fire_all(twins, namespace).map_err(|error| error.to_string())?;
        if fired != shown.pending(namespace) {
            return Err(format!("{fired:?} fired, not {:?}", shown.pending(namespace)));
        }
    }
    Ok(())
}

/// Lets time pass and acknowledges everything that fires. Returns the ids in order.
fn fire_all(twins: &Twins, namespace: &str) -> duly_store::Result<Vec<String>> {
    let store = &twins.subject.store;
    let mut fired = Vec::new();
    for minutes in [0, 1, 10, 100, 1_000, 600_000] {
        twins.clock.advance(Millis::from_secs(60 * minutes));
        for firing in claim(store, namespace, 100)? {
            assert!(firing.due_at <= twins.clock.now(), "{} fired early", firing.id);
            fired.push(firing.id.to_string());
            let outcome = settle(store, namespace, &firing.token, SettleVerdict::Ack)?;
            assert_eq!(outcome, SettleOutcome::Ok, "{}", firing.id);
        }
    }
    fired.sort();
    Ok(fired)
}

/// Tries one crash point after the other, until the script ends without a crash.
/// Returns the number of operations of the script. With a stride, `begin` decides which of them are tried.
fn every_operation(loss: Loss, begin: u64, again_at: impl Fn(u64) -> Option<u64>) -> u64 {
    let first = number("DULY_CRASH_SEED", 1);
    let stride = number("DULY_CRASH_STRIDE", 1);
    let mut last = 0;
    for seed in first..first + number("DULY_CRASH_SEEDS", 1) {
        let mut at = number("DULY_CRASH_OP", 1 + begin % stride);
        while crash_or_panic(at, seed, loss, again_at(at)) {
            last = at;
            at += stride;
        }
    }
    last
}

#[test]
fn p1_p4_p5_acknowledged_changes_survive_any_power_loss() {
    let operations = every_operation(Loss::Power, 0, |_| None);
    assert!(operations > 200, "the script is long enough to mean something: {operations}");
}

#[test]
fn p1_p4_p5_acknowledged_changes_survive_any_kill_9() {
    every_operation(Loss::Process, 1, |_| None);
}

#[test]
fn p1_acknowledged_changes_survive_a_power_loss_in_recovery() {
    // A start takes about ten operations: each crash point gets a different one of them.
    every_operation(Loss::Power, 2, |at| Some(1 + at % 12));
}

#[test]
fn p1_acknowledged_changes_survive_any_loss_of_unsynced_sectors() {
    // Other seeds lose, tear and reorder other sectors: only one crash point of each is tried.
    let first = number("DULY_CRASH_SEED", 1);
    for seed in first..first + number("DULY_CRASH_SEEDS", 60) {
        let at_op = number("DULY_CRASH_OP", 1 + seed * 7_919 % 230);
        crash_or_panic(at_op, seed, Loss::Power, seed.is_multiple_of(3).then_some(1 + seed % 12));
    }
}

#[test]
fn p1_a_new_store_survives_any_power_loss_in_its_first_start() {
    let clock = ManualClock::default();
    let mut at_op = 1;
    loop {
        let disk = SimDisk::new(at_op);
        disk.plan(Fault::CrashAtOp(at_op));
        let opened = open_inline(&disk, &clock, 1);
        if !disk.is_down() {
            assert!(opened.is_ok(), "{opened:?}");
            return;
        }
        drop(opened);
        let left = again(disk.crash(), &clock, Some(1 + at_op % 5));
        let store = open_inline(&left, &clock, 2).unwrap_or_else(|error| {
            panic!("a power loss at operation {at_op} of the first opening: {error}")
        });
        assert_eq!(Snapshot::of(&store), Snapshot::default());
        at_op += 1;
    }
}
