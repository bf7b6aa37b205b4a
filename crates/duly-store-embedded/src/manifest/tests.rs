use crate::disk::{Fault, SimDisk};

use super::*;

const MANIFEST: Manifest = Manifest {
    version: 1,
    reader_min: 1,
    features: 0,
    store: 0x0102_0304,
    hash_key: 0x0506_0708,
    epoch: 3,
    created_at_ms: 1_900_000_000_000,
};

fn disk_with(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(1);
    let file = disk.create(NAME).expect("a file");
    file.write_at(0, bytes).expect("written");
    disk
}

fn read(bytes: &[u8]) -> Result<Option<Manifest>, OpenError> {
    Manifest::read(&disk_with(bytes))
}

fn is_damaged(answer: &Result<Option<Manifest>, OpenError>) -> bool {
    matches!(answer, Err(OpenError::Damaged { file, .. }) if file == NAME)
}

#[test]
fn it_reads_back_and_has_the_documented_layout() {
    let bytes = MANIFEST.encode();
    assert_eq!(read(&bytes).expect("whole"), Some(MANIFEST));
    assert_eq!(bytes.len(), 76);
    assert_eq!(&bytes[..8], b"DULYMAN\n");
    assert_eq!(bytes[8..16], [1, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(bytes[16..24], [0; 8]);
    assert_eq!(bytes[24..40], 0x0102_0304_u128.to_le_bytes());
    assert_eq!(bytes[40..56], 0x0506_0708_u128.to_le_bytes());
    assert_eq!(bytes[56..64], 3_u64.to_le_bytes());
    assert_eq!(bytes[64..72], 1_900_000_000_000_u64.to_le_bytes());
    assert_eq!(bytes[72..], crc32c::crc32c(&bytes[..72]).to_le_bytes());
}

#[test]
fn every_flipped_bit_is_refused() {
    let bytes = MANIFEST.encode();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(is_damaged(&read(&damaged)), "bit {bit}");
    }
}

#[test]
fn every_truncation_is_refused() {
    let bytes = MANIFEST.encode();
    for end in 0..bytes.len() {
        assert!(is_damaged(&read(&bytes[..end])), "cut at {end}");
        let mut zeroed = bytes.clone();
        zeroed[end..].fill(0);
        assert!(is_damaged(&read(&zeroed)), "zeros from {end}");
    }
}

#[test]
fn bytes_behind_it_are_left_to_later_versions() {
    let mut bytes = MANIFEST.encode();
    bytes.resize(100_000, 0xAB);
    assert_eq!(read(&bytes).expect("whole"), Some(MANIFEST));
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let newer = Manifest { version: 9, reader_min: 2, ..MANIFEST };
    let answer = read(&newer.encode());
    assert!(matches!(answer, Err(OpenError::Newer { found: 9, known: 1, features: 0 })));
    let unknown = Manifest { features: 0b100, ..MANIFEST };
    let answer = read(&unknown.encode()).expect_err("an unknown feature");
    assert!(matches!(answer, OpenError::Newer { features: 0b100, .. }));
    assert!(answer.to_string().contains("without features 0x4"), "{answer}");
}

#[test]
fn a_newer_format_that_this_build_may_read_is_read_and_keeps_its_number() {
    let mut newer = Manifest { version: 9, ..MANIFEST };
    assert_eq!(read(&newer.encode()).expect("readable"), Some(newer));
    newer.begin_epoch();
    assert_eq!((newer.version, newer.reader_min, newer.epoch), (9, 1, 4));
}

#[test]
fn an_older_format_is_refused_by_name_or_raised() {
    let older = Manifest { version: 0, reader_min: 0, ..MANIFEST };
    let answer = read(&older.encode());
    assert!(matches!(answer, Err(OpenError::Older { found: 0, oldest: 1 })));
    let mut raised = older;
    raised.begin_epoch();
    assert_eq!((raised.version, raised.reader_min), (format::VERSION, format::READER_MIN));
}

#[test]
fn a_missing_manifest_is_a_new_store_only_where_there_is_no_journal() {
    let disk = SimDisk::new(1);
    assert_eq!(Manifest::read(&disk).expect("nothing is there"), None);
    disk.make_dir("journal").expect("made");
    assert_eq!(Manifest::read(&disk).expect("still nothing"), None);
    disk.create("journal/0000000000000001.log").expect("made");
    assert!(is_damaged(&Manifest::read(&disk)));
}

#[test]
fn a_power_cut_while_it_is_replaced_leaves_the_old_or_the_new_one() {
    let next = Manifest { epoch: 4, ..MANIFEST };
    let mut outcomes = [0, 0];
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        MANIFEST.write(&disk).expect("written");
        // What an earlier crash left behind is no obstacle.
        disk.create(TEMPORARY).expect("made").write_at(0, b"half").expect("written");
        let before = disk.ops();
        next.write(&disk).expect("written");
        for crash_at in 1..=disk.ops() - before {
            let disk = SimDisk::new(seed);
            MANIFEST.write(&disk).expect("written");
            disk.create(TEMPORARY).expect("made").write_at(0, b"half").expect("written");
            disk.plan(Fault::CrashAtOp(crash_at));
            assert!(next.write(&disk).is_err(), "the power went at {crash_at}");
            let found = Manifest::read(&disk.crash()).expect("whole").expect("there");
            assert!(found == MANIFEST || found == next, "{found:?}");
            outcomes[usize::from(found == next)] += 1;
        }
        assert_eq!(Manifest::read(&disk.crash()).expect("whole"), Some(next));
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "both were seen: {outcomes:?}");
}
