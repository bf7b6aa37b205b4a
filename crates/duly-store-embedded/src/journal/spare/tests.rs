use std::sync::mpsc;

use super::*;
use crate::{
    disk::{Fault, SimDisk},
    format,
    journal::spare,
};

const SEGMENT_BYTES: u64 = 64 * 1024;

fn header(sequence: u64) -> segment::Header {
    segment::Header {
        version: format::VERSION,
        store: 7,
        sequence,
        base_lsn: 100 * sequence,
        length: SEGMENT_BYTES,
    }
}

/// Makes a disk with a durable first segment.
fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.make_dir(SEGMENTS.dir).unwrap();
    disk.sync_dir("").unwrap();
    let file = disk.create(&SEGMENTS.name(1)).unwrap();
    let mut bytes = header(1).encode().to_vec();
    bytes.resize(usize::try_from(SEGMENT_BYTES).unwrap(), 1);
    file.write_at(0, &bytes).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir(SEGMENTS.dir).unwrap();
    disk
}

/// The recycling thread is separate: the journal may roll before that thread has synced the directory.
#[test]
fn p1_a_recycled_segment_loses_its_old_name_before_a_new_header() {
    for seed in 1..40 {
        for at_op in 1..8 {
            let disk = disk(seed);
            assert!(
                spare::recycle(&disk, &DirSyncLock::default(), &SEGMENTS.name(1), SEGMENT_BYTES)
                    .unwrap()
            );
            disk.plan(Fault::CrashAtOp(at_op));
            let taken = prepare(&disk, &header(9))
                .and_then(|()| disk.rename(NEXT_TEMPORARY, &SEGMENTS.name(9)));
            assert!(taken.is_ok() || disk.is_down(), "{taken:?}");
            let left = disk.crash();
            for sequence in [1, 9] {
                let name = SEGMENTS.name(sequence);
                if left.names().contains(&name) {
                    let found = segment::Header::read(&left.read_file(&name));
                    let found = found.map(|header| header.sequence);
                    assert_eq!(found, Some(sequence), "seed {seed}, operation {at_op}: {name}");
                }
            }
        }
    }
}

#[test]
fn recycling_a_removed_segment_is_no_error() {
    let disk = disk(1);
    disk.remove(&SEGMENTS.name(1)).unwrap();
    assert!(
        !spare::recycle(&disk, &DirSyncLock::default(), &SEGMENTS.name(1), SEGMENT_BYTES).unwrap()
    );
}

/// A segment of eight parts.
const EIGHT_PARTS: u64 = 8 * PART_BYTES;

#[test]
fn a_spare_is_complete_at_five_eighths_of_the_active_segment() {
    let (filled, hears) = mpsc::channel();
    let mut pace = SparePace::new(EIGHT_PARTS, hears);
    for (eighths, parts) in [(1, 1), (2, 3), (3, 5), (4, 7), (5, 8)] {
        filled.send(eighths * PART_BYTES).unwrap();
        while let Ok(filled_bytes) = pace.filled.try_recv() {
            pace.allow(filled_bytes);
        }
        assert_eq!(pace.allowed_bytes.min(EIGHT_PARTS), parts * PART_BYTES, "at {eighths} eighths");
    }
    // A roll: the next segment has only begun.
    pace.allow(0);
    assert!(pace.allowed_bytes >= EIGHT_PARTS, "what was allowed stays so");
}

#[test]
fn a_spare_reserves_space_first_and_ends_with_the_engine() {
    let disk = disk(1);
    let (filled, hears) = mpsc::channel();
    let mut pace = SparePace::new(EIGHT_PARTS, hears);
    std::thread::scope(|scope| {
        let writer =
            scope.spawn(|| write_spare(&disk, &DirSyncLock::default(), EIGHT_PARTS, &mut pace));
        filled.send(2 * PART_BYTES).unwrap();
        while length_of(&disk, SPARE_TEMPORARY).unwrap() < EIGHT_PARTS {
            std::thread::yield_now();
        }
        assert!(!writer.is_finished(), "three of its parts may be written");
        drop(filled);
        writer.join().unwrap().unwrap();
    });
    assert_eq!(disk.names(), [SEGMENTS.name(1)], "half a spare is of no use");
}
