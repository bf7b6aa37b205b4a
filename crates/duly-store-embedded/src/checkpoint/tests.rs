use std::{collections::BTreeSet, sync::Arc};

use super::*;
use crate::open::OpenError;
use crate::{
    disk::{self, Fault, SimDisk},
    format::{
        VERSION,
        checkpoint::{
            Block, DeadLetterEntry, End, Entries, FileId, FileSlot, Header, IndexKind,
            MultipleDeadLetters, Namespace, ReplayPoint, append_entry,
        },
        frame::Seed,
        record::Record,
    },
    journal::fixture::{self, manifest},
};

impl CheckpointReader {
    /// Returns the next block before the end, or `None` after the last. After an error the reader is of
    /// no further use.
    pub(crate) fn next(&mut self) -> Result<Option<Block<'_>>> {
        let checked = self.next_checked()?;
        let decoded = checked.map(|(header, payload)| Block::decode(&header, payload));
        Ok(decoded.map(|block| block.expect("it was decoded before")))
    }
}

const NUMBER: u64 = 3;
const FINAL: &str = "checkpoints/0000000000000003.ckp";

fn header() -> Header {
    Header {
        version: VERSION,
        store: manifest().store,
        number: NUMBER,
        replay: ReplayPoint { sequence: 7, offset: 64, lsn: 100, epoch: 2 },
        begun_at_ms: 1_900,
        retry_due_max_ms: 1_700,
        steady_ms: 1_800,
    }
}

fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.make_dir(CHECKPOINTS.dir).unwrap();
    disk.sync_dir("").unwrap();
    disk
}

fn writer(disk: &SimDisk, header: &Header, seed: Seed) -> disk::Result<CheckpointWriter> {
    CheckpointWriter::create(Arc::new(disk.clone()), header, seed, Box::new(|_| {}))
}

fn entries(count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    (1..=count).for_each(|n| append_entry(&mut bytes, [n, n << 20, n << 40]));
    bytes
}

/// The blocks of the checkpoint in these tests; they are shorter and longer than a window.
fn blocks(entries: &[u8]) -> Vec<Block<'_>> {
    let namespace = |number, name| {
        let Record::Namespace(record) = fixture::namespace(name) else {
            panic!("another record");
        };
        let (record, lanes) = (*record, Vec::new());
        Block::Namespace(Box::new(Namespace {
            number,
            lsn: 99,
            record,
            lanes,
            counts: [1, 2, 3, 4],
        }))
    };
    let letter = DeadLetterEntry { timer: [1; 12], dead_lettered_ms: 2, letter: [3; 12] };
    let file = FileSlot { slot: 1, id: FileId::Segment(7) };
    vec![
        namespace(1, "shop"),
        Block::Entries(Entries::new(1, IndexKind::Live, entries)),
        Block::Entries(Entries::new(1, IndexKind::Tombstones, &entries[..24 * 3])),
        namespace(4, "mail"),
        Block::Entries(Entries::new(4, IndexKind::Live, &entries[..24])),
        Block::Files(vec![file; 3]),
        Block::MultipleDeadLetters(MultipleDeadLetters {
            namespace: 4,
            dead_letters: vec![letter; 31],
        }),
    ]
}

fn write_with(disk: &SimDisk, header: &Header, seed: Seed) -> disk::Result<FinishedCheckpoint> {
    let mut writer = writer(disk, header, seed)?;
    for block in blocks(&entries(150)) {
        writer.block(&block)?;
    }
    writer.finish(9)
}

fn write(disk: &SimDisk) -> disk::Result<FinishedCheckpoint> {
    write_with(disk, &header(), manifest().frame_seed())
}

/// Reads all of it and returns its end.
fn read(disk: &SimDisk) -> Result<End> {
    let mut reader = CheckpointReader::open(disk, NUMBER, &manifest())?;
    let mut at = 0;
    let gathered = entries(150);
    let expected = blocks(&gathered);
    while let Some(block) = reader.next()? {
        assert_eq!(Some(&block), expected.get(at), "block {at}");
        at += 1;
    }
    assert!(reader.next()?.is_none(), "the end stays the end");
    assert_eq!(at, expected.len());
    Ok(reader.end)
}

/// Reads all of it without comparing it.
fn read_through(disk: &SimDisk) -> Result<()> {
    let mut reader = CheckpointReader::open(disk, NUMBER, &manifest())?;
    while reader.next()?.is_some() {}
    Ok(())
}

fn damage_of(disk: &SimDisk) -> (u64, String) {
    match read(disk).unwrap_err() {
        OpenError::Damaged { file, offset, what } => {
            assert_eq!(file, FINAL);
            (offset, what)
        }
        other => panic!("{other}"),
    }
}

/// Puts other bytes under the checkpoint's name.
fn replace(disk: &SimDisk, bytes: &[u8]) {
    disk.remove(FINAL).ok();
    disk.create(FINAL).unwrap().write_at(0, bytes).unwrap();
}

/// Returns the start of each block and of its padding, the end block included.
fn places(bytes: &[u8]) -> Vec<(u64, u64)> {
    let mut places = Vec::new();
    let mut at = 96;
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        places.push((at as u64, (at + 16 + length) as u64));
        at += (16 + length).next_multiple_of(16);
    }
    places
}

#[test]
fn a_checkpoint_reads_back_as_it_was_written() {
    let disk = disk(1);
    let finished = write(&disk).unwrap();
    assert_eq!(disk.names(), [FINAL]);
    assert_eq!(finished.bytes, disk.read_file(FINAL).len() as u64);
    let end = End { blocks: 7, namespaces: 2, entries: 154, highest_namespace: 9 };
    assert_eq!(finished.end, end);
    assert_eq!(read(&disk).unwrap(), end);
    let reader = CheckpointReader::open(&disk, NUMBER, &manifest()).unwrap();
    assert_eq!(reader.header, header());
}

#[test]
fn a_checkpoint_of_nothing_reads_back() {
    let disk = disk(1);
    let writer = writer(&disk, &header(), manifest().frame_seed()).unwrap();
    assert_eq!(
        writer.finish(0).unwrap(),
        FinishedCheckpoint { bytes: 96 + 48, end: End::default() }
    );
    let mut reader = CheckpointReader::open(&disk, NUMBER, &manifest()).unwrap();
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn checkpoints_are_listed_and_foreign_names_are_refused() {
    let disk = disk(1);
    assert_eq!(CHECKPOINTS.list(&disk).unwrap(), [0; 0]);
    for number in [3, 12, 4] {
        write_with(&disk, &Header { number, ..header() }, manifest().frame_seed()).unwrap();
    }
    disk.create("checkpoints/0000000000000013.tmp").unwrap();
    assert_eq!(CHECKPOINTS.list(&disk).unwrap(), [3, 4, 12]);
    disk.create("checkpoints/copy.ckp").unwrap();
    let error = CHECKPOINTS.list(&disk).unwrap_err();
    assert!(error.to_string().starts_with("checkpoints/copy.ckp is damaged"), "{error}");
}

#[test]
fn every_flipped_byte_except_padding_is_found_at_its_block() {
    let disk = disk(1);
    write(&disk).unwrap();
    let bytes = disk.read_file(FINAL);
    let places = places(&bytes);
    assert_eq!(places.len(), 8);
    for at in 0..bytes.len() as u64 {
        disk.corrupt(FINAL, at, 0x10);
        match places.iter().rev().find(|(start, _)| *start <= at) {
            Some((_, padding)) if at >= *padding => {
                read(&disk).unwrap();
            }
            block => {
                let start = block.map_or(0, |(start, _)| *start);
                assert_eq!(damage_of(&disk).0, start, "byte {at}");
            }
        }
        disk.corrupt(FINAL, at, 0x10);
    }
    read(&disk).unwrap();
}

#[test]
fn truncations_and_extensions_are_found_before_any_block() {
    let disk = disk(1);
    write(&disk).unwrap();
    let bytes = disk.read_file(FINAL);
    for end in (0..bytes.len()).step_by(16).chain([bytes.len() - 1]) {
        replace(&disk, &bytes[..end]);
        let error = CheckpointReader::open(&disk, NUMBER, &manifest()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "cut at {end}: {error}");
    }
    for more in [1, 16, 48, 5_000] {
        replace(&disk, &[&bytes[..], &vec![0; more]].concat());
        assert!(CheckpointReader::open(&disk, NUMBER, &manifest()).is_err(), "{more} zeros more");
    }
}

#[test]
fn blocks_that_are_missing_doubled_or_absurd_are_noticed() {
    let disk = disk(1);
    write(&disk).unwrap();
    let bytes = disk.read_file(FINAL);
    let places = places(&bytes);
    let end_at = usize::try_from(places[7].0).unwrap();
    for (index, pair) in places.windows(2).enumerate() {
        let [from, to] = [pair[0].0, pair[1].0].map(|at| usize::try_from(at).unwrap());
        let cases = [
            ("missing", [&bytes[..from], &bytes[to..]].concat()),
            ("twice", [&bytes[..to], &bytes[from..]].concat()),
            ("zeros", [&bytes[..from], &vec![0; to - from], &bytes[to..]].concat()),
            ("an end", [&bytes[..from], &bytes[end_at..], &bytes[to..]].concat()),
        ];
        for (case, damaged) in cases {
            replace(&disk, &damaged);
            let outcome = read_through(&disk);
            assert!(
                matches!(outcome, Err(OpenError::Damaged { .. })),
                "block {index}, {case}: {outcome:?}"
            );
        }
        for length in [u32::MAX, 4 << 20, (4 << 20) + 1, 0, 1 << 16] {
            let mut damaged = bytes.clone();
            damaged[from + 4..from + 8].copy_from_slice(&length.to_le_bytes());
            replace(&disk, &damaged);
            assert_eq!(damage_of(&disk).0, from as u64, "a length of {length}");
        }
    }
}

#[test]
fn a_block_without_its_padding_is_noticed() {
    let disk = disk(1);
    write(&disk).unwrap();
    let bytes = disk.read_file(FINAL);
    let places = places(&bytes);
    let mut padded = Vec::new();
    for (index, pair) in places.windows(2).enumerate() {
        let [(_, padding), (next, _)] = [pair[0], pair[1]];
        if padding == next {
            continue;
        }
        padded.push(index);
        let [padding, next] = [padding, next].map(|at| usize::try_from(at).unwrap());
        replace(&disk, &[&bytes[..padding], &bytes[next..]].concat());
        let outcome = read_through(&disk);
        assert!(matches!(outcome, Err(OpenError::Damaged { .. })), "block {index}: {outcome:?}");
    }
    assert!(padded.len() > 1 && padded.ends_with(&[6]), "also the last one: {padded:?}");
}

#[test]
fn an_end_with_wrong_counts_is_noticed() {
    let seed = manifest().frame_seed();
    let disk = disk(1);
    write(&disk).unwrap();
    let bytes = disk.read_file(FINAL);
    let end_at = bytes.len() - 48;
    let good = read(&disk).unwrap();
    let wrong = [
        End { blocks: 8, ..good },
        End { blocks: 6, ..good },
        End { namespaces: 1, ..good },
        End { entries: 155, ..good },
        End { entries: u64::MAX, ..good },
        End { highest_namespace: 3, ..good },
    ];
    for end in wrong {
        let mut damaged = bytes[..end_at].to_vec();
        Block::End(end).encode(&mut damaged, seed);
        replace(&disk, &damaged);
        assert_eq!(damage_of(&disk).0, end_at as u64, "{end:?}");
    }
    let mut damaged = bytes[..end_at].to_vec();
    Block::End(End { entries: 1 << 40, ..good }).encode(&mut damaged, seed);
    replace(&disk, &damaged);
    assert!(
        CheckpointReader::open(&disk, NUMBER, &manifest()).is_err(),
        "no space is freed for those"
    );
}

#[test]
fn a_missing_checkpoint_and_one_of_something_else_are_refused() {
    let seed = manifest().frame_seed();
    let refused = |header: Header, seed: Seed| {
        let disk = disk(1);
        write_with(&disk, &header, seed).unwrap();
        read(&disk).unwrap_err()
    };
    assert!(matches!(read(&disk(1)).unwrap_err(), OpenError::Disk(_)));
    let error = refused(Header { store: 1, ..header() }, seed);
    assert!(error.to_string().contains("another store"), "{error}");
    let error = refused(header(), Seed::of(1));
    assert!(error.to_string().contains("the checksum differs"), "{error}");
    let error = refused(Header { version: VERSION + 1, ..header() }, seed);
    assert!(matches!(error, OpenError::Newer { found, .. } if found == VERSION + 1), "{error}");
    let error = refused(Header { version: 0, ..header() }, seed);
    assert!(matches!(error, OpenError::Older { found: 0, .. }), "{error}");

    let disk = disk(1);
    write_with(&disk, &Header { number: 4, ..header() }, seed).unwrap();
    disk.rename(&CHECKPOINTS.name(4), FINAL).unwrap();
    assert!(damage_of(&disk).1.contains("renamed"));
}

#[test]
#[should_panic(expected = "ends by being finished")]
fn an_end_in_the_middle_is_an_error_of_the_caller() {
    let mut writer = writer(&disk(1), &header(), manifest().frame_seed()).unwrap();
    writer.block(&Block::End(End::default())).unwrap();
}

#[test]
fn a_crash_leaves_a_complete_checkpoint_or_none() {
    let whole = disk(0);
    let before = whole.ops();
    write(&whole).unwrap();
    let ops = whole.ops() - before;
    assert!(ops > 9, "writes, a write-back, sync, rename, directory: {ops}");
    let mut outcomes = BTreeSet::new();
    for at_op in 1..=ops {
        for seed in 0..20 {
            let disk = disk(seed);
            disk.plan(Fault::CrashAtOp(at_op));
            write(&disk).unwrap_err();
            for after in [disk.crash(), disk.kill()] {
                if CHECKPOINTS.list(&after).unwrap().is_empty() {
                    outcomes.insert("none");
                } else {
                    read(&after).unwrap_or_else(|e| panic!("op {at_op}, seed {seed}: {e}"));
                    outcomes.insert("whole");
                }
                write(&after).unwrap();
                let after = after.crash();
                assert_eq!(after.names(), [FINAL], "the next attempt succeeds");
                read(&after).unwrap();
            }
        }
    }
    assert_eq!(outcomes, ["none", "whole"].into());
    assert!(write(&disk(0)).is_ok(), "no crash behind the last operation");
}

#[test]
fn a_checkpoint_that_is_finished_survives_every_crash() {
    for seed in 0..50 {
        let disk = disk(seed);
        write(&disk).unwrap();
        read(&disk.crash()).unwrap();
    }
}

#[test]
fn every_error_is_reported_and_leaves_no_temporary() {
    let mut strikes = 0;
    let faults: [fn(u64) -> Fault; 3] =
        [Fault::NoSpaceAtWrite, Fault::ErrorAtWriteBack, Fault::ErrorAtSync];
    for fault in faults {
        for at in 1.. {
            let disk = disk(at);
            disk.plan(fault(at));
            let Err(error) = write(&disk) else {
                break;
            };
            strikes += 1;
            assert!(error.to_string().contains("checkpoints"), "{error}");
            // After the rename only the sync of the directory can fail: the checkpoint is complete.
            let names = disk.names();
            assert!(names.is_empty() || names == [FINAL], "{names:?}");
            if !names.is_empty() {
                read(&disk).unwrap();
            }
        }
    }
    assert!(strikes > 8, "{strikes}");
    let disk = disk(1);
    disk.set_free_bytes(2_000);
    assert!(write(&disk).unwrap_err().is_no_space());
    assert_eq!(disk.names(), [""; 0]);
    assert_eq!(disk.space().unwrap().free_bytes, 2_000, "its room is free again");
}
