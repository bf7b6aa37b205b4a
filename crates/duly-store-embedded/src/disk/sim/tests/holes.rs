//! Holes and write-back: the space that they free, and their state after a crash.

use std::collections::BTreeSet;

use super::{SEEDS, outcomes, with_file};
use crate::disk::{Disk, Fault, SECTOR_BYTES};

const SECTOR: u64 = SECTOR_BYTES as u64;

#[test]
fn a_hole_frees_exactly_the_sectors_that_lie_wholly_in_it() {
    let (disk, file) = with_file(1, &[7; SECTOR_BYTES * 8]);
    disk.set_free_bytes(0);
    file.punch_hole(100, SECTOR * 3).unwrap();
    let bytes = disk.read_file("f");
    let zeros: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == 0).collect();
    assert_eq!(zeros, (100..100 + SECTOR_BYTES * 3).collect::<Vec<_>>());
    assert_eq!(file.allocated_bytes().unwrap(), SECTOR * 6);
    assert_eq!(disk.space().unwrap().free_bytes, SECTOR * 2);
    file.punch_hole(100, SECTOR * 3).unwrap();
    assert_eq!(disk.space().unwrap().free_bytes, SECTOR * 2, "room is given back once");
    file.write_at(SECTOR, &[8; SECTOR_BYTES]).unwrap();
    file.write_at(SECTOR * 2, &[8; SECTOR_BYTES]).unwrap();
    assert_eq!(disk.space().unwrap().free_bytes, 0, "and taken again by writing into the hole");
    file.punch_hole(SECTOR * 2, u64::MAX).unwrap();
    assert_eq!(disk.space().unwrap().free_bytes, SECTOR * 6);
    disk.remove("f").unwrap();
    assert_eq!(disk.space().unwrap().free_bytes, SECTOR * 8);
}

#[test]
fn a_full_disk_refuses_to_fill_a_hole() {
    let (disk, file) = with_file(1, &[7; SECTOR_BYTES * 4]);
    file.punch_hole(0, SECTOR * 4).unwrap();
    disk.set_free_bytes(SECTOR);
    file.write_at(SECTOR, b"fits").unwrap();
    assert!(file.write_at(0, b"does not").unwrap_err().is_no_space());
}

#[test]
fn an_unsynced_hole_survives_or_vanishes_sector_by_sector() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let (disk, file) = with_file(seed, &[7; SECTOR_BYTES * 8]);
        file.punch_hole(0, SECTOR * 8).unwrap();
        let after = disk.crash();
        let found = after.read_file("f");
        assert_eq!(found.len(), SECTOR_BYTES * 8);
        let is_old = |sector: &[u8]| sector.iter().all(|byte| *byte == 7);
        let is_zero = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
        assert!(found.chunks(SECTOR_BYTES).all(|sector| is_old(sector) || is_zero(sector)));
        let old_sectors = found.chunks(SECTOR_BYTES).filter(|sector| is_old(sector));
        let old_bytes = old_sectors.count() as u64 * SECTOR;
        assert_eq!(after.open("f").unwrap().allocated_bytes().unwrap(), old_bytes);
        seen.insert(match old_bytes / SECTOR {
            0 => "a hole",
            8 => "no hole",
            _ => "some of it",
        });
    }
    assert_eq!(seen, BTreeSet::from(["a hole", "no hole", "some of it"]));
}

#[test]
fn a_synced_hole_survives_every_crash() {
    for seed in 0..SEEDS {
        let (disk, file) = with_file(seed, &[7; SECTOR_BYTES * 4]);
        file.punch_hole(SECTOR, SECTOR * 2).unwrap();
        file.sync_data().unwrap();
        let after = disk.crash();
        let bytes = after.read_file("f");
        assert_eq!(bytes[SECTOR_BYTES..SECTOR_BYTES * 3], [0; SECTOR_BYTES * 2]);
        assert_eq!(after.open("f").unwrap().allocated_bytes().unwrap(), SECTOR * 2);
    }
}

#[test]
fn a_hole_in_progress_at_the_crash_may_be_partly_done() {
    let zeroed = outcomes(|seed| {
        let (disk, file) = with_file(seed, &[7; SECTOR_BYTES * 4]);
        disk.plan(Fault::CrashAtOp(1));
        file.punch_hole(0, SECTOR * 4).unwrap_err();
        disk.kill().read_file("f").iter().filter(|byte| **byte == 0).count()
    });
    let sectors = (0..=4).map(|count| count * SECTOR_BYTES);
    assert_eq!(zeroed, sectors.collect(), "each sector is done or not");
}

#[test]
fn a_write_back_makes_nothing_durable() {
    let found = outcomes(|seed| {
        let (disk, file) = with_file(seed, &[1; SECTOR_BYTES]);
        file.write_at(0, &[2; SECTOR_BYTES]).unwrap();
        file.write_back(0, SECTOR).unwrap();
        disk.crash().read_file("f")[SECTOR_BYTES - 1]
    });
    assert_eq!(found, BTreeSet::from([1, 2]));
}

#[test]
fn a_failed_write_back_is_not_mended_by_a_sync() {
    let found = outcomes(|seed| {
        let (disk, file) = with_file(seed, &[1; SECTOR_BYTES]);
        file.write_at(0, &[2; SECTOR_BYTES]).unwrap();
        disk.plan(Fault::ErrorAtWriteBack(2));
        file.write_back(0, SECTOR).unwrap();
        let error = file.write_back(0, SECTOR).unwrap_err();
        assert!(error.to_string().contains("cannot write back"), "{error}");
        file.sync_data().unwrap();
        disk.crash().read_file("f")[0]
    });
    assert_eq!(found, BTreeSet::from([1, 2]), "the failed one has decided");
}

#[test]
fn a_write_back_without_space_leaves_doubt() {
    let error = |operation| crate::disk::Error::NoSpace { operation, name: "f".to_owned() };
    assert!(!error(crate::disk::Operation::WriteBack).is_no_space());
    assert!(error(crate::disk::Operation::PunchHole).is_no_space());
}

#[test]
fn a_hole_and_a_write_back_are_counted() {
    let (disk, file) = with_file(1, b"x");
    let before = disk.ops();
    file.punch_hole(0, 1).unwrap();
    file.write_back(0, 1).unwrap();
    file.will_need(0, 1);
    assert_eq!(disk.ops(), before + 2, "a hint changes nothing");
}
