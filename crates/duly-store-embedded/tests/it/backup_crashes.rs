//! Backups and restores that are interrupted: power losses and kills at any moment cost the source
//! nothing. The rest at the target is not a store, and opening it says so.

use std::{path::Path, process::Command, sync::Arc};

use duly_store::conformance::ManualClock;
use duly_store_embedded::{
    backup::{BackupError, restore},
    check::check,
    disk::{Disk, Fault, RealDisk, SimDisk},
};

use crate::{
    backup::{at_rest, opened, restored, worked},
    check::checked,
    harness::Shell,
    seeds::{Repeat, number},
    stage::open,
    twins::{Loss, busy, copy, open_busy},
};

/// One of this many crash points makes another backup afterwards and restores it.
const GOES_ON: u64 = 4;

/// Makes a backup of a store whose disk crashes at one of its operations. Returns `true` if the crash
/// happened.
fn crash_at(left: &SimDisk, clock: &ManualClock, at_op: u64, loss: Loss) -> bool {
    let disk = copy(left, at_op);
    let store = open_busy(&disk, clock, 2).expect("it opens");
    let then = at_rest(&store);
    let dir = tempfile::tempdir().expect("a directory");
    let target = dir.path().join("backup");
    disk.plan(Fault::CrashAtOp(at_op));
    let backed_up = store.backup(&target, &mut |_| {});
    let crashed = disk.is_down();
    match backed_up {
        Ok(_) => {
            let report = check(&target, &mut |_| {}).expect("a backup is a store");
            assert!(report.is_clean(), "{report}");
        }
        Err(error) => {
            assert!(crashed, "only the crash is in its way: {error}");
            assert!(!target.exists(), "it takes away what it made: {error}");
        }
    }
    drop(store);
    let left = match loss {
        Loss::Power => disk.crash(),
        Loss::Process => disk.kill(),
    };
    let store = open_busy(&left, clock, 3).unwrap_or_else(|error| panic!("it opens: {error}"));
    assert_eq!(at_rest(&store), then, "nothing is lost");
    if at_op.is_multiple_of(GOES_ON) {
        let later = dir.path().join("later");
        store.backup(&later, &mut |_| {}).unwrap_or_else(|error| panic!("a backup: {error}"));
        let (_data, copy) = restored(&later, clock);
        assert!(at_rest(&copy).timers.keys().eq(then.timers.keys()), "all of it is in it");
    }
    drop(store);
    let names = left.names();
    assert!(!names.iter().any(|name| name.ends_with(".tmp")), "left-overs are gone: {names:?}");
    let report = checked(&left, clock);
    assert!(report.is_clean() && report.left_overs.is_empty(), "{report}");
    crashed
}

fn every_operation(loss: Loss) {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    drop(worked(Arc::new(disk.clone()), &clock));
    let left = copy(&disk, 1);
    let stride = number("DULY_CRASH_STRIDE", 2);
    let (mut at_op, mut points) = (number("DULY_CRASH_OP", 1), 0);
    loop {
        let _repeat = Repeat::new("backup_crashes", &[("DULY_CRASH_OP", at_op)]);
        if !crash_at(&left, &clock, at_op, loss) {
            break;
        }
        (at_op, points) = (at_op + stride, points + 1);
    }
    assert!(points > 0, "a backup has operations of the source's disk");
}

#[test]
fn p1_a_power_loss_during_a_backup_leaves_the_source_intact() {
    every_operation(Loss::Power);
}

#[test]
fn p1_kill_9_at_any_backup_operation_leaves_the_source_intact() {
    every_operation(Loss::Process);
}

/// Variables for the process that is to be killed: the directory that it works in, and the number of
/// steps.
const WITHIN: &str = "DULY_TEST_KILLED_WITHIN";
const AFTER: &str = "DULY_TEST_KILLED_AFTER";

/// Kills this process, as `kill -9` does, at one of the reported steps.
fn dying<T>() -> impl FnMut(T) {
    let mut left = number(AFTER, 1);
    move |_| {
        left -= 1;
        if left == 0 {
            let own = rustix::process::getpid();
            rustix::process::kill_process(own, rustix::process::Signal::KILL).expect("killed");
            loop {
                std::thread::park();
            }
        }
    }
}

/// Runs a test again, in a process of its own that kills itself. Returns `true` if it was killed.
fn is_killed(test: &str, within: &Path, after: u64) -> bool {
    let program = std::env::current_exe().expect("the test knows where it is");
    let output = Command::new(program)
        .args(["--exact", &format!("backup_crashes::{test}"), "--test-threads=1"])
        .env(WITHIN, within)
        .env(AFTER, after.to_string())
        .output()
        .expect("it starts again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() || output.status.code().is_none(), "{after}: {said}");
    !output.status.success()
}

/// Checks that every use of the target fails because the manifest is missing or the target is in use.
fn is_refused_as_incomplete(target: &Path, clock: &ManualClock, what: &str) {
    let disk = Arc::new(RealDisk::open_or_create(target).expect("a directory"));
    let error = open(Shell::Inline, disk, clock, busy(4)).expect_err("it is no store");
    assert!(error.to_string().contains("the manifest is missing"), "{what}: {error}");
    let elsewhere = target.with_extension("elsewhere");
    let error = restore(target, &elsewhere, &mut |_| {}).expect_err("it is no backup");
    assert!(error.to_string().contains("the manifest is missing"), "{what}: {error}");
    assert!(!elsewhere.exists(), "{what}");
}

#[test]
fn p1_kill_9_within_a_backup_leaves_no_openable_target() {
    let clock = ManualClock::default();
    if let Some(within) = std::env::var_os(WITHIN) {
        let within = Path::new(&within);
        let store = opened(&within.join("data"), &clock, 2);
        store.backup(&within.join("backup"), &mut dying()).expect("a backup");
        return;
    }
    let mut kills = 0;
    for after in (1..).step_by(3) {
        let (dir, what) = (tempfile::tempdir().expect("a directory"), format!("step {after}"));
        let (data, target) = (dir.path().join("data"), dir.path().join("backup"));
        let source: Arc<dyn Disk> = Arc::new(RealDisk::open_or_create(&data).expect("a directory"));
        let clock = ManualClock::default();
        let store = worked(source, &clock);
        let then = at_rest(&store);
        drop(store);
        let test = "p1_kill_9_within_a_backup_leaves_no_openable_target";
        if !is_killed(test, dir.path(), after) {
            break;
        }
        kills += 1;
        is_refused_as_incomplete(&target, &clock, &what);
        let store = opened(&data, &clock, 3);
        let refused = store.backup(&target, &mut |_| {}).expect_err("something is there");
        assert!(matches!(refused, BackupError::NotEmpty(_)), "{what}: {refused}");
        assert!(at_rest(&store).timers.keys().eq(then.timers.keys()), "{what}: all is there");
        store.backup(&dir.path().join("later"), &mut |_| {}).expect("a later backup");
        let (_data, copy) = restored(&dir.path().join("later"), &clock);
        assert!(at_rest(&copy).timers.keys().eq(then.timers.keys()), "{what}: all is in it");
        drop(store);
        let report = check(&data, &mut |_| {}).expect("it can be checked");
        assert!(report.is_clean(), "{what}: {report}");
    }
    assert!(kills > 1, "{kills} were killed within it");
}

#[test]
fn p1_kill_9_within_a_restore_leaves_no_openable_target() {
    if let Some(within) = std::env::var_os(WITHIN) {
        let within = Path::new(&within);
        restore(&within.join("backup"), &within.join("new"), &mut dying()).expect("restored");
        return;
    }
    let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
    let (backup, target) = (dir.path().join("backup"), dir.path().join("new"));
    let source: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let store = worked(source, &clock);
    let then = at_rest(&store);
    store.backup(&backup, &mut |_| {}).expect("a backup");
    let mut kills = 0;
    for after in (1..).step_by(3) {
        let test = "p1_kill_9_within_a_restore_leaves_no_openable_target";
        if !is_killed(test, dir.path(), after) {
            break;
        }
        kills += 1;
        let what = format!("step {after}");
        is_refused_as_incomplete(&target, &clock, &what);
        let refused = restore(&backup, &target, &mut |_| {}).expect_err("something is there");
        assert!(matches!(refused, BackupError::NotEmpty(_)), "{what}: {refused}");
        std::fs::remove_dir_all(&target).expect("removed");
        let (_data, copy) = restored(&backup, &clock);
        assert!(at_rest(&copy).timers.keys().eq(then.timers.keys()), "{what}: all is there");
    }
    assert!(kills > 1, "{kills} were killed within it");
}
