use std::sync::Arc;

use super::*;
use crate::{
    disk::{Fault, SimDisk},
    format::{
        VERSION,
        frame::Seed,
        record,
        sorted_run::{Group, HOUR_MS, Header, RunKind},
    },
    journal::fixture::{id_of, manifest, pending},
    open::{OpenError, Result},
};

impl SortedRunWriter {
    /// Lowers the size at which the run is full.
    fn with_bytes_max(mut self, bytes_max: u64) -> Self {
        self.bytes_max = bytes_max;
        self
    }
}

const ID: u64 = 7;
const FINAL: &str = "runs/0000000000000007.run";

fn header() -> Header {
    let store = manifest().store;
    Header { version: VERSION, store, id: ID, kind: RunKind::Pending, created_at_ms: 5 }
}

fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.make_dir(SORTED_RUNS.dir).unwrap();
    disk.sync_dir("").unwrap();
    disk
}

fn writer(disk: &SimDisk, header: &Header, seed: Seed) -> disk::Result<SortedRunWriter> {
    SortedRunWriter::create(Arc::new(disk.clone()), header, seed, Box::new(|_| {}))
}

fn encoded(id: &str, payload_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    record::encode(&mut bytes, 1, &pending(id, payload_bytes));
    bytes
}

/// The contents of the sorted run in these tests: namespace, time, record.
fn records() -> Vec<(u32, u64, Vec<u8>)> {
    let times = (0..40_u64).map(|n| {
        let (hour, namespace) = (100 + n / 8, 1 + n / 4 % 2);
        (u32::try_from(namespace).unwrap(), hour * HOUR_MS + n, n)
    });
    times.map(|(namespace, time, n)| (namespace, time, encoded(&format!("t{n}"), 150))).collect()
}

fn write_with(disk: &SimDisk, header: &Header, seed: Seed) -> disk::Result<FinishedRun> {
    let mut writer = writer(disk, header, seed)?;
    for (namespace, time_ms, record) in records() {
        assert!(matches!(writer.push(namespace, time_ms, &record)?, PushResult::At(_)));
    }
    let finished = writer.finish()?;
    publish(disk, header.id)?;
    Ok(finished)
}

fn write(disk: &SimDisk) -> disk::Result<FinishedRun> {
    write_with(disk, &header(), manifest().frame_seed())
}

fn opened(disk: &SimDisk) -> Result<SortedRun> {
    open(disk, ID, &manifest())
}

/// Makes a disk with the sorted run on it, and opens the run.
fn written() -> (SimDisk, SortedRun) {
    let disk = disk(1);
    write(&disk).unwrap();
    let run = opened(&disk).unwrap();
    (disk, run)
}

/// Puts other bytes under the file's name.
fn replace(disk: &SimDisk, bytes: &[u8]) {
    disk.remove(FINAL).ok();
    disk.create(FINAL).unwrap().write_at(0, bytes).unwrap();
}

#[test]
fn a_run_opens_as_it_was_written() {
    let disk = disk(1);
    let seed = manifest().frame_seed();
    let mut writer = writer(&disk, &header(), seed).unwrap();
    let mut places = Vec::new();
    for (namespace, time_ms, record) in records() {
        match writer.push(namespace, time_ms, &record).unwrap() {
            PushResult::At(unit) => places.push(unit),
            PushResult::Full => panic!("full"),
        }
    }
    let finished = writer.finish().unwrap();
    assert_eq!(disk.names(), ["runs/0000000000000007.tmp"]);
    publish(&disk, ID).unwrap();
    assert_eq!(disk.names(), [FINAL]);
    assert_eq!(SORTED_RUNS.list(&disk).unwrap(), [ID]);

    let run = opened(&disk).unwrap();
    assert_eq!((run.id, run.kind), (ID, RunKind::Pending));
    assert_eq!((run.length, run.records), (finished.bytes, finished.records));
    assert_eq!((run.length, run.records), (disk.read_file(FINAL).len() as u64, 40));
    assert_eq!((run.time_min_ms, run.time_max_ms), (100 * HOUR_MS, 104 * HOUR_MS + 39));
    let expected: Vec<Group> = (0..10_u32)
        .map(|n| Group {
            hour: 100 + n / 2,
            namespace: 1 + n % 2,
            unit: places[n as usize * 4],
            count: 4,
        })
        .collect();
    assert_eq!(run.groups, expected);

    let bytes = disk.read_file(FINAL);
    let mut at = 64;
    for (number, place) in places.iter().enumerate() {
        assert_eq!(at, *place as usize * 16);
        let decoded = record::decode(&bytes[at..]).unwrap();
        assert_eq!(id_of(&decoded.record), Some(format!("t{number}").as_str()));
        at += records()[number].2.len();
    }
    assert_eq!(at as u64, run.records_end);
    let mut first = vec![0; records()[0].2.len()];
    run.file.read_exact_at(64, &mut first).unwrap();
    assert_eq!(first, records()[0].2);
}

#[test]
fn an_empty_run_opens() {
    let disk = disk(1);
    let finished = writer(&disk, &header(), manifest().frame_seed()).unwrap().finish().unwrap();
    assert_eq!(finished, FinishedRun { bytes: 128, records: 0 });
    publish(&disk, ID).unwrap();
    let run = opened(&disk).unwrap();
    assert_eq!((run.records, run.groups.len(), run.time_min_ms, run.time_max_ms), (0, 0, 0, 0));
}

#[test]
fn every_flipped_byte_outside_records_is_found_in_its_place() {
    let (disk, run) = written();
    for at in (0..64).chain(run.records_end..run.length) {
        disk.corrupt(FINAL, at, 0x10);
        match opened(&disk).unwrap_err() {
            OpenError::Damaged { file, offset, .. } => {
                assert_eq!(file, FINAL);
                let expected = match at {
                    0..64 => 0,
                    _ if at < run.length - 64 => run.records_end,
                    _ => run.length - 64,
                };
                assert_eq!(offset, expected, "byte {at}");
            }
            other => panic!("byte {at}: {other}"),
        }
        disk.corrupt(FINAL, at, 0x10);
    }
    opened(&disk).unwrap();
}

#[test]
fn every_truncation_and_extension_is_noticed() {
    let (disk, run) = written();
    let bytes = disk.read_file(FINAL);
    let cuts = (0..run.length).step_by(16).chain([run.length - 1]);
    for end in cuts {
        replace(&disk, &bytes[..usize::try_from(end).unwrap()]);
        let error = opened(&disk).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "cut at {end}: {error}");
    }
    for more in [1, 16, 64, 5000] {
        replace(&disk, &[&bytes[..], &vec![0; more]].concat());
        assert!(opened(&disk).is_err(), "{more} zeros more");
    }
    replace(&disk, &bytes);
    disk.open(FINAL).unwrap().set_len(RUN_TOO_LONG).unwrap();
    assert!(opened(&disk).unwrap_err().to_string().contains("no run has"));
}

#[test]
fn a_group_has_an_entry_for_each_chunk() {
    let disk = disk(1);
    let seed = manifest().frame_seed();
    let mut writer = writer(&disk, &header(), seed).unwrap().with_chunk_bytes(4096);
    let mut starts = Vec::new();
    for number in 0..40 {
        // The records are of one hour, except the last few; every eighth is longer than a chunk.
        let bytes = if number % 8 == 7 { 9_000 } else { 400 };
        let hour = if number < 36 { 100 } else { 101 };
        match writer.push(1, hour * HOUR_MS + number, &encoded("t", bytes)).unwrap() {
            PushResult::At(unit) => starts.push((hour, u64::from(unit) * 16 / 4096, unit)),
            PushResult::Full => panic!("full"),
        }
    }
    writer.finish().unwrap();
    publish(&disk, ID).unwrap();
    let run = opened(&disk).unwrap();
    starts.dedup_by_key(|(hour, piece, _)| (*hour, *piece));
    let expected: Vec<u32> = starts.iter().map(|(_, _, unit)| *unit).collect();
    let units: Vec<u32> = run.groups.iter().map(|group| group.unit).collect();
    assert!(units == expected && units.len() > 6, "{units:?}, not {expected:?}");
    assert_eq!(run.groups.iter().map(|group| group.count).sum::<u32>(), 40);
}

/// Returns the time that a run of pending timers is sorted by.
fn time_of(record: &[u8]) -> u64 {
    match record::decode(record).unwrap().record {
        record::Record::Pending(_, timer) => timer.due_at.unix_ms(),
        other => panic!("{other:?}"),
    }
}

/// Makes a run with chunks of 4 KiB, and returns the places of its records.
fn in_pieces(seed: u64) -> (SimDisk, Vec<u64>) {
    let disk = disk(seed);
    let writer = writer(&disk, &header(), manifest().frame_seed()).unwrap();
    let mut writer = writer.with_chunk_bytes(4096);
    let mut places = Vec::new();
    for number in 0..300 {
        let record = encoded(&format!("t{number}"), 100 + number as usize % 7 * 90);
        match writer.push(1, time_of(&record), &record).unwrap() {
            PushResult::At(unit) => places.push(u64::from(unit) * 16),
            PushResult::Full => panic!("full"),
        }
    }
    writer.finish().unwrap();
    publish(&disk, ID).unwrap();
    (disk, places)
}

#[test]
fn a_walk_passes_torn_holes_and_finds_the_records_behind() {
    let mut torn = 0;
    for seed in 0..200 {
        let (disk, places) = in_pieces(seed);
        let file = disk.open(FINAL).unwrap();
        let holes = [4096..3 * 4096, 5 * 4096..6 * 4096, 20 * 4096..28 * 4096];
        for hole in &holes {
            file.punch_hole(hole.start, hole.end - hole.start).unwrap();
        }
        drop(file);
        let after = if seed % 4 == 0 { disk.kill() } else { disk.crash() };
        let run = opened(&after).unwrap();
        let known: u64 = run.holes.iter().map(|hole| hole.end - hole.start).sum();
        torn += u64::from(![0, 11 * 4096].contains(&known));
        let mut met = Vec::new();
        assert_eq!(walk(&run, &mut |at, _| met.push(at)).unwrap(), [], "seed {seed}");
        let ends = places.iter().skip(1).copied().chain([run.records_end]);
        for (at, end) in places.iter().zip(ends) {
            let is_whole = holes.iter().all(|hole| end <= hole.start || *at >= hole.end);
            assert!(!is_whole || met.contains(at), "seed {seed}: the record at {at}");
        }
    }
    assert!(torn > 50, "{torn}");
}

#[test]
fn a_walk_finds_damage_beside_a_hole() {
    let (disk, places) = in_pieces(1);
    disk.open(FINAL).unwrap().punch_hole(4096, 2 * 4096).unwrap();
    for place in
        [places[0], *places.last().unwrap(), *places.iter().find(|at| **at > 12_288).unwrap()]
    {
        for at in [place, place + 5, place + 40] {
            disk.corrupt(FINAL, at, 0x40);
            let wrong = walk(&opened(&disk).unwrap(), &mut |_, _| {}).unwrap();
            assert_eq!(wrong.first().map(|(at, _)| *at), Some(place), "byte {at}: {wrong:?}");
            disk.corrupt(FINAL, at, 0x40);
        }
    }
}

const RUN_TOO_LONG: u64 = (256 << 20) + 16;

#[test]
fn a_missing_run_and_one_of_something_else_are_refused() {
    let (sim, _) = written();
    assert!(matches!(open(&sim, 8, &manifest()).unwrap_err(), OpenError::Disk(_)));
    sim.rename(FINAL, &SORTED_RUNS.name(8)).unwrap();
    let error = open(&sim, 8, &manifest()).unwrap_err();
    assert!(error.to_string().contains("renamed"), "{error}");

    let seed = manifest().frame_seed();
    let refused = |header: Header, seed: Seed| {
        let disk = disk(1);
        write_with(&disk, &header, seed).unwrap();
        opened(&disk).unwrap_err()
    };
    let error = refused(Header { store: 1, ..header() }, seed);
    assert!(error.to_string().contains("another store"), "{error}");
    let error = refused(header(), Seed::of(1));
    assert!(error.to_string().contains("the checksum differs"), "{error}");
    let error = refused(Header { version: VERSION + 1, ..header() }, seed);
    assert!(matches!(error, OpenError::Newer { found, .. } if found == VERSION + 1), "{error}");
    let error = refused(Header { version: 0, ..header() }, seed);
    assert!(matches!(error, OpenError::Older { found: 0, .. }), "{error}");
}

#[test]
fn a_trailer_of_another_run_is_noticed() {
    let (disk, run) = written();
    let bytes = disk.read_file(FINAL);
    let other = Header { id: 8, ..header() };
    write_with(&disk, &other, manifest().frame_seed()).unwrap();
    let other_bytes = disk.read_file(&SORTED_RUNS.name(8));
    let split = bytes.len() - 64;
    replace(&disk, &[&bytes[..split], &other_bytes[split..]].concat());
    let error = opened(&disk).unwrap_err();
    let at = run.length - 48;
    assert!(matches!(error, OpenError::Damaged { offset, .. } if offset == at), "{error}");
}

#[test]
fn a_run_says_when_it_is_full_and_never_grows_past_its_limit() {
    let record = encoded("t", 100);
    let length = record.len() as u64;
    for limit in 128..128 + 4 * (length + 16) {
        let disk = disk(1);
        let mut writer =
            writer(&disk, &header(), manifest().frame_seed()).unwrap().with_bytes_max(limit);
        let mut pushed = 0;
        // Each second record begins a group.
        while writer.push(1, pushed / 2 * HOUR_MS, &record).unwrap() != PushResult::Full {
            pushed += 1;
        }
        assert_eq!(writer.push(1, pushed / 2 * HOUR_MS, &record).unwrap(), PushResult::Full);
        let finished = writer.finish().unwrap();
        assert_eq!(finished.records, pushed);
        assert!(finished.bytes <= limit, "{finished:?} within {limit}");
        let next = length + if pushed.is_multiple_of(2) { 16 } else { 0 };
        assert!(finished.bytes + next > limit, "{finished:?} leaves room in {limit}");
        publish(&disk, ID).unwrap();
        assert_eq!(opened(&disk).unwrap().records, pushed);
    }
}

#[test]
#[should_panic(expected = "comes behind")]
fn unsorted_records_are_an_error_of_the_caller() {
    let mut writer = writer(&disk(1), &header(), manifest().frame_seed()).unwrap();
    writer.push(2, HOUR_MS, &encoded("a", 0)).unwrap();
    writer.push(1, HOUR_MS, &encoded("b", 0)).unwrap();
}

#[test]
#[should_panic(expected = "not padded")]
fn an_unpadded_record_is_an_error_of_the_caller() {
    let mut writer = writer(&disk(1), &header(), manifest().frame_seed()).unwrap();
    writer.push(1, 0, &[0; 17]).unwrap();
}

#[test]
fn a_crash_at_every_disk_operation_leaves_a_whole_run_or_none() {
    let whole = disk(0);
    let before = whole.ops();
    write(&whole).unwrap();
    let ops = whole.ops() - before;
    assert!(ops > 10, "writes, write-backs, sync, rename, directory: {ops}");
    let mut outcomes = std::collections::BTreeSet::new();
    for at_op in 1..=ops {
        for seed in 0..20 {
            let disk = disk(seed);
            disk.plan(Fault::CrashAtOp(at_op));
            write(&disk).unwrap_err();
            for after in [disk.crash(), disk.kill()] {
                let found = SORTED_RUNS.list(&after).unwrap();
                if found.is_empty() {
                    outcomes.insert("none");
                } else {
                    assert_eq!(opened(&after).unwrap().records, 40, "op {at_op}, seed {seed}");
                    assert!(after.read_file(FINAL) == whole.read_file(FINAL));
                    outcomes.insert("whole");
                }
                SORTED_RUNS.remove_temporaries(&after).unwrap();
                write(&after).unwrap();
                assert_eq!(after.crash().names(), [FINAL], "the next attempt succeeds");
            }
        }
    }
    assert_eq!(outcomes, ["none", "whole"].into());
    assert!(write(&disk(0)).is_ok(), "no crash behind the last operation");
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
            assert!(error.to_string().contains("runs"), "{error}");
            // After the rename only the sync of the directory can fail: the file is complete.
            let names = disk.names();
            assert!(names.is_empty() || names == [FINAL], "{names:?}");
            if !names.is_empty() {
                opened(&disk).unwrap();
            }
        }
    }
    assert!(strikes > 10, "{strikes}");
    let disk = disk(1);
    disk.set_free_bytes(0);
    assert!(write(&disk).unwrap_err().is_no_space());
}
