//! Holes in sorted runs, which deallocate space before the whole run is dead. No live record is in a
//! hole, whenever the power fails, whichever checkpoint is read, and also if a backup shares the file.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use duly_store::{Operation, Store, conformance::ManualClock};
use duly_store_embedded::{
    EmbeddedStore,
    backup::restore,
    check::check,
    disk::{Disk, File, RealDisk, SimDisk},
};

use crate::{
    check::checked,
    checkpoint_crashes::every_operation,
    faulty::FaultyDisk,
    harness::Shell,
    snapshot::Snapshot,
    stage::open,
    steps::{Step, Tokens, apply, cancel, perform, schedule},
    twins::{Loss, Stepped, Twins, busy, copy, open_busy},
    workload::{LARGE_BYTES, ScriptStep, forgetful, settings},
};

const YEAR_MS: u64 = 31_536_000_000;
const HOUR_MS: u64 = 3_600_000;
/// Timers of a wave in the order of their due times: those at the front, then many small ones.
const FRONT: u64 = 5;
const SMALL: u64 = 60;

fn of(namespace: &'static str, operations: Vec<Operation>) -> ScriptStep {
    ScriptStep::Take(Step::Apply(namespace, operations))
}

/// Makes timers that come and go until everything older is in a sorted run, and some checkpoints later.
fn fillers(wave: &str, count: u64) -> Vec<ScriptStep> {
    let filler = |number| {
        let id = format!("filler {wave} {number}");
        of("brief", vec![schedule(&id, YEAR_MS, 3 * LARGE_BYTES), cancel(&id)])
    };
    (0..count).map(filler).collect()
}

fn front(wave: &str, number: u64) -> String {
    format!("{wave} front {number}")
}

fn small(wave: &str, number: u64) -> String {
    format!("{wave} small {number}")
}

/// Makes a sorted run whose front is dead, and most of the rest.
fn wave(name: &'static str) -> Vec<ScriptStep> {
    let large = (0..FRONT).map(|n| schedule(&front(name, n), YEAR_MS + n, LARGE_BYTES));
    let due_ms = |n: u64| YEAR_MS + HOUR_MS * (1 + n / 40);
    let few = (0..SMALL).map(|n| schedule(&small(name, n), due_ms(n), 200));
    let mut lines = vec![of("shop", large.collect()), of("shop", few.collect())];
    lines.extend(fillers(name, 10));
    lines.push(of("shop", (1..FRONT).map(|n| cancel(&front(name, n))).collect()));
    lines.extend(fillers(&format!("{name} more"), 5));
    let sparse = (0..SMALL).filter(|n| n % 16 != 3).map(|n| cancel(&small(name, n)));
    lines.push(of("shop", sparse.collect()));
    lines
}

fn script() -> Vec<ScriptStep> {
    let mut lines = vec![
        ScriptStep::Take(Step::Put("shop", Box::new(forgetful()))),
        ScriptStep::Take(Step::Put("brief", Box::new(forgetful()))),
    ];
    lines.extend(wave("one"));
    lines.extend(wave("two"));
    lines.extend(fillers("last", 8));
    lines
}

/// Returns the hole bytes of each sorted run that has holes.
fn holes(disk: &dyn Disk) -> Vec<(String, u64)> {
    let runs = disk.list("runs").expect("a healthy disk");
    let holed = runs.into_iter().filter_map(|run| {
        let file = disk.open(&format!("runs/{run}")).expect("it is there");
        let bytes = hole_bytes(file.as_ref());
        (bytes > 0).then_some((run, bytes))
    });
    holed.collect()
}

fn hole_bytes(file: &dyn File) -> u64 {
    let holes = file.holes().expect("a healthy disk");
    holes.iter().map(|hole| hole.end - hole.start).sum()
}

/// Returns the bytes that the files with records take.
pub(crate) fn data_bytes(disk: &SimDisk) -> u64 {
    let is_data = |name: &String| [".log", ".run"].iter().any(|suffix| name.ends_with(suffix));
    let names = disk.names().into_iter().filter(is_data);
    let bytes = names.map(|name| {
        let file = disk.open(&name).expect("it is there");
        file.len().expect("a healthy disk") - hole_bytes(file.as_ref())
    });
    bytes.sum()
}

/// Checks that the script exercises everything that it is for.
#[test]
fn the_script_punches_holes_and_rewrites_runs_that_have_some() {
    let mut twins = Twins::new(1);
    let (mut before, mut holed, mut rewritten) = (Vec::new(), BTreeSet::new(), 0);
    for line in script() {
        let step = twins.step_of(line);
        assert!(matches!(twins.step(&step), Stepped::Done(_)), "a healthy disk takes {step:?}");
        let disk = &twins.subject.disk;
        let now: Vec<String> = holes(disk).into_iter().map(|(run, _)| run).collect();
        let there = disk.list("runs").expect("a healthy disk");
        rewritten += before.iter().filter(|run| !there.contains(run)).count();
        holed.extend(now.iter().cloned());
        before = now;
        let said = twins.subject.store.health().disk_bytes;
        assert_eq!(said, data_bytes(disk), "holes count as gone, nothing else does");
    }
    assert!(holed.len() >= 2, "runs with holes: {holed:?}");
    assert!(rewritten >= 1, "no run with holes was rewritten: {holed:?}");
    let report = checked(&twins.subject.disk, &twins.clock);
    assert!(report.is_clean(), "{report}");
    // The rest of both waves.
    let pending = Snapshot::of(&twins.subject.store).pending("shop").len() as u64;
    assert_eq!(pending, 2 * (1 + SMALL / 16 + 1));
}

#[test]
fn p1_p4_a_power_loss_around_holes_loses_nothing() {
    every_operation("holes", script, Loss::Power, 7);
}

#[test]
fn p1_p4_kill_9_around_holes_loses_nothing() {
    every_operation("holes", script, Loss::Process, 7);
}

/// Makes a store in the middle of the script, with a hole.
fn punched() -> (SimDisk, ManualClock, Snapshot) {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = open_busy(&disk, &clock, 1).expect("it opens");
    let mut tokens = Tokens::new();
    for line in script() {
        let ScriptStep::Take(step) = line else {
            panic!("no time passes in the script");
        };
        perform(&store, &step, &mut tokens).expect("taken");
        if !holes(&disk).is_empty() {
            break;
        }
    }
    let shown = Snapshot::of(&store);
    drop(store);
    assert!(!holes(&disk).is_empty(), "the script comes by a hole");
    (disk, clock, shown)
}

/// Each of the two checkpoints leads to everything.
#[test]
fn p1_no_hole_is_where_the_older_checkpoint_leads_to() {
    let (mut twins, mut tried) = (Twins::new(1), 0);
    let mut last = Vec::new();
    for line in script() {
        let step = twins.step_of(line);
        assert!(matches!(twins.step(&step), Stepped::Done(_)), "a healthy disk takes {step:?}");
        let now = holes(&twins.subject.disk);
        if now == last {
            continue;
        }
        last = now;
        tried += 1;
        let left = copy(&twins.subject.disk, 2);
        let newest = left.names().into_iter().rfind(|name| name.ends_with(".ckp"));
        left.corrupt(&newest.expect("there are two"), 150, 2);
        let shown = Snapshot::of(&twins.subject.store);
        let store = open_busy(&left, &twins.clock, 9).expect("the older one is whole");
        assert!(Snapshot::of(&store) == shown, "after {step:.200?}: something is lost");
    }
    assert!(tried >= 3, "{tried} times the holes changed");
}

#[test]
fn holes_are_known_again_after_an_opening_and_not_punched_twice() {
    let (disk, clock, shown) = punched();
    let before = holes(&disk);
    let store = open_busy(&disk, &clock, 5).expect("it opens");
    assert_eq!(store.health().disk_bytes, data_bytes(&disk));
    assert!(Snapshot::of(&store) == shown);
    drop(store);
    let after = holes(&disk);
    assert!(before.iter().all(|hole| after.contains(hole)), "{before:?}, then {after:?}");
}

/// A check distinguishes a hole from damage by the records that should be there.
#[test]
fn a_check_finds_zeros_where_a_timer_should_stand() {
    let (disk, clock, _) = punched();
    assert!(checked(&disk, &clock).is_clean());
    let (run, _) = holes(&disk).remove(0);
    let name = format!("runs/{run}");
    let first = disk.open(&name).expect("it is there").holes().expect("healthy").remove(0);
    // The first timer of the run is before the hole and lives.
    assert!(first.start >= 4096);
    disk.zero(&name, 64..4096);
    let report = checked(&disk, &clock);
    assert!(!report.is_clean(), "{report}");
    let is_it = |found: &duly_store_embedded::check::Finding| found.file == name;
    assert!(report.findings.iter().any(is_it), "{report}");
}

#[test]
fn without_hole_support_whole_files_are_freed() {
    let (disk, clock) = (FaultyDisk::without_holes(SimDisk::new(1)), ManualClock::default());
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    let store = open(Shell::Inline, on, &clock, busy(1)).expect("it opens");
    let mut tokens = Tokens::new();
    for line in script() {
        if let ScriptStep::Take(step) = line {
            perform(&store, &step, &mut tokens).expect("taken");
        }
    }
    assert_eq!(holes(&disk.sim), []);
    assert_eq!(store.health().disk_bytes, data_bytes(&disk.sim));
    assert!(checked(&disk.sim, &clock).is_clean());
}

fn on_files(path: &Path, clock: &ManualClock, seed: u64) -> EmbeddedStore {
    let disk = Arc::new(RealDisk::open_or_create(path).expect("a directory"));
    open(Shell::Inline, disk, clock, busy(seed)).unwrap_or_else(|error| panic!("opens: {error}"))
}

fn take(store: &EmbeddedStore, lines: Vec<ScriptStep>) {
    for line in lines {
        if let ScriptStep::Take(step) = line {
            perform(store, &step, &mut Tokens::new()).expect("taken");
        }
    }
}

#[test]
fn a_shared_sorted_run_gets_holes_only_after_its_backup_is_gone() {
    let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
    let (data, target) = (dir.path().join("data"), dir.path().join("backup"));
    let store = on_files(&data, &clock, 1);
    let mut lines = vec![
        ScriptStep::Take(Step::Put("shop", Box::new(settings()))),
        ScriptStep::Take(Step::Put("brief", Box::new(forgetful()))),
    ];
    let large = (0..FRONT).map(|n| schedule(&front("a", n), YEAR_MS + n, 3 * LARGE_BYTES));
    lines.push(of("shop", large.collect()));
    lines.extend(fillers("a", 16));
    take(&store, lines);
    let report = store.backup(&target, &mut |_| {}).expect("a backup");
    assert!(report.copied_bytes < report.bytes, "files are shared: {report:?}");
    let then = Snapshot::of(&store);

    let gone = (1..FRONT).map(|n| cancel(&front("a", n))).collect();
    apply(&store, "shop", gone).expect("taken");
    take(&store, fillers("b", 16));
    let looker = RealDisk::open_existing(&data).expect("a directory");
    assert_eq!(holes(&looker), [], "the backup shares them");
    let checked = check(&target, &mut |_| {}).expect("a backup is a store");
    assert!(checked.is_clean(), "{checked}");
    let copy = dir.path().join("copy");
    restore(&target, &copy, &mut |_| {}).expect("restored");
    let restored = on_files(&copy, &clock, 2);
    assert_eq!(Snapshot::of(&restored).pending("shop"), then.pending("shop"));
    drop(restored);

    std::fs::remove_dir_all(&target).expect("removed");
    take(&store, fillers("c", 16));
    if !has_holes(dir.path()) {
        return;
    }
    assert_ne!(holes(&looker), [], "nobody shares them any more");
    // Holes are made in a copy, and all timers are still there.
    store.backup(&target, &mut |_| {}).expect("a backup");
    let again = dir.path().join("again");
    restore(&target, &again, &mut |_| {}).expect("restored");
    let restored = on_files(&again, &clock, 3);
    assert_eq!(Snapshot::of(&restored).pending("shop"), [front("a", 0)]);
}

/// Returns `true` if the file system of the tests supports holes.
fn has_holes(path: &Path) -> bool {
    let disk = RealDisk::open_or_create(path.join("probe")).expect("a directory");
    let file = disk.create("probe").expect("made");
    file.write_at(0, &[7; 16_384]).expect("written");
    file.sync_all().expect("synced");
    file.punch_hole(4096, 8192).expect("answered");
    hole_bytes(file.as_ref()) > 0
}
