//! The directories under attack: a data directory, a backup of it, and earlier copies of both.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use duly_store::conformance::ManualClock;
use duly_store_embedded::{
    EmbeddedStore,
    disk::{Disk, Operation, SimDisk},
};
use rustix::fs::statvfs;
use tempfile::TempDir;

use crate::{
    backup::{busy, worked_by},
    faulty::{FaultyDisk, Place, kind_of},
    harness::Shell,
    hung_disk::{add_entry, add_key},
    stage::open,
    steps::{apply, cancel, schedule},
};

/// The files of a directory.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// A directory of a store, and earlier copies of it, the latest first.
pub(super) struct Base {
    pub(super) what: &'static str,
    pub(super) files: Files,
    pub(super) earlier: Vec<Files>,
    pub(super) clock: ManualClock,
}

/// Name of the directory that a kill -9 has left.
pub(super) const KILLED: &str = "killed";
/// Suffix of files that are not complete.
const CUT_OFF: &str = ".tmp";

/// Makes a data directory with files of every kind, a backup of it, and a data directory that a kill -9 has left.
pub(super) fn bases() -> [Base; 3] {
    let (sim, clock) = (SimDisk::new(1), ManualClock::default());
    let disk = FaultyDisk::new(sim.clone());
    let backups = tempdir();
    let [mut data, mut saved] = [Vec::new(), Vec::new()];
    for round in 1..=3 {
        let store = match round {
            1 => worked_by(Shell::Threads, Arc::new(disk.clone()), &clock),
            _ => reopened(&disk, &clock),
        };
        work(&store, &clock, round);
        let target = backups.path().join(round.to_string());
        store.backup(&target, &mut |_| {}).expect("a backup");
        saved.insert(0, files_of_dir(&target));
        store.close();
        drop(store);
        data.insert(0, files_of_disk(&sim));
    }
    let store = reopened(&disk, &clock);
    work(&store, &clock, 4);
    let killed = files_of_disk(&sim.kill());
    drop(store);
    let base = |what, files, earlier| Base { what, files, earlier, clock: clock.clone() };
    let killed = base(KILLED, killed, data.clone());
    let last = saved.remove(0);
    let backup = base("backup", last, saved);
    let mut files = data.remove(0);
    add_passing(&mut files, &disk);
    [base("data", files, data), backup, killed]
}

/// Makes a temporary directory, in memory if there is room: a sync of a disk takes long, and containers have 64 MB.
pub(crate) fn tempdir() -> TempDir {
    const MEMORY: &str = "/dev/shm";
    let has_room = statvfs(MEMORY).is_ok_and(|space| space.f_bavail * space.f_frsize >= 1 << 30);
    let in_memory = if has_room { tempfile::tempdir_in(MEMORY).ok() } else { None };
    in_memory.unwrap_or_else(|| tempfile::tempdir().expect("a directory"))
}

fn reopened(disk: &FaultyDisk, clock: &ManualClock) -> EmbeddedStore {
    open(Shell::Threads, Arc::new(disk.clone()), clock, busy(2)).expect("it opens")
}

fn work(store: &EmbeddedStore, clock: &ManualClock, round: u8) {
    add_key(store, round).expect("taken");
    add_entry(store, clock, round).expect("taken");
    // The second round fills segments, the others change little.
    let count = if round == 2 { 40 } else { 2 };
    for number in 0..count {
        let id = format!("round-{round}-{number}");
        apply(store, "rich", vec![schedule(&id, 8_000_000, 6_000)]).expect("taken");
    }
    apply(store, "rich", vec![cancel(&format!("round-{round}-1"))]).expect("taken");
}

fn files_of_disk(disk: &SimDisk) -> Files {
    disk.names().into_iter().map(|name| (name.clone(), disk.read_file(&name))).collect()
}

pub(super) fn files_of_dir(path: &Path) -> Files {
    let mut files = Files::new();
    for dir in ["", "journal", "runs", "checkpoints"] {
        let Ok(entries) = fs::read_dir(path.join(dir)) else { continue };
        for entry in entries.map(|entry| entry.expect("listed")) {
            if entry.file_type().expect("a file").is_file() {
                let name = entry.file_name().into_string().expect("UTF-8");
                let name = if dir.is_empty() { name } else { format!("{dir}/{name}") };
                files.insert(name, fs::read(entry.path()).expect("read"));
            }
        }
    }
    files
}

/// Adds a file of each kind that the store made at some time and that is not there at rest: a crash may leave it.
fn add_passing(files: &mut Files, disk: &FaultyDisk) {
    let at_rest: Vec<String> = files.keys().map(|name| kind_of(name)).collect();
    let is_made = |place: &Place| matches!(place.operation, Operation::Create | Operation::Rename);
    let made = disk.take_seen().into_iter().filter(is_made).map(|place| place.kind);
    for kind in made.filter(|kind| !at_rest.contains(kind)) {
        let (dir, _) = kind.split_once('/').unwrap_or(("", &kind));
        let like = files.iter().rfind(|(name, _)| match dir {
            "" => **name == kind.trim_end_matches(CUT_OFF),
            dir => name.starts_with(dir) && !name.ends_with(CUT_OFF),
        });
        let mut bytes = like.map(|(_, bytes)| bytes.clone()).unwrap_or_default();
        if kind.ends_with(CUT_OFF) {
            bytes.truncate(bytes.len() / 2);
        }
        files.insert(kind.replace('N', "0000000000000099"), bytes);
    }
}

/// Puts the files on a simulated disk.
pub(super) fn disk_of(files: &Files) -> SimDisk {
    let disk = SimDisk::new(7);
    for dir in ["journal", "runs", "checkpoints"] {
        disk.make_dir(dir).expect("made");
    }
    for (name, bytes) in files {
        let file = disk.create(name).expect("made");
        file.write_at(0, bytes).and_then(|()| file.sync_all()).expect("written");
    }
    for dir in ["", "journal", "runs", "checkpoints"] {
        disk.sync_dir(dir).expect("synced");
    }
    disk
}

/// Puts the files into a directory.
pub(super) fn put_into(files: &Files, path: &Path) {
    for dir in ["journal", "runs", "checkpoints"] {
        fs::create_dir_all(path.join(dir)).expect("made");
    }
    for (name, bytes) in files {
        fs::write(path.join(name), bytes).expect("written");
    }
}
