use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    disk::SimDisk,
    files::Files,
    format::record::Record,
    index::{Key, PackedKey},
    journal::{
        Journal,
        fixture::{Fixture, NAMESPACE, manifest, pending},
    },
    numbered::SEGMENTS,
    options::SEGMENT_BYTES_MIN,
};

use super::*;

mod broken;
mod points;

use broken::{Breaks, BrokenDisk};

/// Number of small records, in frames of a hundred.
const RECORDS: u32 = 40_000;
const FRAME_RECORDS: u32 = 100;

/// Bytes that encode a number.
fn numbered(number: u32) -> PackedKey {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// Makes a journal of many small segments; each record encodes its number.
fn long_journal() -> Fixture {
    let mut fixture = Fixture::new(1);
    for first in (0..RECORDS).step_by(FRAME_RECORDS as usize) {
        let bytes = u64::from(FRAME_RECORDS + 1) * 32;
        if fixture.journal.end + bytes > SEGMENT_BYTES_MIN {
            fixture.roll().expect("room");
        }
        for number in first..first + FRAME_RECORDS {
            fixture.append(&Record::Purged { letter: numbered(number), timer: [0; 12] });
        }
        fixture.sync();
    }
    fixture
}

fn recover_all(
    disk: &dyn Disk,
    each_batch: &mut dyn FnMut(Vec<Replayed>) -> Result<(), OpenError>,
) -> Result<RecoveredJournal, OpenError> {
    recover(disk, &manifest(), None, each_batch, &mut |_| {})
}

fn no() -> OpenError {
    OpenError::Unwritable("no".into())
}

#[test]
fn records_come_in_order_and_in_batches() {
    let fixture = long_journal();
    let mut batches = Vec::new();
    let mut number = 0;
    let found = recover_all(&fixture.disk, &mut |batch| {
        batches.push(batch.len());
        for record in batch {
            let (letter, timer) = (Key::unpack(numbered(number)), Key::unpack([0; 12]));
            assert_eq!(record.effect, Effect::Purged { letter, timer });
            assert_eq!((record.namespace, record.location.bytes_max()), (NAMESPACE, 64));
            assert_eq!(record.lsn, 1 + u64::from(number / FRAME_RECORDS));
            number += 1;
        }
        Ok(())
    })
    .expect("whole");
    assert_eq!((number, found.records), (RECORDS, u64::from(RECORDS)));
    assert!(found.segments.len() > 10, "batches span segments");
    let last = batches.pop().expect("a last one");
    assert!(last > 0 && batches.iter().all(|records| *records == BATCH_RECORDS));
    assert!(batches.len() > BATCHES_AHEAD + 2, "the reader had to wait");
}

#[test]
fn a_failing_consumer_stops_the_reader() {
    let fixture = long_journal();
    // Every segment takes a few reads: most of them must be left.
    let disk = BrokenDisk::new(fixture.disk, Breaks::Panic, 1_000);
    let mut calls = 0;
    let refused = recover_all(&disk, &mut |_| {
        calls += 1;
        Err(no())
    });
    assert!(matches!(refused, Err(OpenError::Unwritable(what)) if what == "no"));
    assert_eq!(calls, 1, "nothing comes after a refusal");
    let read_by_stopped = 1_000 - disk.left();
    recover_all(&disk, &mut |_| Ok(())).expect("whole");
    let read_by_whole = 1_000 - disk.left() - read_by_stopped;
    assert!(read_by_stopped < read_by_whole, "{read_by_stopped} of {read_by_whole}");
}

#[test]
fn a_panic_of_the_consumer_stops_the_reader_and_goes_on() {
    let fixture = long_journal();
    let run = || recover_all(&fixture.disk, &mut |_| panic!("absorb is on fire"));
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it goes on");
    assert_eq!(panic.downcast_ref(), Some(&"absorb is on fire"));
}

#[test]
fn a_panic_of_the_reader_goes_on_in_the_caller() {
    let disk = BrokenDisk::new(long_journal().disk, Breaks::Panic, 10);
    let run = || recover_all(&disk, &mut |_| Ok(()));
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it goes on");
    assert_eq!(panic.downcast_ref(), Some(&"the disk is on fire"));
}

#[test]
fn a_failing_reader_delivers_its_records_before_its_error() {
    let fixture = long_journal();
    let read = |each_batch: &mut dyn FnMut(Vec<Replayed>) -> Result<(), OpenError>| {
        let disk = BrokenDisk::new(fixture.disk.clone(), Breaks::Error, 10);
        recover_all(&disk, each_batch).map(drop).expect_err("a read failed")
    };
    let mut records = 0;
    let error = read(&mut |batch| {
        records += batch.len();
        Ok(())
    });
    assert!(matches!(error, OpenError::Disk(_)), "{error}");
    assert!(records > 0 && records < RECORDS as usize, "{records}");
    // A consumer that refuses the last batch refused something earlier in the journal.
    let mut left = records;
    let error = read(&mut |batch| {
        left -= batch.len();
        if left == 0 { Err(no()) } else { Ok(()) }
    });
    assert!(matches!(error, OpenError::Unwritable(_)), "{error}");
}

#[test]
fn progress_is_told_within_large_segments_and_ends_at_all() {
    let disk = SimDisk::new(1);
    disk.make_dir(SEGMENTS.dir).expect("made");
    let segment_bytes = 64 << 20;
    let mut journal = Journal::new(Arc::new(disk.clone()), &manifest(), segment_bytes);
    journal.adopt(1, RecoveredJournal::nothing(), 0);
    let mut files = Files::default();
    for _ in 0..2 {
        journal.roll(&mut files).expect("room");
        for _ in 0..30 {
            journal.append(NAMESPACE, &pending("large", 1 << 20)).expect("room");
            let mark = journal.commit(0).expect("written").expect("a frame");
            journal.synced(mark.lsn, mark.position);
        }
    }
    let mut told = Vec::new();
    let found = recover(&disk, &manifest(), None, &mut |_| Ok(()), &mut |read_progress| {
        told.push(read_progress);
    })
    .expect("whole");
    assert_eq!(found.records, 60);
    let (what, bytes_total) = (OpenProgress::JOURNAL, 2 * segment_bytes);
    let last = OpenProgress { what, bytes_done: bytes_total, bytes_total };
    assert_eq!(told.last(), Some(&last));
    assert!(told.is_sorted_by_key(|read_progress| read_progress.bytes_done));
    let within: Vec<u64> = told
        .iter()
        .map(|read_progress| read_progress.bytes_done)
        .take_while(|bytes_done| *bytes_done < segment_bytes)
        .map(|bytes_done| bytes_done >> 20)
        .collect();
    assert_eq!(within, [0, 8, 16, 24], "every 8 MiB of 30");
}
