//! The contract of every disk, real or simulated: the tests of each disk run all of it on an empty one.

use std::sync::Arc;

use super::{Disk, Error, File, LOCK_NAME, Punched};

/// Runs the whole contract on an empty disk.
pub(super) fn check(disk: &dyn Disk) {
    check_bytes(disk);
    check_length(disk);
    check_holes(disk);
    check_hints(disk);
    check_names(disk);
    check_directories(disk);
    check_open_handles(disk);
    check_bad_names(disk);
    check_space(disk);
    check_lock(disk);
}

fn create(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(name).unwrap();
    file.write_at(0, bytes).unwrap();
    file
}

fn read(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

fn check_bytes(disk: &dyn Disk) {
    let file = disk.create("bytes").unwrap();
    assert!(file.is_empty().unwrap());
    assert_eq!(file.name(), "bytes");
    file.write_at(0, b"hello world").unwrap();
    file.write_at(6, b"there").unwrap();
    file.write_at(3, b"").unwrap();
    assert_eq!(read(&*file), b"hello there");
    file.write_at(13, b"!").unwrap();
    assert_eq!(read(&*file), b"hello there\0\0!", "a gap reads as zeros");
    file.sync_data().unwrap();
    file.sync_all().unwrap();

    let mut buf = [0xff; 8];
    assert_eq!(file.read_at(10, &mut buf).unwrap(), 4, "short at the end only");
    assert_eq!(&buf, b"e\0\0!\xff\xff\xff\xff");
    assert_eq!(file.read_at(14, &mut buf).unwrap(), 0);
    assert_eq!(file.read_at(1 << 40, &mut buf).unwrap(), 0);
    let error = file.read_exact_at(10, &mut buf).unwrap_err();
    assert!(
        matches!(error, Error::UnexpectedEnd { offset: 10, wanted_bytes: 8, read_bytes: 4, .. }),
        "{error:?}"
    );
    file.read_exact_at(14, &mut []).unwrap();

    // The system chooses how much is in memory; the bytes that it returns are right.
    let mut now = [0xff; 8];
    let count = file.read_now(6, &mut now).unwrap();
    assert_eq!(&now[..count], &b"there\0\0!"[..count]);
    assert_eq!(file.read_now(14, &mut now).unwrap(), 0);
    disk.remove("bytes").unwrap();
}

fn check_length(disk: &dyn Disk) {
    let file = create(disk, "length", &[7; 2000]);
    file.set_len(700).unwrap();
    assert_eq!(read(&*file), [7; 700]);
    file.set_len(1500).unwrap();
    assert_eq!(file.len().unwrap(), 1500);
    let bytes = read(&*file);
    assert_eq!(bytes[..700], [7; 700]);
    assert_eq!(bytes[700..], [0; 800], "what was cut does not come back");
    disk.remove("length").unwrap();
}

fn check_holes(disk: &dyn Disk) {
    const BLOCK: usize = 4096;
    let file = create(disk, "holes", &[7; 16 * BLOCK]);
    file.sync_all().unwrap();
    let full_bytes = file.allocated_bytes().unwrap();
    assert!(full_bytes >= 16 * BLOCK as u64, "{full_bytes}");
    assert_eq!(file.holes().unwrap(), []);
    let hole = 4 * BLOCK as u64..12 * BLOCK as u64;
    let punched = file.punch_hole(hole.start, hole.end - hole.start).unwrap();
    file.sync_all().unwrap();
    let bytes = read(&*file);
    assert_eq!(bytes.len(), 16 * BLOCK, "the length stays");
    assert_eq!(bytes[..4 * BLOCK], [7; 4 * BLOCK]);
    assert_eq!(bytes[12 * BLOCK..], [7; 4 * BLOCK]);
    // A file system without holes does nothing at all.
    let inside = bytes[4 * BLOCK];
    assert!([0, 7].contains(&inside), "{inside}");
    assert_eq!(bytes[4 * BLOCK..12 * BLOCK], [inside; 8 * BLOCK], "all of it or nothing");
    let left_bytes = file.allocated_bytes().unwrap();
    assert_eq!(left_bytes < full_bytes, inside == 0, "{left_bytes} of {full_bytes}");
    assert_eq!(punched == Punched::Done, inside == 0, "it says whether it did");
    let told = file.holes().unwrap();
    assert!(told.is_empty() || told == std::slice::from_ref(&hole), "{told:?}");

    file.write_at(6 * BLOCK as u64, b"again").unwrap();
    assert_eq!(read(&*file)[6 * BLOCK..][..5], *b"again");
    let before = read(&*file);
    file.punch_hole(0, 0).unwrap();
    file.punch_hole(16 * BLOCK as u64, BLOCK as u64).unwrap();
    assert!(read(&*file) == before, "nothing and what is behind the end change nothing");
    disk.remove("holes").unwrap();
}

fn check_hints(disk: &dyn Disk) {
    let file = create(disk, "hints", &[7; 10_000]);
    for (offset, len) in [(0, 10_000), (4096, 1), (0, 0), (1 << 20, 5), (0, 1 << 20)] {
        file.write_back(offset, len).unwrap();
        file.will_need(offset, len);
    }
    assert_eq!(read(&*file), [7; 10_000]);
    disk.remove("hints").unwrap();
}

fn check_names(disk: &dyn Disk) {
    assert_eq!(disk.list("").unwrap(), [""; 0]);
    drop(create(disk, "b", b"b"));
    drop(create(disk, "a", b"a"));
    assert_eq!(disk.list("").unwrap(), ["a", "b"]);
    let error = disk.create("a").unwrap_err();
    assert!(matches!(error, Error::AlreadyExists { .. }), "{error:?}");
    assert_eq!(read(&*disk.open("a").unwrap()), b"a", "a refused create changes nothing");

    disk.rename("a", "b").unwrap();
    assert_eq!(disk.list("").unwrap(), ["b"]);
    assert_eq!(read(&*disk.open("b").unwrap()), b"a", "a rename replaces");
    disk.rename("b", "b").unwrap();
    disk.sync_dir("").unwrap();
    disk.remove("b").unwrap();

    let missing = [
        disk.open("b").map(drop),
        disk.remove("b"),
        disk.rename("b", "c"),
        disk.create("nowhere/b").map(drop),
        disk.sync_dir("nowhere"),
    ];
    for answer in missing {
        let error = answer.unwrap_err();
        assert!(error.is_not_found(), "{error:?}");
    }
    assert_eq!(disk.list("").unwrap(), [""; 0]);
}

fn check_directories(disk: &dyn Disk) {
    assert_eq!(disk.list("journal").unwrap(), [""; 0], "a missing directory is empty");
    disk.make_dir("journal").unwrap();
    disk.make_dir("journal").unwrap();
    drop(create(disk, "journal/2", b"2"));
    drop(create(disk, "1", b"1"));
    disk.rename("1", "journal/1").unwrap();
    assert_eq!(disk.list("").unwrap(), ["journal"]);
    assert_eq!(disk.list("journal").unwrap(), ["1", "2"]);
    disk.sync_dir("journal").unwrap();
    assert!(disk.create("journal").is_err(), "a directory is in the way");
    assert!(disk.remove("journal").is_err(), "a directory is no file");
    assert!(disk.rename("journal/1", "journal").is_err());
    drop(create(disk, "file", b""));
    assert!(disk.make_dir("file").is_err(), "a file is in the way");
    for name in ["journal/1", "journal/2", "file"] {
        disk.remove(name).unwrap();
    }
    assert_eq!(disk.list("journal").unwrap(), [""; 0]);
}

fn check_open_handles(disk: &dyn Disk) {
    let old = create(disk, "x", b"old");
    let new = create(disk, "y", b"new");
    disk.rename("y", "x").unwrap();
    old.write_at(3, b"er").unwrap();
    new.write_at(3, b"er").unwrap();
    assert_eq!(read(&*old), b"older", "a replaced file lives on in its handle");
    assert_eq!(read(&*disk.open("x").unwrap()), b"newer", "a handle follows a rename");
    assert_eq!(new.name(), "y");
    disk.remove("x").unwrap();
    assert_eq!(read(&*new), b"newer", "a removed file lives on in its handle");
    new.sync_data().unwrap();
}

fn check_bad_names(disk: &dyn Disk) {
    for name in ["", ".", "..", "/etc/passwd", "../x", "a/../x", "a/b/c", "a/", "a//b", "x\0"] {
        let refused = [
            disk.create(name).map(drop),
            disk.open(name).map(drop),
            disk.remove(name),
            disk.rename(name, "fine"),
            disk.rename("fine", name),
        ];
        for answer in refused {
            let error = answer.unwrap_err();
            assert!(matches!(error, Error::InvalidName { .. }), "{name:?}: {error:?}");
        }
    }
    for dir in [".", "..", "/", "a/b", "../x"] {
        for answer in [disk.list(dir).map(drop), disk.make_dir(dir), disk.sync_dir(dir)] {
            let error = answer.unwrap_err();
            assert!(matches!(error, Error::InvalidName { .. }), "{dir:?}: {error:?}");
        }
    }
}

fn check_space(disk: &dyn Disk) {
    let space = disk.space().unwrap();
    assert!(space.free_bytes > 0);
    assert!(space.total_bytes >= space.free_bytes, "{space:?}");
    assert!(!disk.describe().is_empty());
}

fn check_lock(disk: &dyn Disk) {
    let lock = disk.lock().unwrap();
    let error = disk.lock().unwrap_err();
    let own_pid = std::process::id();
    match &error {
        Error::Locked { path, holder_pid } => {
            assert_eq!(*path, disk.describe());
            assert_eq!(*holder_pid, Some(own_pid));
        }
        _ => panic!("{error:?}"),
    }
    assert!(error.to_string().contains(&format!("in use by process {own_pid}")), "{error}");
    drop(lock);
    drop(disk.lock().unwrap());
    assert_eq!(disk.list("").unwrap(), [LOCK_NAME, "journal"]);
}
