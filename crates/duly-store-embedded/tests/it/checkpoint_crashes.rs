//! A power loss, or kill -9, at every disk operation of checkpoints, rewrites, merges and removals.
//!
//! In old files the script keeps a little of everything that a checkpoint must restore: timers near and
//! a year ahead, retries, leases, dead letters (two of one id), tombstones. Around them timers come and
//! go, so that files become empty, are recycled, and sorted runs become sparse.

use std::{collections::BTreeSet, sync::Arc};

use duly_store::{Operation, SettleVerdict, conformance::ManualClock};
use duly_store_embedded::{
    EmbeddedStore, Options,
    disk::{Disk, Fault, SimDisk},
};

use crate::{
    check::checked,
    crash_points::fires_what_is_pending,
    seeds::{Repeat, number},
    steps::{
        Step, apply, cancel, dead_letter_verdict, fire, payload, perform, purge, put_timer,
        redrive, repay, reschedule, retry_in, schedule,
    },
    twins::{Loss, Stepped, Twins, small},
    workload::{LARGE_BYTES, ScriptStep, forgetful, settings},
};

const YEAR_MS: u64 = 31_536_000_000;
/// One of this many crash points continues for a while, over further checkpoints.
const GOES_ON: u64 = 4;
/// Lines of that continuation.
const LINES_AFTER: usize = 12;

fn shop(operations: Vec<Operation>) -> ScriptStep {
    ScriptStep::Take(Step::Apply("shop", operations))
}

fn claim(most: usize) -> ScriptStep {
    ScriptStep::Take(Step::Claim("shop", most))
}

fn settle(id: &str, verdict: SettleVerdict) -> ScriptStep {
    ScriptStep::Take(Step::Settle("shop", id.to_owned(), verdict))
}

/// The timers that stay, all in the first segments.
fn what_stays() -> Vec<ScriptStep> {
    let now = ["leased", "retried", "dead", "twice", "acked", "extended"];
    let mut lines = vec![
        ScriptStep::Take(Step::Put("shop", Box::new(settings()))),
        ScriptStep::Take(Step::Put("brief", Box::new(forgetful()))),
        ScriptStep::Take(Step::Put("gone", Box::new(settings()))),
        shop(now.iter().map(|id| schedule(id, 0, 200)).collect()),
        shop(vec![
            schedule("near", 900_000, 300),
            schedule("year", YEAR_MS, 300),
            schedule("put off", YEAR_MS, 20),
            schedule("cancelled", YEAR_MS, LARGE_BYTES),
        ]),
        ScriptStep::Take(Step::Apply(
            "gone",
            vec![schedule("x", 0, LARGE_BYTES), schedule("y", 9, 9)],
        )),
        ScriptStep::Take(Step::Claim("gone", 1)),
        claim(10),
        settle("retried", retry_in(3_600_000)),
        settle("dead", dead_letter_verdict()),
        settle("twice", dead_letter_verdict()),
        settle("acked", SettleVerdict::Ack),
        settle("extended", SettleVerdict::Extend { lease: duly_core::Millis::from_secs(3_000) }),
        shop(vec![cancel("cancelled"), schedule("twice", 0, 100)]),
        claim(10),
        settle("twice", dead_letter_verdict()),
    ];
    lines.push(ScriptStep::Take(Step::Settle("gone", "x".to_owned(), dead_letter_verdict())));
    lines
}

/// Fills a segment with timers, some of which stay for a round.
fn round(number: u64) -> Vec<ScriptStep> {
    let id = |i: u64| format!("r{number} {i}");
    let made = (0..7).map(|i| {
        let after_ms = [YEAR_MS, 800_000, 0][(i % 3) as usize] + number;
        schedule(&id(i), after_ms, LARGE_BYTES + 100 * i as usize)
    });
    let mut lines = vec![shop(made.collect()), claim(2), settle(&id(2), SettleVerdict::Ack)];
    lines.push(settle(
        &id(5),
        if number.is_multiple_of(2) { dead_letter_verdict() } else { retry_in(700_000) },
    ));
    // Nearly all of the round before ends. Those timers are in sorted runs by then, which become sparse.
    if let Some(before) = number.checked_sub(1) {
        let old = |i: u64| format!("r{before} {i}");
        lines.push(shop(vec![cancel(&old(0)), cancel(&old(1)), cancel(&old(3)), cancel(&old(4))]));
        lines.push(shop(vec![reschedule(&old(6), 850_000), purge(&old(5)), cancel(&old(5))]));
    }
    lines
}

pub(crate) fn script() -> Vec<ScriptStep> {
    let mut lines = what_stays();
    for number in 0..6 {
        lines.extend(round(number));
        if number == 2 {
            lines.push(ScriptStep::Take(Step::Delete("gone")));
            lines.push(shop(vec![redrive("twice", 40_000), fire("put off"), cancel("put off")]));
        }
    }
    let replacement = put_timer("near", 990_000, payload("other", 50), Default::default());
    lines.push(ScriptStep::Advance(45_000));
    lines.push(shop(vec![repay("year", payload("paid", 90)), replacement, purge("twice")]));
    // The tombstones end here, and what they kept is removed.
    lines.push(ScriptStep::Advance(700_000));
    for number in 6..9 {
        lines.extend(round(number));
    }
    lines
}

/// Checks that the script exercises everything that it is for.
#[test]
fn the_script_exercises_all_background_work() {
    let mut twins = Twins::new(1);
    let (mut seen, mut gone, mut spares, mut several) = (BTreeSet::new(), 0, 0, 0);

    for line in script() {
        let step = twins.step_of(line);
        let before: BTreeSet<String> = twins.subject.disk.names().into_iter().collect();
        assert!(matches!(twins.step(&step), Stepped::Done(_)), "a healthy disk takes {step:?}");
        let after: BTreeSet<String> = twins.subject.disk.names().into_iter().collect();
        gone += before.difference(&after).filter(|name| name.starts_with("runs/")).count();
        spares += after.iter().filter(|name| name.ends_with(".old")).count();
        several = several.max(after.iter().filter(|name| name.starts_with("runs/")).count());
        seen.extend(after);
    }
    let count = |part: &str| seen.iter().filter(|name| name.contains(part)).count();
    assert!(count(".ckp") >= 6, "checkpoints: {seen:?}");
    assert!(count("runs/") >= 10 && several >= 3, "runs: {seen:?}");
    assert!(gone >= 5, "{gone} runs went");
    assert!(spares > 0, "segments are recycled");
    assert!(!twins.subject.disk.names().contains(&"journal/0000000000000001.log".to_owned()));
    // Removed segments are not damage.
    let report = checked(&twins.subject.disk, &twins.clock);
    assert!(report.is_clean() && report.frames > 0, "{report}");
}

/// The script of a crash test, and the check after each crash.
#[derive(Clone, Copy)]
pub(crate) struct Course {
    pub(crate) script: fn() -> Vec<ScriptStep>,
    /// Checks the remaining store, before all pending timers fire.
    pub(crate) then: fn(&Twins) -> Result<(), String>,
}

fn crash_at(course: Course, at_op: u64, seed: u64, loss: Loss) -> Result<bool, String> {
    let mut twins = Twins::new(seed);
    twins.subject.disk.plan(Fault::CrashAtOp(at_op));
    let mut left = usize::MAX;
    for line in (course.script)() {
        let step = twins.step_of(line);
        if left == 0 {
            break;
        }
        left -= usize::from(left < usize::MAX);
        while let Stepped::Failed(error) = twins.step(&step) {
            if left < usize::MAX {
                return Err(format!("it failed a second time, at {step:?}: {error}"));
            }
            left = if at_op.is_multiple_of(GOES_ON) { LINES_AFTER } else { 0 };
            twins
                .restart(loss, Some(&step), |left, _| left)
                .map_err(|wrong| format!("after {step:.300?}: {wrong}"))?;
        }
    }
    if left == usize::MAX {
        return Ok(false);
    }
    if at_op.is_multiple_of(2 * GOES_ON) {
        // The result is crashed once more.
        twins.restart(Loss::Power, None, |left, _| left)?;
    }
    let report = checked(&twins.subject.disk, &twins.clock);
    if !report.is_clean() {
        return Err(format!("a check finds damage: {report}"));
    }
    (course.then)(&twins)?;
    if at_op.is_multiple_of(3) {
        fires_what_is_pending(&mut twins)?;
    }
    Ok(true)
}

/// Crashes a script at one operation after the other. `DULY_CRASH_STRIDE` overrides the stride. `module`
/// is the module of the calling test.
pub(crate) fn every_operation(
    module: &'static str,
    script: fn() -> Vec<ScriptStep>,
    loss: Loss,
    stride: u64,
) {
    every_operation_of(module, Course { script, then: |_| Ok(()) }, loss, stride);
}

/// Does the same as [`every_operation`], with a check of its own after each crash.
pub(crate) fn every_operation_of(module: &'static str, course: Course, loss: Loss, stride: u64) {
    let seed = number("DULY_CRASH_SEED", 1);
    let stride = number("DULY_CRASH_STRIDE", stride);
    let (mut at_op, mut points) = (number("DULY_CRASH_OP", 1), 0);
    let crashed = |at_op| {
        let one = [("DULY_CRASH_SEED", seed), ("DULY_CRASH_OP", at_op)];
        let _repeat = Repeat::new(module, &one);
        crash_at(course, at_op, seed, loss)
            .unwrap_or_else(|wrong| panic!("{loss:?} at operation {at_op}: {wrong}"))
    };
    while crashed(at_op) {
        (at_op, points) = (at_op + stride, points + 1);
    }
    assert!(points > 0, "the script has operations");
}

#[test]
fn p1_p4_t28_a_power_loss_in_checkpoints_loses_nothing() {
    every_operation("checkpoint_crashes", script, Loss::Power, 3);
}

#[test]
fn p1_p4_t28_kill_9_in_checkpoints_loses_nothing() {
    every_operation("checkpoint_crashes", script, Loss::Process, 3);
}

/// Old segments are removed in any order, so a needed one may precede a gap.
#[test]
fn a_check_does_not_miss_removed_segments() {
    let (disk, clock) = (SimDisk::new(3), ManualClock::default());
    let options = Options { checkpoint_bytes: 16 << 10, ..small(3) };
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    let store = EmbeddedStore::open_inline(on, options, Arc::new(clock.clone())).expect("it opens");
    let mut tokens = Default::default();
    perform(&store, &Step::Put("brief", Box::new(forgetful())), &mut tokens).expect("it is taken");
    let kept = schedule("kept", 90_000_000, LARGE_BYTES);
    apply(&store, "brief", vec![kept]).expect("it is taken");
    for number in 0..80 {
        let id = format!("t{number}");
        let gone = vec![schedule(&id, 90_000_000, LARGE_BYTES), cancel(&id)];
        apply(&store, "brief", gone).expect("it is taken");
    }
    drop(store);
    let names = disk.names();
    let segment = |number: u64| names.contains(&format!("journal/{number:016}.log"));
    assert!(segment(1) && !segment(2), "there is a gap: {names:?}");
    let report = checked(&disk, &clock);
    assert!(report.is_clean(), "{report}");
}
