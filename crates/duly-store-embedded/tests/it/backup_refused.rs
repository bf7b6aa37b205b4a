//! Backups and restores that are refused: damage, links and FIFOs in a backup, a disk without space.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

use duly_store::conformance::ManualClock;
use duly_store_embedded::{
    EmbeddedStore, Options,
    backup::{BackupError, restore},
    disk::{RealDisk, SimDisk},
};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{
    backup::{busy, worked},
    harness::Shell,
    stage::open,
};

/// Makes a backup of a store with a little of everything.
fn backup_in(dir: &Path) -> PathBuf {
    let store = worked(Arc::new(SimDisk::new(1)), &ManualClock::default());
    let backup = dir.join("backup");
    store.backup(&backup, &mut |_| {}).expect("a backup");
    backup
}

/// Returns the files of a backup that hold records.
fn files(backup: &Path) -> Vec<PathBuf> {
    let dirs = ["journal", "runs", "checkpoints"].map(|dir| backup.join(dir));
    let listed = dirs.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten();
    listed.map(|entry| entry.expect("listed").path()).collect()
}

/// Restores into a new directory beside the backup. A refused restore leaves nothing there.
fn refused(backup: &Path) -> String {
    let data = backup.with_file_name("data");
    let error = restore(backup, &data, &mut |_| {}).expect_err("refused").to_string();
    assert!(!data.exists(), "it left something: {error}");
    error
}

#[test]
fn p1_a_damaged_backup_is_not_restored() {
    let dir = tempfile::tempdir().expect("a directory");
    let backup = backup_in(dir.path());
    let mut damaged = 0;
    for file in files(&backup) {
        let whole = fs::read(&file).expect("read");
        let end = whole.iter().rposition(|byte| *byte != 0).expect("something is in it");
        // In the first record, in the middle, and in the last frame.
        for at in [70, end / 2, end] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&file, &bytes).expect("written");
            let error = refused(&backup);
            let name = file.file_name().expect("a name").to_string_lossy();
            assert!(error.contains("is damaged and was not restored"), "{name} at {at}: {error}");
            damaged += 1;
        }
        fs::write(&file, &whole[..end / 2]).expect("written");
        let error = refused(&backup);
        assert!(error.contains("is damaged"), "cut: {}: {error}", file.display());
        fs::remove_file(&file).expect("removed");
        assert!(refused(&backup).contains("is damaged"), "missing: {}", file.display());
        fs::write(&file, &whole).expect("written");
    }
    assert!(damaged >= 9, "a segment, a run and a checkpoint at least");
    let data = dir.path().join("data");
    restore(&backup, &data, &mut |_| {}).expect("the whole one is restored");
}

/// Regression: a link was followed, and the open of a FIFO waited for ever.
#[test]
fn a_restore_reads_regular_files_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let backup = backup_in(dir.path());
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("made");
    let mut places = files(&backup);
    places.extend(["LOCK", "journal"].map(|name| backup.join(name)));
    for place in places {
        let moved = elsewhere.join(place.file_name().expect("a name"));
        let is_there = place.exists();
        if is_there {
            fs::rename(&place, &moved).expect("moved");
            symlink(&moved, &place).expect("linked");
            let error = refused(&backup);
            assert!(error.contains("it is a symbolic link"), "{}: {error}", place.display());
            fs::remove_file(&place).expect("removed");
        }
        mknodat(CWD, &place, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        let error = refused(&backup);
        assert!(error.contains("FIFOs"), "{}: {error}", place.display());
        fs::remove_file(&place).expect("removed");
        if is_there {
            fs::rename(&moved, &place).expect("moved");
        }
    }
    // There are two files of the manifest; one that is a link does not count.
    for name in ["MANIFEST", "MANIFEST.copy"] {
        let (place, moved) = (backup.join(name), elsewhere.join(name));
        fs::rename(&place, &moved).expect("moved");
        symlink(&moved, &place).expect("linked");
    }
    assert!(refused(&backup).contains("it is a symbolic link"));
}

#[test]
fn a_backup_leaves_the_reserve_of_its_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let clock = ManualClock::default();
    let opened = |min_free_bytes: u64| -> EmbeddedStore {
        let disk = RealDisk::open_or_create(dir.path().join("data")).expect("a directory");
        let options = Options { min_free_bytes: Some(min_free_bytes), ..busy(1) };
        open(Shell::Inline, Arc::new(disk), &clock, options).expect("it opens")
    };
    let target = dir.path().join("backup");
    let store = opened(1 << 60);
    let error = store.backup(&target, &mut |_| {}).expect_err("there is no room");
    assert!(matches!(error, BackupError::NoSpace { reserve_bytes: 0x1000_0000_0000_0000, .. }));
    assert!(error.to_string().contains("store.min_free_bytes"), "{error}");
    assert!(!target.exists());
    drop(store);
    opened(0).backup(&target, &mut |_| {}).expect("a backup");
}
