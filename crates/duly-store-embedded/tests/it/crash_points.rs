//! A power loss, or kill -9, at every single disk operation of the scripted workload.

use duly_core::Millis;
use duly_store::{SettleVerdict, conformance::ManualClock};
use duly_store_embedded::disk::{Fault, SimDisk};

use crate::{
    seeds::number,
    snapshot::Snapshot,
    steps::{Step, claim, settle},
    twins::{Loss, Stepped, Twins, open_inline},
    workload::{Line, script},
};

/// Runs the script on a disk that crashes at operation `crash_at` of it; answers whether it did.
fn crash_at(crash_at: u64, seed: u64, loss: Loss, again_at: Option<u64>) -> Result<bool, String> {
    let clock = ManualClock::default();
    let mut twins = Twins::new(&SimDisk::new(seed), clock, 1_000 * seed);
    twins.subject.disk.plan(Fault::CrashAtOp(crash_at));
    let mut crashed = false;
    for line in script() {
        let step = match line {
            Line::Take(step) => step,
            Line::Advance(by_ms) => {
                twins.clock.advance(Millis::from_ms(by_ms));
                Step::Tick
            }
        };
        while twins.step(&step) == Stepped::Failed {
            assert!(!crashed, "it failed a second time, at {step:?}");
            crashed = true;
            twins
                .restart(loss, Some(&step), |left, clock| again(left, clock, again_at))
                .map_err(|wrong| format!("after {step:?}: {wrong}"))?;
        }
    }
    fires_what_is_pending(&mut twins)?;
    Ok(crashed)
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

/// At the end everything pending fires, nothing else, and nothing early.
fn fires_what_is_pending(twins: &mut Twins) -> Result<(), String> {
    let store = &twins.subject.store;
    let shown = Snapshot::of(store);
    let mut expected = shown.pending("shop");
    let mut fired = Vec::new();
    for _ in 0..100 {
        twins.clock.advance(Millis::from_secs(60));
        let now = duly_core::env::Clock::now(&twins.clock);
        for firing in claim(store, "shop", 100).map_err(|error| error.to_string())? {
            if firing.due_at > now {
                return Err(format!("{} fired early", firing.id));
            }
            fired.push(firing.id.to_string());
            let settled = settle(store, "shop", &firing.token, SettleVerdict::Ack);
            settled.map_err(|error| error.to_string())?;
        }
    }
    fired.sort();
    expected.sort();
    if fired == expected { Ok(()) } else { Err(format!("{fired:?} fired, not {expected:?}")) }
}

fn every_operation(loss: Loss, seeds: u64, again_at: impl Fn(u64) -> Option<u64>) -> u64 {
    let first = number("DULY_CRASH_SEED", 1);
    let stride = number("DULY_CRASH_STRIDE", 1);
    let mut points = 0;
    for seed in first..first + number("DULY_CRASH_SEEDS", seeds) {
        let mut at = number("DULY_CRASH_OP", 1);
        while {
            let ran = crash_at(at, seed, loss, again_at(at));
            ran.unwrap_or_else(|wrong| {
                panic!(
                    "{loss:?} at operation {at}: {wrong}\nrepeat with: DULY_CRASH_SEED={seed} \
                     DULY_CRASH_SEEDS=1 DULY_CRASH_OP={at} cargo test -p duly-store-embedded \
                     --test it crash_points"
                )
            })
        } {
            points += 1;
            at += stride;
        }
    }
    points
}

#[test]
fn p1_p4_p5_acknowledged_changes_survive_a_power_loss_at_every_disk_operation() {
    let points = every_operation(Loss::Power, 1, |_| None);
    assert!(points > 0, "the script writes");
}

#[test]
fn p1_p4_p5_acknowledged_changes_survive_kill_9_at_every_disk_operation() {
    every_operation(Loss::Process, 1, |_| None);
}

#[test]
fn p1_acknowledged_changes_survive_a_second_power_loss_while_the_store_opens() {
    // Opening takes about ten operations: each crash point gets another one of them.
    every_operation(Loss::Power, 1, |at| Some(1 + at % 12));
}

#[test]
fn p1_a_new_store_survives_a_power_loss_at_every_operation_of_its_first_opening() {
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
