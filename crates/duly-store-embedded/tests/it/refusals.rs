//! Directories that are not opened: damaged, newer, in use. Each is refused with an instruction, and
//! left as it is.

use duly_store::conformance::ManualClock;
use duly_store_embedded::{
    FEATURES, FORMAT_VERSION, OpenError,
    disk::{Disk, Error, SimDisk},
};

use crate::{
    steps::{Step, Tokens, apply, get, perform, schedule},
    tail::{put, refused},
    twins::{copy, open_inline},
    workload::{LARGE_BYTES, settings},
};

/// Makes a directory with two segments.
fn directory() -> SimDisk {
    let disk = SimDisk::new(1);
    let store = open_inline(&disk, &ManualClock::default(), 1).expect("a new store opens");
    let put = Step::Put("shop", Box::new(settings()));
    perform(&store, &put, &mut Tokens::new()).expect("a healthy disk takes it");
    for i in 0..14 {
        let operation = schedule(&format!("t{i}"), 9_000, LARGE_BYTES);
        apply(&store, "shop", vec![operation]).expect("a healthy disk takes it");
    }
    drop(store);
    assert!(disk.names().contains(&"journal/0000000000000002.log".to_owned()));
    copy(&disk, 1)
}

/// Makes a copy whose manifest is changed and has a matching checksum.
fn with_manifest(change: impl FnOnce(&mut [u8])) -> SimDisk {
    let disk = copy(&directory(), 2);
    let mut bytes = disk.read_file("MANIFEST");
    change(&mut bytes);
    let end = bytes.len() - 4;
    let checksum = crc32c::crc32c(&bytes[..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&checksum);
    MANIFESTS.iter().for_each(|name| put(&disk, name, &bytes));
    disk
}

#[test]
fn a_newer_format_is_refused_by_its_number() {
    let newer = FORMAT_VERSION + 6;
    let disk = with_manifest(|bytes| {
        bytes[8..12].copy_from_slice(&newer.to_le_bytes());
        bytes[12..16].copy_from_slice(&newer.to_le_bytes());
    });
    let message = refused(&disk).to_string();
    assert!(message.contains(&format!("format {newer}")), "{message}");
    assert!(message.contains("run the Duly that wrote it, or a newer one"), "{message}");
}

#[test]
fn an_unknown_feature_is_refused_by_its_bit() {
    let feature = 1_u64 << 5;
    assert_eq!(FEATURES & feature, 0, "the bit is still free");
    let disk =
        with_manifest(|bytes| bytes[16..24].copy_from_slice(&(FEATURES | feature).to_le_bytes()));
    let message = refused(&disk).to_string();
    assert!(message.contains("0x20"), "{message}");
}

#[test]
fn a_newer_segment_is_refused_by_its_number() {
    let disk = directory();
    let name = "journal/0000000000000002.log";
    let mut bytes = disk.read_file(name);
    bytes[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..64]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    put(&disk, name, &bytes);
    let error = refused(&disk);
    assert!(matches!(error, OpenError::Newer { found, .. } if found == FORMAT_VERSION + 1));
}

/// The two files of the manifest.
const MANIFESTS: [&str; 2] = ["MANIFEST", "MANIFEST.copy"];

#[test]
fn p1_one_damaged_file_of_the_manifest_costs_nothing() {
    let good = directory();
    let bytes = good.read_file("MANIFEST");
    assert_eq!(bytes.len(), 76);
    for (at, name) in (0..bytes.len()).flat_map(|at| MANIFESTS.map(|name| (at, name))) {
        let disk = copy(&good, 2);
        disk.corrupt(name, at as u64, 1);
        let store = open_inline(&disk, &ManualClock::default(), 9);
        let store = store.unwrap_or_else(|error| panic!("byte {at} of {name}: {error}"));
        assert!(get(&store, "shop", "t13").is_some(), "byte {at} of {name}");
        drop(store);
        assert_eq!(disk.read_file("MANIFEST"), disk.read_file("MANIFEST.copy"), "both are whole");
    }
    for name in MANIFESTS {
        let disk = copy(&good, 2);
        disk.remove(name).expect("it is there");
        let store = open_inline(&disk, &ManualClock::default(), 9).expect("the other is there");
        assert!(get(&store, "shop", "t13").is_some(), "without {name}");
    }
}

#[test]
fn p1_a_manifest_with_both_files_damaged_is_refused() {
    let good = directory();
    for at in 0..76 {
        let disk = copy(&good, 2);
        MANIFESTS.iter().for_each(|name| disk.corrupt(name, at, 1));
        let error = refused(&disk);
        let OpenError::Damaged { file, .. } = &error else {
            panic!("byte {at}: {error}");
        };
        assert_eq!(file, "MANIFEST", "byte {at}: {error}");
    }
    for length in [0, 1, 75] {
        let disk = directory();
        for name in MANIFESTS {
            let file = disk.open(name).expect("it is there");
            file.set_len(length).expect("a healthy disk cuts it");
        }
        let message = refused(&disk).to_string();
        assert!(message.contains("MANIFEST"), "{message}");
    }
}

#[test]
fn p1_a_journal_without_a_manifest_is_refused() {
    let disk = directory();
    MANIFESTS.iter().for_each(|name| disk.remove(name).expect("it was there"));
    let message = refused(&disk).to_string();
    assert!(message.contains("MANIFEST") && message.contains("missing"), "{message}");
}

#[test]
fn p1_a_segment_of_another_store_is_refused() {
    let (disk, other) = (directory(), SimDisk::new(4));
    drop(open_inline(&other, &ManualClock::default(), 99).expect("a new store opens"));
    put(&disk, "journal/0000000000000001.log", &other.read_file("journal/0000000000000001.log"));
    let message = refused(&disk).to_string();
    assert!(message.contains("another store"), "{message}");
}

#[test]
fn p1_a_segment_that_is_missing_in_the_middle_is_refused() {
    let disk = directory();
    let store = open_inline(&disk, &ManualClock::default(), 3).expect("it opens");
    for i in 20..34 {
        let operation = schedule(&format!("t{i}"), 9_000, LARGE_BYTES);
        apply(&store, "shop", vec![operation]).expect("a healthy disk takes it");
    }
    drop(store);
    disk.remove("journal/0000000000000002.log").expect("it was there");
    let message = refused(&disk).to_string();
    assert!(message.contains("0000000000000002.log"), "{message}");
}

#[test]
fn a_directory_in_use_is_refused_until_it_is_free() {
    let (disk, clock) = (directory(), ManualClock::default());
    let first = open_inline(&disk, &clock, 2).expect("it opens");
    match open_inline(&disk, &clock, 3) {
        Err(OpenError::Disk(error @ Error::Locked { .. })) => {
            assert!(error.to_string().contains("in use"), "{error}");
        }
        other => panic!("a second opening answers {other:?}"),
    }
    assert!(get(&first, "shop", "t1").is_some(), "the first one goes on");
    drop(first);
    assert!(open_inline(&disk, &clock, 4).is_ok(), "the lock goes with its holder");
}

#[test]
fn a_missing_journal_is_refused() {
    let disk = directory();
    for name in disk.names() {
        if name.starts_with("journal/") {
            disk.remove(&name).expect("it is there");
        }
    }
    let message = refused(&disk).to_string();
    assert!(message.contains("the journal is gone"), "{message}");
}
