use std::{
    os::unix::fs::PermissionsExt,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
};

use super::*;
use crate::disk::{BLOCK_BYTES, Punched, contract};

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn temp_dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn keeps_the_contract() {
    let dir = temp_dir();
    contract::check(&RealDisk::open_or_create(dir.path().join("data")).unwrap());
}

#[test]
fn makes_private_directories_and_files() {
    let dir = temp_dir();
    let root = dir.path().join("not/yet/there");
    let disk = RealDisk::open_or_create(&root).unwrap();
    disk.make_dir("journal").unwrap();
    disk.create("journal/1").unwrap();
    let _lock = disk.lock().unwrap();
    for (path, expected) in
        [("", 0o700), ("journal", 0o700), ("journal/1", 0o600), (LOCK_NAME, 0o600)]
    {
        assert_eq!(mode(&root.join(path)), expected, "{path:?}");
    }
    assert_eq!(disk.describe(), root.display().to_string());
}

#[test]
fn opens_what_is_there_and_keeps_it() {
    let dir = temp_dir();
    std::fs::write(dir.path().join("MANIFEST"), "kept").unwrap();
    let disk = RealDisk::open_or_create(dir.path()).unwrap();
    let mut bytes = [0; 4];
    disk.open("MANIFEST").unwrap().read_exact_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"kept");
}

#[test]
fn open_existing_makes_nothing() {
    let dir = temp_dir();
    let missing = dir.path().join("data");
    let error = RealDisk::open_existing(&missing).unwrap_err();
    assert!(error.is_not_found(), "{error:?}");
    assert!(error.to_string().contains(&missing.display().to_string()), "{error}");
    assert!(!missing.exists());

    let disk = RealDisk::open_existing(dir.path()).unwrap();
    assert_eq!(disk.list("").unwrap(), [""; 0]);
    drop(disk.lock().unwrap());
    disk.space().unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn open_existing_changes_nothing() {
    let dir = temp_dir();
    std::fs::write(dir.path().join("a"), "kept").unwrap();
    let disk = RealDisk::open_existing(dir.path()).unwrap();
    let file = disk.open("a").unwrap();
    assert_eq!(file.len().unwrap(), 4);
    let refused = [
        disk.create("b").map(drop),
        disk.rename("a", "b"),
        disk.remove("a"),
        disk.make_dir("d"),
        disk.sync_dir(""),
        file.write_at(0, b"lost"),
        file.set_len(0),
        file.sync_data(),
        file.punch_hole(0, 4).map(drop),
        file.write_back(0, 4),
    ];
    for answer in refused {
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("a")).unwrap(), "kept");
    assert_eq!(disk.list("").unwrap(), ["a"]);
}

#[test]
fn a_read_only_opening_sees_the_lock_of_a_server() {
    let dir = temp_dir();
    let server = RealDisk::open_or_create(dir.path()).unwrap();
    let looker = RealDisk::open_existing(dir.path()).unwrap();
    let lock = server.lock().unwrap();
    let error = looker.lock().unwrap_err();
    let own_pid = Some(std::process::id());
    assert!(matches!(error, Error::Locked { holder_pid, .. } if holder_pid == own_pid), "{error}");
    drop(lock);
    let looking = looker.lock().unwrap();
    assert!(matches!(server.lock().unwrap_err(), Error::Locked { .. }));
    drop(looking);
    drop(server.lock().unwrap());
}

/// Regression: a child process that was being started kept the lock for a moment.
#[test]
fn a_released_lock_is_free_while_other_threads_start_processes() {
    let dir = temp_dir();
    let disk = RealDisk::open_or_create(dir.path()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert!(Command::new("true").status().unwrap().success());
            }
        });
        let locked = (0..20_000).try_for_each(|_| disk.lock().map(drop));
        is_done.store(true, Ordering::Relaxed);
        locked.unwrap();
    });
}

/// A `flock` belongs to the file, and another file can get its name.
#[test]
fn p1_a_removed_lock_file_lets_no_second_server_in() {
    let dir = temp_dir();
    let server = RealDisk::open_or_create(dir.path()).unwrap();
    let lock = server.lock().unwrap();
    for is_emptied in [false, true] {
        std::fs::remove_file(dir.path().join(LOCK_NAME)).unwrap();
        if is_emptied {
            std::fs::write(dir.path().join(LOCK_NAME), "").unwrap();
        }
        for second in [RealDisk::open_or_create(dir.path()), RealDisk::open_existing(dir.path())] {
            let error = second.unwrap().lock().unwrap_err();
            assert!(matches!(error, Error::Locked { holder_pid: None, .. }), "{error}");
        }
        std::fs::write(dir.path().join(LOCK_NAME), "").unwrap();
    }
    drop(lock);
    drop(server.lock().unwrap());
}

/// Older builds lock only the lock file.
#[test]
fn an_older_build_keeps_this_one_out_and_the_other_way_round() {
    let dir = temp_dir();
    let disk = RealDisk::open_or_create(dir.path()).unwrap();
    drop(disk.lock().unwrap());
    let older = OpenOptions::new().write(true).open(dir.path().join(LOCK_NAME)).unwrap();
    let lock = |file| flock(file, FlockOperation::NonBlockingLockExclusive);
    lock(&older).unwrap();
    assert!(matches!(disk.lock().unwrap_err(), Error::Locked { .. }));
    flock(&older, FlockOperation::Unlock).unwrap();
    let held = disk.lock().unwrap();
    assert_eq!(lock(&older), Err(Errno::WOULDBLOCK));
    drop(held);
    lock(&older).unwrap();
}

#[test]
fn a_lock_file_without_a_process_id_still_locks() {
    let dir = temp_dir();
    let disk = RealDisk::open_or_create(dir.path()).unwrap();
    let _lock = disk.lock().unwrap();
    std::fs::write(dir.path().join(LOCK_NAME), "garbage").unwrap();
    let error = disk.lock().unwrap_err();
    assert!(matches!(error, Error::Locked { holder_pid: None, .. }), "{error:?}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
}

#[test]
fn a_file_is_no_data_directory() {
    let dir = temp_dir();
    let path = dir.path().join("file");
    std::fs::write(&path, "kept").unwrap();
    for answer in [RealDisk::open_or_create(&path), RealDisk::open_existing(&path)] {
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::NotADirectory { .. }), "{error:?}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
}

#[test]
fn answers_of_the_system_are_sorted_by_cause() {
    let disk = RealDisk::new(Path::new("/srv/duly"), Access::ReadWrite);
    let uid = rustix::process::geteuid().as_raw();
    let denied = format!(
        "data directory /srv/duly is not writable by uid {uid} (cannot lock /srv/duly/LOCK): \
         give the user that runs duly write access, or pass another --data"
    );
    let table: [(Operation, &str, rustix::io::Errno, &str); 7] = [
        (Operation::Lock, "LOCK", rustix::io::Errno::ACCESS, &denied),
        (Operation::Lock, "LOCK", rustix::io::Errno::PERM, &denied),
        (
            Operation::MakeDir,
            "",
            rustix::io::Errno::ROFS,
            "data directory /srv/duly is read-only (cannot make directory /srv/duly): \
             remount it for writing, or pass another --data",
        ),
        (
            Operation::Write,
            "journal/1",
            rustix::io::Errno::NOSPC,
            "cannot write to /srv/duly/journal/1: no space left; \
             free some, or move the data directory",
        ),
        (
            Operation::Write,
            "journal/1",
            rustix::io::Errno::DQUOT,
            "cannot write to /srv/duly/journal/1: no space left; \
             free some, or move the data directory",
        ),
        (
            Operation::Open,
            "MANIFEST",
            rustix::io::Errno::NOENT,
            "cannot open /srv/duly/MANIFEST: it does not exist",
        ),
        (
            Operation::Sync,
            "MANIFEST",
            rustix::io::Errno::IO,
            "cannot sync /srv/duly/MANIFEST: Input/output error (os error 5)",
        ),
    ];
    for (operation, name, errno, expected) in table {
        let error = disk.error(operation, name, errno.into());
        assert_eq!(error.to_string(), expected);
        let full = [rustix::io::Errno::NOSPC, rustix::io::Errno::DQUOT].contains(&errno);
        assert_eq!(error.is_no_space(), full, "{error:?}");
    }
}

/// Linux returns ENOSPC for every write to this device.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_apart() {
    let file = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let disk = RealDisk::new(Path::new("/dev"), Access::ReadWrite);
    let error = disk.file("full", file).write_at(0, b"x").unwrap_err();
    assert!(error.is_no_space(), "{error:?}");
}

/// The file systems of the tests support holes; if the kernel refuses one, that is not an error.
#[cfg(target_os = "linux")]
#[test]
fn a_hole_is_punched_where_the_file_system_can() {
    let dir = temp_dir();
    let disk = RealDisk::open_or_create(dir.path()).unwrap();
    let file = disk.create("a").unwrap();
    file.write_at(0, &[7; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    let full_bytes = file.allocated_bytes().unwrap();
    let error = file.punch_hole(u64::MAX, 1).unwrap_err();
    assert!(error.to_string().contains("cannot punch a hole into"), "{error}");
    let punched = file.punch_hole(0, 1 << 20).unwrap();
    assert_eq!(file.len().unwrap(), 1 << 20);

    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let plain = OpenOptions::new().write(true).open(dir.path().join("a")).unwrap();
    let can = fallocate(&plain, flags, 0, 1 << 20).is_ok();
    assert_eq!(punched == Punched::Done, can, "{punched:?}");
    if can {
        let mut bytes = vec![7; 1 << 20];
        file.read_exact_at(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
        let left_bytes = file.allocated_bytes().unwrap();
        assert!(left_bytes + (1 << 19) < full_bytes, "{left_bytes} of {full_bytes}");
        let holes = file.holes().unwrap();
        assert!(matches!(holes.as_slice(), [hole] if *hole == (0..1 << 20)), "{holes:?}");
    }
}

#[test]
fn direct_writes_read_back_from_any_alignment() {
    let dir = temp_dir();
    let disk = RealDisk::open_or_create(dir.path()).unwrap();
    let file = disk.create("a").unwrap();
    let bytes: Vec<u8> = (0..5 * BLOCK_BYTES).map(|at| (at % 251) as u8).collect();
    let aligned = bytes.as_ptr().align_offset(BLOCK_BYTES);
    let mut expected = vec![0; 8 * BLOCK_BYTES];
    let mut write = |skip: usize, offset: usize, count: usize| {
        let part = &bytes[skip..skip + count];
        file.write_past_cache(offset as u64, part).unwrap();
        expected[offset..offset + count].copy_from_slice(part);
    };
    // Aligned and unaligned in memory, unaligned on the disk, and less than blocks.
    write(aligned, 0, 2 * BLOCK_BYTES);
    write(aligned + 1, 2 * BLOCK_BYTES, BLOCK_BYTES);
    write(aligned, 4 * BLOCK_BYTES + 1, BLOCK_BYTES);
    write(aligned, 6 * BLOCK_BYTES, BLOCK_BYTES + 1);
    file.sync_data().unwrap();
    let mut read = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(0, &mut read).unwrap();
    expected.truncate(read.len());
    assert!(read == expected);
}

#[test]
fn a_call_that_a_signal_interrupts_is_made_again() {
    let mut calls = 0;
    let done = uninterrupted(|| {
        calls += 1;
        if calls < 4 { Err(io::ErrorKind::Interrupted.into()) } else { Ok(calls) }
    });
    assert_eq!(done.expect("the fourth call succeeds"), 4);
    let failed = uninterrupted(|| Err::<(), _>(io::Error::from_raw_os_error(5)));
    assert_eq!(failed.expect_err("it is no interruption").raw_os_error(), Some(5));
}

#[test]
fn a_reserved_descriptor_is_released_for_a_needed_file() {
    use super::descriptor_pool::{DescriptorPool, KEPT};

    let directory = tempfile::tempdir().unwrap();
    let kept = DescriptorPool::default();
    kept.fill(directory.path());
    assert_eq!(kept.0.lock().len(), KEPT);
    fn too_many<T>() -> io::Result<T> {
        Err(io::Error::from(rustix::io::Errno::MFILE))
    }
    let mut before = Vec::new();
    let opened = kept.open(directory.path(), || {
        before.push(kept.0.lock().len());
        if before.len() < 4 { too_many() } else { Ok("open") }
    });
    assert_eq!(opened.unwrap(), "open");
    assert_eq!(before, [KEPT, KEPT - 1, KEPT - 2, KEPT - 3]);
    assert_eq!(kept.0.lock().len(), KEPT, "they are taken again");

    let refused = kept.open(directory.path(), too_many::<()>);
    assert!(super::descriptor_pool::is_shortage(&refused.unwrap_err()), "none is left");
    assert_eq!(kept.0.lock().len(), 0);
    let broken = kept.open(directory.path(), || Err::<(), _>(io::Error::from_raw_os_error(5)));
    assert_eq!(broken.unwrap_err().raw_os_error(), Some(5));
    kept.open(directory.path(), || Ok(())).unwrap();
    assert_eq!(kept.0.lock().len(), KEPT);
}
