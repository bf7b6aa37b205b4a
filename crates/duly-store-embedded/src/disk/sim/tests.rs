use std::collections::BTreeSet;

use super::*;
use crate::disk::contract;

mod holes;
mod model;

const SEEDS: u64 = 200;

/// Makes a disk with one synced file of `bytes` under a durable name.
fn with_file(seed: u64, bytes: &[u8]) -> (SimDisk, Arc<dyn File>) {
    let disk = SimDisk::new(seed);
    let file = disk.create("f").unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir("").unwrap();
    (disk, file)
}

/// Returns the results of `outcome` over many seeds.
fn outcomes<T: Ord>(outcome: impl Fn(u64) -> T) -> BTreeSet<T> {
    (0..SEEDS).map(outcome).collect()
}

#[test]
fn keeps_the_contract() {
    contract::check(&SimDisk::new(1));
}

#[test]
fn synced_bytes_survive_every_crash() {
    for seed in 0..SEEDS {
        let (disk, file) = with_file(seed, &[1; 5000]);
        file.write_at(700, &[2; 3000]).unwrap();
        file.set_len(6000).unwrap();
        file.sync_data().unwrap();
        let synced = disk.read_file("f");
        assert!(disk.crash().read_file("f") == synced, "seed {seed}");
    }
}

#[test]
fn unsynced_sectors_stay_go_or_tear() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let (disk, file) = with_file(seed, &[1; SECTOR_BYTES * 8]);
        file.write_at(0, &[2; SECTOR_BYTES * 8]).unwrap();
        let found = disk.crash().read_file("f");
        assert_eq!(found.len(), SECTOR_BYTES * 8);
        for sector in found.chunks(SECTOR_BYTES) {
            let new_bytes = sector.iter().take_while(|byte| **byte == 2).count();
            assert!(sector[new_bytes..].iter().all(|byte| *byte == 1), "new first, then old");
            seen.insert(match new_bytes {
                0 => "lost",
                SECTOR_BYTES => "survived",
                _ => "torn",
            });
        }
        let firsts: Vec<u8> = found.chunks(SECTOR_BYTES).map(|sector| sector[0]).collect();
        if firsts.is_sorted() && firsts[0] < firsts[7] {
            seen.insert("later writes without earlier ones");
        }
        if firsts.iter().all(|byte| *byte == 2) {
            seen.insert("all");
        }
    }
    assert_eq!(
        seen,
        BTreeSet::from(["all", "later writes without earlier ones", "lost", "survived", "torn"])
    );
}

#[test]
fn an_unsynced_extension_stays_goes_or_comes_in_part() {
    let lengths = outcomes(|seed| {
        let (disk, file) = with_file(seed, b"old");
        file.write_at(3, &[9; 2000]).unwrap();
        let found = disk.crash().read_file("f");
        assert_eq!(found[..3], *b"old");
        assert!(found[3..].iter().all(|byte| [0, 9].contains(byte)), "new bytes or zeros");
        found.len()
    });
    assert!(lengths.contains(&3) && lengths.contains(&2003) && lengths.len() > 3, "{lengths:?}");
}

#[test]
fn an_unsynced_cut_may_be_undone() {
    let found = outcomes(|seed| {
        let (disk, file) = with_file(seed, &[1; 2000]);
        file.set_len(SECTOR_BYTES as u64).unwrap();
        disk.crash().read_file("f")
    });
    assert_eq!(found, BTreeSet::from([vec![1; SECTOR_BYTES], vec![1; 2000]]));
}

#[test]
fn names_need_a_sync_of_their_directory() {
    let created = outcomes(|seed| {
        let disk = SimDisk::new(seed);
        for name in ["a", "b", "c"] {
            disk.create(name).unwrap().sync_all().unwrap();
        }
        disk.crash().names()
    });
    let prefixes: [&[&str]; 4] = [&[], &["a"], &["a", "b"], &["a", "b", "c"]];
    let prefixes = prefixes.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(created, BTreeSet::from(prefixes), "a prefix in order");

    let renamed = outcomes(|seed| {
        let (disk, _) = with_file(seed, b"x");
        disk.rename("f", "g").unwrap();
        disk.crash().names().concat()
    });
    assert_eq!(renamed, BTreeSet::from(["f", "g"].map(str::to_owned)), "never both, never none");

    let removed = outcomes(|seed| {
        let (disk, _) = with_file(seed, b"x");
        disk.remove("f").unwrap();
        disk.crash().names().concat()
    });
    assert_eq!(removed, BTreeSet::from(["", "f"].map(str::to_owned)));
}

#[test]
fn synced_names_survive_every_crash() {
    for seed in 0..SEEDS {
        let (disk, _) = with_file(seed, b"x");
        disk.make_dir("d").unwrap();
        disk.create("g").unwrap();
        disk.rename("f", "d/f").unwrap();
        disk.sync_dir("d").unwrap();
        let after = disk.crash();
        assert_eq!(after.names(), ["d/f", "g"], "what a rename depends on is synced with it");
        assert_eq!(after.read_file("d/f"), b"x");
    }
}

#[test]
fn a_lost_rename_holds_back_what_came_after_it() {
    let found = outcomes(|seed| {
        let (disk, _) = with_file(seed, b"x");
        disk.make_dir("d").unwrap();
        disk.sync_dir("").unwrap();
        disk.rename("f", "d/f").unwrap();
        disk.create("d/g").unwrap();
        disk.crash().names().join(" ")
    });
    let allowed = ["f", "d/f", "d/f d/g"];
    assert_eq!(found, BTreeSet::from(allowed.map(str::to_owned)));
}

#[test]
fn files_go_with_their_unsynced_directory() {
    let found = outcomes(|seed| {
        let disk = SimDisk::new(seed);
        disk.make_dir("d").unwrap();
        disk.create("d/f").unwrap();
        disk.sync_dir("d").unwrap();
        disk.crash().names().concat()
    });
    assert_eq!(found, BTreeSet::from(["", "d/f"].map(str::to_owned)));
}

#[test]
fn a_failed_sync_is_not_mended_by_the_next() {
    let kept = outcomes(|seed| {
        let (disk, file) = with_file(seed, &[1; SECTOR_BYTES]);
        file.write_at(0, &[2; SECTOR_BYTES]).unwrap();
        disk.plan(Fault::ErrorAtSync(1));
        let error = file.sync_data().unwrap_err();
        assert!(error.to_string().contains("Input/output error"), "{error}");
        file.sync_data().unwrap();
        assert_eq!(disk.read_file("f")[0], 2, "reads go on seeing it");
        let byte = disk.crash().read_file("f")[0];
        let again = || disk.crash().read_file("f")[0];
        assert!((0..10).all(|_| again() == byte), "the failed sync has decided, not the crash");
        byte
    });
    assert_eq!(kept, BTreeSet::from([1, 2]));
}

#[test]
fn writing_again_mends_a_failed_sync() {
    for seed in 0..SEEDS {
        let (disk, file) = with_file(seed, &[1; SECTOR_BYTES]);
        file.write_at(0, &[2; SECTOR_BYTES]).unwrap();
        disk.plan(Fault::ErrorAtSync(1));
        assert!(file.sync_all().is_err());
        file.write_at(0, &[3; SECTOR_BYTES]).unwrap();
        file.sync_all().unwrap();
        assert_eq!(disk.crash().read_file("f"), [3; SECTOR_BYTES], "seed {seed}");
    }
}

#[test]
fn a_failed_directory_sync_is_not_mended_by_the_next() {
    let found = outcomes(|seed| {
        let disk = SimDisk::new(seed);
        disk.create("a").unwrap();
        disk.plan(Fault::ErrorAtSync(1));
        assert!(disk.sync_dir("").is_err());
        disk.sync_dir("").unwrap();
        assert_eq!(disk.names(), ["a"]);
        disk.crash().names().concat()
    });
    assert_eq!(found, BTreeSet::from(["", "a"].map(str::to_owned)));
}

#[test]
fn a_kill_keeps_what_was_written_and_leaves_it_unsynced() {
    let after_power_loss = outcomes(|seed| {
        let (disk, file) = with_file(seed, b"old");
        file.write_at(0, b"new").unwrap();
        disk.create("g").unwrap();
        let lock = disk.lock().unwrap();
        let next = disk.kill();
        drop(lock);
        assert!(disk.is_down() && !next.is_down());
        assert_eq!(next.names(), [LOCK_NAME, "f", "g"]);
        assert_eq!(next.read_file("f"), b"new");
        drop(next.lock().unwrap());
        (next.crash().read_file("f")[0], next.crash().names().len())
    });
    assert_eq!(after_power_loss, BTreeSet::from([(b'n', 2), (b'n', 3), (b'o', 2), (b'o', 3)]));
}

#[test]
fn old_handles_fail_after_a_crash() {
    let (disk, file) = with_file(1, b"x");
    let next = disk.crash();
    let ops = disk.ops();
    let answers = [
        file.read_at(0, &mut [0]).map(drop),
        file.write_at(0, b"y"),
        file.sync_data(),
        file.sync_all(),
        file.len().map(drop),
        file.set_len(9),
        file.punch_hole(0, 1).map(drop),
        file.holes().map(drop),
        file.write_back(0, 1),
        file.allocated_bytes().map(drop),
        disk.create("g").map(drop),
        disk.open("f").map(drop),
        disk.list("").map(drop),
        disk.rename("f", "g"),
        disk.remove("f"),
        disk.make_dir("d"),
        disk.sync_dir(""),
        disk.space().map(drop),
        disk.lock().map(drop),
    ];
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error:?}");
        assert!(error.to_string().contains("crashed"), "{error}");
    }
    assert_eq!(disk.ops(), ops);
    assert_eq!(next.read_file("f"), b"x");
}

/// One of each counted operation; stops at the first error.
fn scenario(disk: &SimDisk) -> Result<(), Error> {
    disk.make_dir("d")?;
    let file = disk.create("d/a")?;
    file.write_at(0, &[1; 1500])?;
    file.set_len(3000)?;
    file.punch_hole(1536, 512)?;
    file.write_back(0, 3000)?;
    file.sync_data()?;
    file.sync_all()?;
    disk.rename("d/a", "b")?;
    disk.sync_dir("")?;
    disk.remove("b")?;
    disk.sync_dir("d")
}

#[test]
fn every_operation_is_a_crash_point() {
    let whole = SimDisk::new(0);
    scenario(&whole).unwrap();
    assert_eq!(whole.ops(), 12);
    for n in 1..=12 {
        for seed in 0..20 {
            let disk = SimDisk::new(seed);
            disk.plan(Fault::CrashAtOp(n));
            let error = scenario(&disk).unwrap_err();
            assert!(error.to_string().contains("crashed"), "op {n}: {error}");
            assert_eq!(disk.ops(), n);
            assert!(disk.is_down() && disk.list("").is_err());
            let next = disk.crash();
            next.list("").unwrap();
            if n == 11 {
                let found = next.names();
                assert!(found.is_empty() || next.read_file("b")[..1500] == [1; 1500], "{found:?}");
            }
        }
    }
    let disk = SimDisk::new(0);
    disk.plan(Fault::CrashAtOp(13));
    scenario(&disk).unwrap();
}

#[test]
fn a_write_in_progress_at_the_crash_may_be_partly_done() {
    let written = outcomes(|seed| {
        let (disk, file) = with_file(seed, &[1; 1000]);
        disk.plan(Fault::CrashAtOp(1));
        file.write_at(0, &[2; 1000]).unwrap_err();
        disk.kill().read_file("f").iter().filter(|byte| **byte == 2).count()
    });
    assert!(written.len() > 10, "{written:?}");
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let run = |seed| {
        let (disk, file) = with_file(seed, &[1; 9000]);
        file.write_at(100, &[2; 8000]).unwrap();
        disk.create("g").unwrap();
        let after = disk.crash();
        (after.names(), after.read_file("f"))
    };
    assert!((0..20).all(|seed| run(seed) == run(seed)));
    assert!((1..20).any(|seed| run(seed) != run(0)));
}

#[test]
fn a_full_disk_takes_overwrites_only() {
    let (disk, file) = with_file(1, &[1; SECTOR_BYTES]);
    disk.set_free_bytes(SECTOR_BYTES as u64);
    assert_eq!(disk.space().unwrap().free_bytes, SECTOR_BYTES as u64);
    let error = file.write_at(SECTOR_BYTES as u64, &[2; SECTOR_BYTES * 3]).unwrap_err();
    assert!(error.is_no_space(), "{error:?}");
    assert_eq!(file.len().unwrap(), 2 * SECTOR_BYTES as u64, "what fits is written");
    assert_eq!(disk.space().unwrap().free_bytes, 0);
    assert!(disk.create("g").unwrap_err().is_no_space());
    file.write_at(0, &[3; SECTOR_BYTES * 2]).unwrap();
    file.set_len(10_000).unwrap();
    assert!(file.write_at(5000, b"into the hole").unwrap_err().is_no_space());
    file.sync_data().unwrap();
    disk.remove("f").unwrap();
    assert_eq!(disk.space().unwrap().free_bytes, 2 * SECTOR_BYTES as u64);
    disk.create("g").unwrap().write_at(0, b"fits again").unwrap();
}

#[test]
fn a_planned_full_disk_strikes_once() {
    let written = outcomes(|seed| {
        let (disk, file) = with_file(seed, b"");
        disk.plan(Fault::NoSpaceAtWrite(2));
        file.write_at(0, &[1; 10]).unwrap();
        assert!(file.write_at(10, &[1; 10]).unwrap_err().is_no_space());
        let len = file.len().unwrap();
        file.write_at(10, &[1; 10]).unwrap();
        len
    });
    assert_eq!(written, (10..=20).collect());
}

#[test]
fn damage_hits_what_is_stored() {
    let (disk, file) = with_file(1, &[1; 2000]);
    file.write_at(0, &[2; 1000]).unwrap();
    disk.corrupt("f", 1500, 0x80);
    disk.zero("f", 500..600);
    let mut expected = [vec![2; 1000], vec![1; 1000]].concat();
    expected[1500] = 0x81;
    expected[500..600].fill(0);
    assert_eq!(disk.read_file("f"), expected);
    let after = disk.crash().read_file("f");
    assert_eq!((after[1500], &after[500..600]), (0x81, &[0; 100][..]));
}

#[test]
fn clones_are_one_disk() {
    let disk = SimDisk::new(1);
    let lock = disk.lock().unwrap();
    assert!(matches!(disk.clone().lock().unwrap_err(), Error::Locked { .. }));
    disk.clone().create("a").unwrap();
    assert_eq!(disk.names(), [LOCK_NAME, "a"]);
    drop(lock);
    drop(disk.clone().lock().unwrap());
}
