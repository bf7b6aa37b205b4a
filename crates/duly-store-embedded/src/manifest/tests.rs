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
    let unknown = Manifest { features: 1 << 40, ..MANIFEST };
    let answer = read(&unknown.encode()).expect_err("an unknown feature");
    assert!(matches!(answer, OpenError::Newer { features: 0x100_0000_0000, .. }));
    assert!(answer.to_string().contains("without features 0x10000000000"), "{answer}");
}

#[test]
fn a_newer_readable_format_keeps_its_number() {
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
fn a_missing_manifest_is_a_new_store_only_without_a_journal() {
    let disk = SimDisk::new(1);
    assert_eq!(Manifest::read(&disk).expect("nothing is there"), None);
    disk.make_dir("journal").expect("made");
    assert_eq!(Manifest::read(&disk).expect("still nothing"), None);
    disk.create("journal/0000000000000001.log").expect("made");
    assert!(is_damaged(&Manifest::read(&disk)));
}

/// Makes a disk on which both files hold this manifest.
fn written(seed: u64, manifest: &Manifest) -> SimDisk {
    let disk = SimDisk::new(seed);
    manifest.write(&disk).expect("written");
    disk
}

#[test]
fn p1_damage_to_one_of_the_two_files_costs_nothing() {
    let bytes = MANIFEST.encode();
    for name in [NAME, COPY] {
        for bit in 0..bytes.len() * 8 {
            let disk = written(1, &MANIFEST);
            disk.corrupt(name, bit as u64 / 8, 1 << (bit % 8));
            let kept = Manifest::read_both(&disk).expect("the other one is whole").expect("there");
            assert_eq!(kept.manifest, MANIFEST, "bit {bit} of {name}");
            assert_eq!(kept.fault.expect("it is said").0, name, "bit {bit}");
            let next = Manifest { epoch: 4, ..MANIFEST };
            next.write(&disk).expect("written");
            let kept = Manifest::read_both(&disk).expect("whole").expect("there");
            assert!(kept.manifest == next && kept.fault.is_none(), "both are whole again");
        }
        let disk = written(1, &MANIFEST);
        disk.remove(name).expect("it is there");
        assert_eq!(Manifest::read(&disk).expect("the other one is there"), Some(MANIFEST));
    }
    let disk = written(1, &MANIFEST);
    [NAME, COPY].iter().for_each(|name| disk.corrupt(name, 60, 1));
    assert!(is_damaged(&Manifest::read(&disk)), "without a whole one it is refused");
}

#[test]
fn an_earlier_file_of_one_epoch_takes_no_feature_away() {
    for name in [NAME, COPY] {
        let disk = written(1, &Manifest { features: format::KEYS, ..MANIFEST });
        disk.open(name).expect("there").write_at(0, &MANIFEST.encode()).expect("written");
        let found = Manifest::read(&disk).expect("whole").expect("there");
        assert_eq!(found.features, format::KEYS, "{name}");
    }
}

#[test]
fn only_the_exact_mark_is_an_open_end() {
    let of = |mark: &[u8]| {
        let disk = SimDisk::new(1);
        disk.create(RESTORED).expect("made").write_at(0, mark).expect("written");
        let tail = restored_tail(&disk).expect("read").expect("there");
        (tail, is_mark_damaged(&disk).expect("read"))
    };
    assert_eq!(of(b""), (Tail::Closed, false));
    assert_eq!(of(OPEN_MARK), (Tail::Open, false));
    for other in [b"x".as_slice(), &[OPEN_MARK, b"x"].concat()] {
        assert_eq!(of(other), (Tail::Closed, true));
    }
}

#[test]
fn p10_it_is_replaced_without_a_free_byte_or_inode() {
    let disk = written(1, &MANIFEST);
    disk.set_free_bytes(0);
    disk.set_free_inodes(0);
    let next = Manifest { epoch: 4, ..MANIFEST };
    next.write(&disk).expect("it is written over what is there");
    assert_eq!(Manifest::read(&disk.crash()).expect("whole"), Some(next));
}

#[test]
fn a_manifest_of_another_store_beside_it_is_refused() {
    let disk = written(1, &MANIFEST);
    let other = Manifest { store: 9, epoch: 70, ..MANIFEST };
    disk.open(COPY).expect("there").write_at(0, &other.encode()).expect("written");
    let error = Manifest::read(&disk).expect_err("two stores");
    assert!(error.to_string().contains("another store than MANIFEST.copy"), "{error}");
}

#[test]
fn a_power_cut_in_a_replacement_leaves_old_or_new_manifest() {
    let next = Manifest { epoch: 4, ..MANIFEST };
    // As a new build finds them: both files, the one file of an older build, and one damaged file.
    let prepare = |what: &str, disk: &SimDisk| match what {
        "both" => {}
        "no copy" => disk.remove(COPY).expect("it is there"),
        "a damaged copy" => disk.corrupt(COPY, 60, 1),
        _ => disk.corrupt(NAME, 60, 1),
    };
    for what in ["both", "no copy", "a damaged copy", "a damaged file"] {
        let begun = |seed| {
            let disk = written(seed, &MANIFEST);
            prepare(what, &disk);
            // A left-over of an earlier crash does not prevent it.
            disk.create(TEMPORARY).expect("made").write_at(0, b"half").expect("written");
            disk.sync_dir("").expect("synced");
            disk
        };
        let mut outcomes = [0, 0];
        for seed in 0..40 {
            let disk = begun(seed);
            let before = disk.ops();
            next.write(&disk).expect("written");
            for crash_at in 1..=disk.ops() - before {
                let disk = begun(seed);
                disk.plan(Fault::CrashAtOp(crash_at));
                assert!(next.write(&disk).is_err(), "{what}: the power went at {crash_at}");
                let left = disk.crash();
                let found = Manifest::read(&left).expect("whole").expect("there");
                assert!(found == MANIFEST || found == next, "{what}: {found:?}");
                outcomes[usize::from(found == next)] += 1;
                let last = Manifest { epoch: 5, ..MANIFEST };
                last.write(&left).expect("written");
                assert_eq!(Manifest::read(&left.crash()).expect("whole"), Some(last), "{what}");
            }
            assert_eq!(Manifest::read(&disk.crash()).expect("whole"), Some(next));
        }
        assert!(outcomes[0] > 0 && outcomes[1] > 0, "{what}: both were seen: {outcomes:?}");
    }
}

#[test]
fn a_power_cut_in_the_first_write_leaves_manifest_or_nothing() {
    let disk = SimDisk::new(0);
    MANIFEST.write(&disk).expect("written");
    for (seed, crash_at) in (0..40).flat_map(|seed| (1..=disk.ops()).map(move |at| (seed, at))) {
        let disk = SimDisk::new(seed);
        disk.plan(Fault::CrashAtOp(crash_at));
        assert!(MANIFEST.write(&disk).is_err(), "the power went");
        let found = Manifest::read(&disk.crash()).expect("nothing is damaged");
        assert!(found.is_none() || found == Some(MANIFEST), "{found:?}");
    }
}
