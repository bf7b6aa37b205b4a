//! Segments come and go: crashes around the making of one and the dropping of others.
//!
//! The classic bugs: a cancel dropped before the schedule that it cancels, which then comes back;
//! a segment that loses what it needs from an older one; a name that only the page cache knows.

use duly_core::State;
use duly_store_embedded::disk::{Fault, Operation, SimDisk};

use crate::{
    crash_points::fires_what_is_pending,
    faulty::{Answers, FaultyDisk, Rule},
    harness::Shell,
    seeds::number,
    snapshot::Snapshot,
    stage::Stage,
    steps::{Step, apply, cancel, get, schedule},
    twins::{Loss, Stepped, Twins},
    workload::{LARGE_BYTES, dying_segments, settings},
};

/// Runs the script of dying segments with a crash at `first` and another one `second` operations
/// after its recovery; answers how many there were.
fn crash_twice(first: u64, second: u64, losses: [Loss; 2]) -> Result<usize, String> {
    let mut twins = Twins::new(first);
    twins.subject.disk.plan(Fault::CrashAtOp(first));
    let mut crashes = 0;
    for line in dying_segments() {
        let step = twins.step_of(line);
        while let Stepped::Failed(error) = twins.step(&step) {
            let loss = losses.get(crashes).ok_or_else(|| format!("a third time: {error}"))?;
            crashes += 1;
            twins
                .restart(*loss, Some(&step), |left, _| left)
                .map_err(|wrong| format!("crash {crashes}, {loss:?}: {wrong}"))?;
            if crashes == 1 {
                twins.subject.disk.plan(Fault::CrashAtOp(second));
            }
        }
    }
    twins.restart(Loss::Power, None, |left, _| left)?;
    let names = twins.subject.disk.names();
    let segments = names.iter().filter(|name| name.ends_with(".log")).count();
    if segments > 3 {
        return Err(format!("dead segments are dropped: {names:?}"));
    }
    fires_what_is_pending(&mut twins)?;
    Ok(crashes)
}

fn every_pair(losses: [Loss; 2]) {
    let stride = number("DULY_CRASH_STRIDE", 13);
    let mut pairs = 0;
    for first in number("DULY_CRASH_OP", 1).. {
        let mut any = false;
        // Another set of second crashes for each first one, so that a small sample meets most.
        let mut second = 1 + first % stride;
        loop {
            let crashes = crash_twice(first, second, losses).unwrap_or_else(|wrong| {
                panic!(
                    "at operation {first}, then {second}: {wrong}\nrepeat with: \
                     DULY_CRASH_OP={first} DULY_CRASH_STRIDE=1 cargo test -p duly-store-embedded \
                     --test it rolls"
                )
            });
            any |= crashes > 0;
            if crashes < 2 {
                break;
            }
            pairs += 1;
            second += stride;
        }
        if !any {
            break;
        }
    }
    assert!(pairs > 0 || stride > 50, "the script crashes twice");
}

#[test]
fn p1_p4_t10_segments_are_made_and_dropped_over_kill_9_and_then_a_power_loss() {
    every_pair([Loss::Process, Loss::Power]);
}

#[test]
fn p1_p4_t10_segments_are_made_and_dropped_over_two_power_losses() {
    every_pair([Loss::Power, Loss::Power]);
}

/// Once a sync has failed, the page cache shows what the disk does not have; a process that starts
/// after kill -9 reads it there, and must not take it for durable.
#[test]
fn p1_what_a_failed_sync_left_in_the_page_cache_survives_once_it_is_relied_upon() {
    for seed in 1..=number("DULY_CRASH_SEEDS", 40) {
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
            let rule = Rule { operation, name, answers: Answers::Broken, after, times: 1 };
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
