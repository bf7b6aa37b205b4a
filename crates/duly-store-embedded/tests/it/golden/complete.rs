//! Checks that a golden directory has every kind of record, block, sorted run and file that the page
//! about the format names. A new kind in the page must be written here.

use std::{collections::BTreeSet, fs, path::Path};

use super::{golden, present};

const SEGMENT_HEADER_BYTES: usize = 64;
const RUN_HEADER_BYTES: usize = 64;
const FRAME_HEADER_BYTES: usize = 48;
const CHECKPOINT_HEADER_BYTES: usize = 96;
const HEADER_BYTES: usize = 16;

/// Returns the kinds in the table of the page that begins with this line.
fn documented(table: &str) -> BTreeSet<u32> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/internals/disk-format.md");
    let page = fs::read_to_string(path).expect("the page is committed");
    let (_, rows) = page.split_once(table).expect("the page has this table");
    // From the line under the headings to the end of the table.
    let rows = rows.lines().skip(2).take_while(|line| line.starts_with('|'));
    let kinds: BTreeSet<u32> = rows
        .map(|row| row.split('|').nth(1).expect("a column").trim())
        .map(|kind| kind.parse().expect("a number"))
        .collect();
    assert!(kinds.len() > 2, "the table is read: {kinds:?}");
    kinds
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    let bytes = bytes[at..at + 4].try_into().expect("four bytes");
    usize::try_from(u32::from_le_bytes(bytes)).expect("a small number")
}

/// Returns the complete files of a folder with this suffix.
fn files(folder: &str, suffix: &str) -> Vec<Vec<u8>> {
    let folder = golden(&present()).join(folder);
    let paths = fs::read_dir(folder).expect("listed").map(|entry| entry.expect("listed").path());
    let paths = paths.filter(|path| path.extension().is_some_and(|found| found == suffix));
    paths.map(|path| fs::read(path).expect("read")).collect()
}

/// Kind and cause of consecutive records.
type Kinds = BTreeSet<(u32, u32)>;

fn kinds_of(mut records: &[u8]) -> Kinds {
    let mut kinds = Kinds::new();
    while !records.is_empty() {
        kinds.insert((u32::from(records[8]), u32::from(records[9])));
        let bytes = HEADER_BYTES + u32_at(records, 4);
        records = &records[bytes.next_multiple_of(16)..];
    }
    kinds
}

fn kinds_in_segment(segment: &[u8]) -> Kinds {
    let (mut kinds, mut at) = (Kinds::new(), SEGMENT_HEADER_BYTES);
    while segment.get(at..at + 4) == Some(b"DLYf") {
        let records = at + FRAME_HEADER_BYTES;
        at = records + u32_at(segment, at + 4);
        kinds.extend(kinds_of(&segment[records..at]));
    }
    kinds
}

fn kinds_in_checkpoint(checkpoint: &[u8]) -> BTreeSet<u32> {
    let (mut kinds, mut at) = (BTreeSet::new(), CHECKPOINT_HEADER_BYTES);
    while at < checkpoint.len() {
        kinds.insert(u32::try_from(u32_at(checkpoint, at)).expect("a small number"));
        at += HEADER_BYTES + u32_at(checkpoint, at + 4).next_multiple_of(16);
    }
    kinds
}

#[test]
fn the_golden_directory_has_every_record_kind_and_cause() {
    let segments = files("journal", "log");
    let mut found: Kinds = segments.iter().flat_map(|bytes| kinds_in_segment(bytes)).collect();
    let kinds: BTreeSet<u32> = found.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, documented("\n| kind | | body | means |"));
    for run in files("runs", "run") {
        let directory_at = u32_at(&run, run.len() - 32);
        found.extend(kinds_of(&run[RUN_HEADER_BYTES..directory_at]));
    }
    let causes: BTreeSet<u32> =
        found.iter().map(|(_, cause)| *cause).filter(|it| *it > 0).collect();
    assert_eq!(causes, documented("\n| cause | |"));
}

#[test]
fn a_closing_frame_stands_in_the_journal() {
    let mut closing = 0;
    for segment in files("journal", "log") {
        let mut at = SEGMENT_HEADER_BYTES;
        while segment.get(at..at + 4) == Some(b"DLYf") {
            let records = u32_at(&segment, at + 4);
            closing += u32::from(records == 0);
            at += FRAME_HEADER_BYTES + records;
        }
    }
    assert!(closing > 0, "there is none");
}

#[test]
fn every_kind_of_block_stands_in_a_checkpoint() {
    let checkpoints = files("checkpoints", "ckp");
    let found: BTreeSet<u32> = checkpoints.iter().flat_map(|it| kinds_in_checkpoint(it)).collect();
    assert_eq!(found, documented("\n| kind | | payload |"));
}

#[test]
fn there_are_runs_of_each_kind_and_files_of_each_suffix() {
    let runs = files("runs", "run");
    let kinds: BTreeSet<u8> = runs.iter().map(|run| run[40]).collect();
    assert_eq!(kinds, BTreeSet::from([1, 2, 3]), "pending timers, tombstones, dead letters");
    for (folder, suffix) in [("journal", "log"), ("journal", "old"), ("checkpoints", "ckp")] {
        assert!(!files(folder, suffix).is_empty(), "no {folder}/*.{suffix}");
    }
}
