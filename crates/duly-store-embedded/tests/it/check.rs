//! The offline check: it finds damage that is planted anywhere in a store, and finds none in a healthy
//! store, however the store ended.

mod layout;

use std::{collections::BTreeSet, sync::Arc};

use duly_core::{env::Clock, schedule::IfExists};
use duly_store::conformance::ManualClock;
use duly_store_embedded::{
    Tail,
    check::{Finding, Report, check_disk},
    disk::{Disk, Fault, Operation, SimDisk},
};

use crate::{
    backup::worked,
    faulty::{FaultKind, FaultyDisk, Rule},
    seeds::{Repeat, number},
    snapshot::Snapshot,
    steps::{
        Step, Tokens, apply, cancel, claim, dead_letter_verdict, payload, perform, purge,
        put_timer, schedule, settle,
    },
    twins::copy,
    workload::settings,
};
use layout::Size;

/// Returns the report of a check, which must not change the store.
pub(crate) fn checked(disk: &SimDisk, clock: &ManualClock) -> Report {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let before = disk.ops();
    let report = check_disk(Arc::new(disk.clone()), clock, &mut |_| {}).expect("it is checked");
    assert_eq!(disk.ops(), before, "a check changes nothing");
    report
}

/// Makes a store at rest with segments, sorted runs and checkpoints.
fn store() -> (SimDisk, ManualClock) {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = worked(Arc::new(disk.clone()), &clock);
    store.close();
    drop(store);
    let names = disk.names();
    for suffix in [".log", ".run", ".ckp"] {
        assert!(names.iter().any(|name| name.ends_with(suffix)), "no {suffix}: {names:?}");
    }
    (disk, clock)
}

/// Makes a store at rest whose files hold everything that they can.
fn varied() -> (SimDisk, ManualClock) {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = worked(Arc::new(disk.clone()), &clock);
    for body in ["first", "second"] {
        let twice = put_timer("twice", 0, payload(body, 10), IfExists::Replace);
        apply(&store, "rich", vec![twice]).expect("taken");
        for firing in claim(&store, "rich", 1).expect("claimed") {
            settle(&store, "rich", &firing.token, dead_letter_verdict()).expect("settled");
        }
    }
    // Two dead letters of one timer, and a lease, are in both checkpoints.
    for round in 0..24 {
        let id = format!("more {round}");
        let filler = vec![schedule(&id, 9_000, 6_000), cancel(&id)];
        apply(&store, "busy", filler).expect("taken");
    }
    apply(&store, "rich", vec![purge("rich-3")]).expect("taken");
    let mut few = settings();
    few.limits.max_retained = 1;
    perform(&store, &Step::Put("rich", Box::new(few)), &mut Tokens::new()).expect("taken");
    apply(&store, "rich", vec![schedule("leased again", 0, 10)]).expect("taken");
    assert_eq!(claim(&store, "rich", 9).expect("claimed").len(), 1);
    drop(store);
    (disk, clock)
}

fn names(disk: &SimDisk, suffix: &str) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.ends_with(suffix)).collect()
}

#[test]
fn a_whole_store_is_clean_and_its_numbers_add_up() {
    let (disk, clock) = store();
    let report = checked(&disk, &clock);
    assert!(
        report.is_clean() && report.tail != Tail::Unknown && report.left_overs.is_empty(),
        "{report}"
    );
    assert!(report.checkpoint.is_some());
    let held: u64 =
        report.namespaces.iter().map(|held| held.pending + held.tombstones + held.dead).sum();
    let live: u64 = report.files.iter().map(|files| files.live).sum();
    assert_eq!(live, held, "every entry has met its record: {report}");
    let counts = report.records;
    let counted = counts.pending + counts.dead + counts.ended + counts.leases + counts.other;
    let data = report.files.iter().filter(|files| files.kind != "checkpoints");
    assert_eq!(counted, data.map(|files| files.records).sum::<u64>(), "{report}");
    let count = |suffix| names(&disk, suffix).len() as u64;
    assert_eq!(report.files_of("checkpoints").count, count(".ckp"));
    assert_eq!(report.files_of("segments").count, count(".log"));
    let text = report.to_string();
    for what in ["runs of pending timers", "runs of tombstones", "runs of dead letters", "rich"] {
        assert!(text.contains(what), "{what}: {text}");
    }
}

/// If the process reaches its limit of open files at any file, the check ends with that error, and
/// says nothing about the store.
#[test]
fn too_many_open_files_are_not_damage() {
    let (sim, clock) = store();
    let mut errors = 0;
    for after in 0.. {
        let disk = FaultyDisk::new(sim.clone());
        let (operation, fault_kind) = (Operation::Open, FaultKind::TooManyFiles);
        disk.fail(Rule { operation, name: "", fault_kind, after, times: 1 });
        let by: Arc<dyn Clock> = Arc::new(clock.clone());
        match check_disk(Arc::new(disk.clone()), by, &mut |_| {}) {
            Ok(report) => assert!(report.is_clean(), "{report}"),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("cannot open") && text.contains("ulimit -n"), "{text}");
                errors += 1;
            }
        }
        if disk.times_left() > 0 {
            break;
        }
    }
    assert!(errors > names(&sim, ".log").len(), "{errors}");
}

#[test]
fn every_meaningful_changed_byte_is_found() {
    let (disk, clock) = varied();
    let whole = checked(&disk, &clock);
    let stride = number("DULY_CRASH_STRIDE", 8);
    let _repeat = Repeat::new("check", &[("DULY_CRASH_STRIDE", stride)]);
    let stride = usize::try_from(stride).expect("small");
    let mut met = BTreeSet::new();
    for name in disk.names().into_iter().filter(|name| layout::is_known(name)) {
        let bytes = disk.read_file(&name);
        for part in layout::parts_of(&name, &bytes) {
            let is_new = met.insert(part.what);
            // All bytes of the first header and footer of each kind, every third byte of the first
            // record and block of each (a payload is long), and a few of the others.
            let first = part.range.start..part.range.start + 160;
            for at in part.range {
                let every = match part.size {
                    Size::Frame if is_new => 1,
                    Size::Frame => stride,
                    Size::Content if is_new && first.contains(&at) => stride.div_ceil(3),
                    Size::Content => 200 * (stride - 1) + 1,
                };
                if at % every != 0 {
                    continue;
                }
                let what = format!("byte {at} of {name}, in {}", part.what);
                disk.corrupt(&name, at as u64, 1 << (at % 8));
                check_is_found(&checked(&disk, &clock), &whole, &name, &what);
                disk.corrupt(&name, at as u64, 1 << (at % 8));
            }
        }
    }
    assert!(checked(&disk, &clock).is_clean(), "all of it was put right again");
    let missing: Vec<_> = layout::ALL.iter().filter(|what| !met.contains(*what)).collect();
    assert!(missing.is_empty(), "the store has none of {missing:?}");
}

fn check_is_found(report: &Report, whole: &Report, name: &str, what: &str) {
    let is_found = report.findings.iter().any(|found| found.file == name);
    // A changed last frame looks like one that a crash cut off, or like old contents of a recycled
    // segment. Behind it the same holds. Zeros that fill up to the next item mean nothing.
    let is_last = report.tail == Tail::Unknown || report.frames + 1 == whole.frames;
    let is_nothing = report.is_clean() && (is_last || is_behind(report, whole));
    assert!(is_found || is_nothing, "{what}: {report}");
}

/// Returns `true` if a change touched nothing that is read: the same frames and records are there.
fn is_behind(report: &Report, whole: &Report) -> bool {
    (report.frames, report.records) == (whole.frames, whole.records)
}

#[test]
fn every_needed_missing_file_is_found() {
    let (disk, clock) = store();
    let mut missed = 0;
    for name in names(&disk, ".run").into_iter().chain(names(&disk, ".log")) {
        let without = copy(&disk, 1);
        without.remove(&name).expect("removed");
        let report = checked(&without, &clock);
        let is_there = |found: &Finding| found.file == name && found.what.contains("missing");
        let is_named = report.findings.iter().any(is_there);
        missed += u64::from(is_named);
        assert!(is_named || report.is_clean(), "{name}: {report}");
        if report.is_clean() {
            let opened = crate::twins::open_inline(&without, &clock, 9).expect("it opens");
            let whole = crate::twins::open_inline(&copy(&disk, 1), &clock, 9).expect("it opens");
            assert_eq!(Snapshot::of(&opened).timers, Snapshot::of(&whole).timers, "{name}");
        }
    }
    assert!(missed > 2, "{missed} files are missed");
}

#[test]
fn a_record_that_is_damaged_in_a_run_is_named_with_its_timer() {
    let (disk, clock) = store();
    let mut found = 0;
    for name in names(&disk, ".run") {
        // The first record follows the header; its body is changed.
        disk.corrupt(&name, 64 + 20, 0x01);
        let report = checked(&disk, &clock);
        let here = |finding: &&Finding| finding.file == name && finding.offset == 64;
        let finding = report.findings.iter().find(here);
        let finding = finding.unwrap_or_else(|| panic!("{name}: {report}"));
        found += u64::from(
            finding.what.contains("in namespace \"") && finding.what.contains("should be here"),
        );
        disk.corrupt(&name, 64 + 20, 0x01);
    }
    assert!(found > 0, "what is live is named");
}

#[test]
fn damaged_checkpoints_are_found_while_the_store_still_opens() {
    let (disk, clock) = store();
    let checkpoints = names(&disk, ".ckp");
    assert_eq!(checkpoints.len(), 2);
    for name in &checkpoints {
        disk.corrupt(name, 200, 0x01);
        let report = checked(&disk, &clock);
        let files: Vec<&str> = report.findings.iter().map(|found| found.file.as_str()).collect();
        assert_eq!(files, [name.as_str()], "{report}");
        assert!(report.checkpoint.is_some(), "the other one is used");
        disk.corrupt(name, 200, 0x01);
    }
    for name in &checkpoints {
        disk.corrupt(name, 200, 0x01);
    }
    let report = checked(&disk, &clock);
    assert!(!report.is_clean() && report.checkpoint.is_none(), "{report}");
}

#[test]
fn left_overs_are_listed_and_harmless() {
    let (disk, clock) = store();
    let run = names(&disk, ".run").pop().expect("a run");
    let bytes = disk.read_file(&run);
    for (name, bytes) in [
        ("runs/0000000000000099.tmp", &bytes[..100]),
        ("checkpoints/0000000000000099.tmp", &[]),
        ("notes.txt", b"mine"),
        ("MANIFEST.tmp", &[]),
    ] {
        disk.create(name).expect("made").write_at(0, bytes).expect("written");
    }
    let report = checked(&disk, &clock);
    assert!(report.is_clean(), "{report}");
    let left: Vec<&str> = report.left_overs.iter().map(|left| left.name.as_str()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

/// Disk operations until a new store is complete.
const OPS_OF_A_NEW_STORE: u64 = 20;

/// The state after a crash is not damage.
#[test]
fn the_state_after_a_crash_is_clean() {
    let healthy = SimDisk::new(1);
    drop(worked(Arc::new(healthy.clone()), &ManualClock::default()));
    let ops = healthy.ops() - OPS_OF_A_NEW_STORE;
    let first = number("DULY_CRASH_SEED", 1);
    for seed in first..first + number("DULY_CRASH_SEEDS", 12) {
        let one = [("DULY_CRASH_SEED", seed), ("DULY_CRASH_SEEDS", 1)];
        let _repeat = Repeat::new("check", &one);
        let (disk, clock) = (SimDisk::new(seed), ManualClock::default());
        disk.plan(Fault::CrashAtOp(OPS_OF_A_NEW_STORE + 1 + seed * 37 % ops));
        // Its steps panic when the disk is down.
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            drop(worked(Arc::new(disk.clone()), &clock));
        }));
        assert!(disk.is_down(), "seed {seed}: the crash comes while the store works");
        drop(ended);
        for left in [disk.crash(), disk.kill()] {
            let report = checked(&left, &clock);
            assert!(report.is_clean(), "seed {seed}: {report}");
        }
    }
}
