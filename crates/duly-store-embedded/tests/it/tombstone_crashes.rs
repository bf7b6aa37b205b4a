//! A power loss, or kill -9, at every disk operation while tombstones end: their sorted runs are
//! removed, sparse ones are merged, and checkpoints are taken in between.
//!
//! At every moment a repeated request is known for as long as its tombstone lasts (P6), and no timer
//! that has ended comes back (P4).

use std::collections::BTreeSet;

use duly_core::{Millis, State, env::Clock};
use duly_store::{Operation, Outcome, SettleVerdict, query::Body};
use duly_store_embedded::disk::SimDisk;

use crate::{
    check::checked,
    checkpoint_crashes::{Course, every_operation_of},
    snapshot::Snapshot,
    steps::{Step, apply, cancel, get, schedule},
    twins::{Loss, Stepped, Twins},
    workload::{LARGE_BYTES, RETENTION, ScriptStep, forgetful, settings},
};

const YEAR_MS: u64 = 31_536_000_000;
/// Timers of a wave that are acknowledged, and those that are cancelled.
const ACKED: u64 = 6;
const CANCELLED: u64 = 3;
/// Number of waves: together they last longer than an hour, by which runs of tombstones are sorted.
const WAVES: u64 = 9;
/// Time between two waves: less than half of a tombstone's lifetime.
const PAUSE_MS: u64 = 285_000;
const _: () = assert!(2 * PAUSE_MS < RETENTION.ms());

fn shop(operations: Vec<Operation>) -> ScriptStep {
    ScriptStep::Take(Step::Apply("shop", operations))
}

/// Returns the request that made a timer that has ended since.
fn request(id: &str) -> Operation {
    let is_acked = id.starts_with("acked");
    schedule(id, if is_acked { 0 } else { YEAR_MS }, 100)
}

/// Makes timers that end at once, and one that stays.
fn wave(number: u64) -> Vec<ScriptStep> {
    let acked: Vec<String> = (0..ACKED).map(|i| format!("acked {number} {i}")).collect();
    let cancelled: Vec<String> =
        (0..CANCELLED).map(|i| format!("cancelled {number} {i}")).collect();
    let mut lines = vec![
        shop(acked.iter().chain(&cancelled).map(|id| request(id)).collect()),
        shop(vec![schedule(&format!("stays {number}"), YEAR_MS + number, 50)]),
        ScriptStep::Take(Step::Claim("shop", 10)),
    ];
    let ack = |id: String| ScriptStep::Take(Step::Settle("shop", id, SettleVerdict::Ack));
    lines.extend(acked.into_iter().map(ack));
    lines.push(shop(cancelled.iter().map(|id| cancel(id)).collect()));
    lines
}

/// Makes timers that grow the journal and leave nothing, so that older records go into sorted runs.
fn fillers(wave: u64, count: u64) -> Vec<ScriptStep> {
    let filler = |number| {
        let id = format!("filler {wave} {number}");
        let operations = vec![schedule(&id, YEAR_MS, 3 * LARGE_BYTES), cancel(&id)];
        ScriptStep::Take(Step::Apply("brief", operations))
    };
    (0..count).map(filler).collect()
}

fn script() -> Vec<ScriptStep> {
    let mut lines = vec![
        ScriptStep::Take(Step::Put("shop", Box::new(settings()))),
        ScriptStep::Take(Step::Put("brief", Box::new(forgetful()))),
    ];
    for number in 0..WAVES {
        lines.extend(wave(number));
        lines.extend(fillers(number, 5));
        lines.push(ScriptStep::Advance(PAUSE_MS));
        lines.extend(fillers(WAVES + number, 2));
    }
    lines.push(ScriptStep::Advance(2 * RETENTION.ms()));
    lines.extend(fillers(2 * WAVES, 5));
    lines
}

/// Returns the sorted runs that hold tombstones, by their headers.
fn runs_of_tombstones(disk: &SimDisk) -> BTreeSet<String> {
    let runs = disk.names().into_iter().filter(|name| name.ends_with(".run"));
    runs.filter(|run| disk.read_file(run)[40] == 2).collect()
}

/// Checks that the script exercises everything that it is for.
#[test]
fn the_script_makes_runs_of_tombstones_and_outlives_them() {
    let mut twins = Twins::new(1);
    let (mut seen, mut hours, mut before) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (mut gone, mut most) = (0, 0);
    for line in script() {
        let step = twins.step_of(line);
        assert!(matches!(twins.step(&step), Stepped::Done(_)), "a healthy disk takes {step:?}");
        let now = runs_of_tombstones(&twins.subject.disk);
        gone += before.difference(&now).count();
        most = most.max(now.len());
        seen.extend(now.iter().cloned());
        before = now;
        hours.insert(twins.clock.wall().as_secs() / 3_600);
    }
    assert!(seen.len() >= 6 && most >= 2 && gone >= 5, "{seen:?}, {most} at once, {gone} went");
    assert!(hours.len() >= 2, "an hour ends meanwhile: {hours:?}");
    assert!(before.is_empty(), "all have ended: {before:?}");
    let left = Snapshot::of(&twins.subject.store);
    assert_eq!(left.timers.len() as u64, WAVES, "only what stays");
    assert!(checked(&twins.subject.disk, &twins.clock).is_clean());
}

/// Checks that each timer that the script has ended is known for as long as its tombstone lasts, and no
/// longer.
fn is_known_for_as_long_as_it_lasts(twins: &Twins) -> Result<(), String> {
    let (store, now) = (&twins.subject.store, twins.clock.now());
    for (key, view) in Snapshot::of(store).timers {
        let Body::Tombstone(tombstone) = &view.body else {
            continue;
        };
        if tombstone.ended_at.saturating_add(RETENTION) <= now {
            return Err(format!("{key:?} is shown after its end"));
        }
        let id = tombstone.id.as_str();
        let again = match view.state {
            State::Finished => request(id),
            _ => cancel(id),
        };
        let outcome = apply(store, "shop", vec![again]).map_err(|error| error.to_string())?;
        let is_known = match &outcome[0] {
            Outcome::Existing(existing) => existing.state == State::Finished,
            Outcome::Cancelled { already, .. } => *already,
            _ => false,
        };
        if !is_known {
            return Err(format!("{id}, asked for again, is answered {:?}", outcome[0]));
        }
    }
    Ok(())
}

fn crash_everywhere(loss: Loss) {
    let course = Course { script, then: is_known_for_as_long_as_it_lasts };
    every_operation_of("tombstone_crashes", course, loss, 17);
}

#[test]
fn p4_p6_tombstones_survive_a_power_loss_until_their_end() {
    crash_everywhere(Loss::Power);
}

#[test]
fn p4_p6_tombstones_survive_kill_9_until_their_end() {
    crash_everywhere(Loss::Process);
}

/// A tombstone's end needs no record: a restart does not change it.
#[test]
fn p6_a_request_is_new_after_the_end_of_its_tombstone() {
    let mut twins = Twins::new(1);
    let until = 2 + wave(0).len() + fillers(0, 5 + 2).len() + 1 + wave(1).len();
    for line in script().into_iter().take(until) {
        let step = twins.step_of(line);
        assert!(matches!(twins.step(&step), Stepped::Done(_)), "a healthy disk takes {step:?}");
    }
    // The first of the two waves ends sooner.
    let first_lasts_ms = RETENTION.ms() - PAUSE_MS;
    for (advance_ms, last) in
        [(first_lasts_ms - 1, [true, true]), (1, [false, true]), (PAUSE_MS, [false, false])]
    {
        twins.clock.advance(Millis::from_ms(advance_ms));
        twins.restart(Loss::Power, None, |left, _| left).expect("nothing is lost");
        for (number, is_there) in last.into_iter().enumerate() {
            for what in ["acked", "cancelled"] {
                let id = format!("{what} {number} 0");
                assert_eq!(get(&twins.subject.store, "shop", &id).is_some(), is_there, "{id}");
            }
        }
    }
    for id in ["acked 0 0", "cancelled 1 0"] {
        let outcome = apply(&twins.subject.store, "shop", vec![request(id)]).expect("taken");
        assert!(matches!(outcome[0], Outcome::Created(_)), "{id}: {:?}", outcome[0]);
    }
}
