//! Replay from a point: the parts that are not read, that must exist, and that are refused.

use crate::{
    disk::SimDisk,
    format::segment,
    index::Key,
    journal::{Position, fixture::FIRST},
    numbered::SEGMENTS,
};

use crate::open::Tail;

use super::*;

/// Returns the present end of the journal.
fn end_of(fixture: &Fixture) -> ReplayPoint {
    let mark = fixture.journal.durable;
    ReplayPoint {
        sequence: mark.sequence,
        offset: mark.offset,
        lsn: fixture.journal.next_lsn,
        epoch: fixture.journal.epoch,
    }
}

/// Returns the keys of the records from `from` on, and the result of recovery.
fn keys(
    disk: &SimDisk,
    fixture: &Fixture,
    from: ReplayPoint,
) -> Result<(Vec<Key>, RecoveredJournal), OpenError> {
    let mut keys = Vec::new();
    let mut each_batch = |batch: Vec<Replayed>| {
        for record in batch {
            match record.effect {
                Effect::Pending(pending) => keys.push(pending.key),
                other => panic!("not a timer: {other:?}"),
            }
        }
        Ok(())
    };
    let found = recover(disk, &fixture.manifest, Some(from), &mut each_batch, &mut |_| {})?;
    Ok((keys, found))
}

fn key(id: &str) -> Key {
    Key::of(manifest().hash_key, NAMESPACE, id)
}

/// Makes four segments with two timers each; the point is between the two of the third.
fn journal_with_point() -> (Fixture, ReplayPoint) {
    let mut fixture = Fixture::new(1);
    let mut point = None;
    for n in 1..=4 {
        fixture.frame(&format!("{n}a"), 0);
        if n == 3 {
            point = Some(end_of(&fixture));
        }
        fixture.frame(&format!("{n}b"), 0);
        if n < 4 {
            fixture.roll().expect("room");
        }
    }
    (fixture, point.expect("set in the third"))
}

fn refused(disk: &SimDisk, fixture: &Fixture, from: ReplayPoint, file: &str, at: u64) {
    let error = keys(disk, fixture, from).map(drop).expect_err("refused");
    let is_right = matches!(
        &error,
        OpenError::Damaged { file: named, offset, .. } if named == file && *offset == at
    );
    assert!(is_right, "{file} at {at}: {error}");
}

#[test]
fn only_the_journal_behind_the_point_is_read_and_needed() {
    let (fixture, point) = journal_with_point();
    assert_eq!((point.sequence, point.lsn), (3, 6));
    let (read, found) = keys(&fixture.disk, &fixture, point).expect("whole");
    assert_eq!(read, [key("3b"), key("4a"), key("4b")]);
    assert_eq!((found.frames, found.records, found.next_lsn), (3, 3, 9));
    let places: Vec<(u64, u16)> =
        found.segments.iter().map(|segment| (segment.sequence, segment.slot)).collect();
    assert_eq!(places, [(3, 0), (4, 1)]);
    assert_eq!(found.segments[1].end, fixture.journal.end);
    assert!(found.tail != Tail::Unknown && found.unused.is_none());

    // The part before the point may be damaged, have gaps, or be gone.
    fixture.disk.corrupt(FIRST, 70, 1);
    fixture.disk.corrupt(&SEGMENTS.name(3), point.offset - 20, 1);
    fixture.disk.remove(&SEGMENTS.name(2)).expect("removed");
    assert_eq!(keys(&fixture.disk, &fixture, point).expect("whole").0, read);
    fixture.disk.remove(FIRST).expect("removed");
    assert_eq!(keys(&fixture.disk, &fixture, point).expect("whole").0, read);
}

#[test]
fn a_point_at_either_end_of_a_segment_is_one() {
    let (fixture, point) = journal_with_point();
    let begin = ReplayPoint { offset: segment::HEADER_BYTES, lsn: 5, ..point };
    assert_eq!(keys(&fixture.disk, &fixture, begin).expect("whole").0.len(), 4);
    let (read, found) = keys(&fixture.disk, &fixture, end_of(&fixture)).expect("whole");
    assert!(read.is_empty());
    assert_eq!((found.next_lsn, found.segments.len()), (9, 1));
    assert_eq!(found.segments[0].end, fixture.journal.end, "where the next frame goes");
    found.segments[0].make_durable().expect("nothing is unsure");
    let sealed_end =
        ReplayPoint { offset: point.offset * 2 - segment::HEADER_BYTES, lsn: 7, ..point };
    assert_eq!(keys(&fixture.disk, &fixture, sealed_end).expect("whole").0.len(), 2);
}

#[test]
fn segments_from_the_point_on_must_exist() {
    let (fixture, point) = journal_with_point();
    let without = |sequence: u64| {
        let (damaged, _) = journal_with_point();
        damaged.disk.remove(&SEGMENTS.name(sequence)).expect("removed");
        damaged.disk
    };
    refused(&without(3), &fixture, point, &SEGMENTS.name(3), 0);
    // The newest may have been removed by hand; that cannot be known, with or without a point.
    assert_eq!(keys(&without(4), &fixture, point).expect("whole").0, [key("3b")]);
    let early = ReplayPoint { sequence: 2, offset: segment::HEADER_BYTES, lsn: 3, ..point };
    refused(&without(3), &fixture, early, &SEGMENTS.name(3), 0);
    let late = ReplayPoint { sequence: 5, offset: segment::HEADER_BYTES, lsn: 9, ..point };
    refused(&fixture.disk, &fixture, late, &SEGMENTS.name(5), 0);
    refused(&SimDisk::new(1), &fixture, point, &SEGMENTS.name(3), 0);
}

#[test]
fn the_header_of_the_points_segment_is_checked() {
    let (fixture, point) = journal_with_point();
    let third = SEGMENTS.name(3);
    fixture.disk.corrupt(&third, 40, 1);
    refused(&fixture.disk, &fixture, point, &third, 0);
    fixture.disk.corrupt(&third, 40, 1);
    // Also if the segment looks never used.
    let mut fixture = Fixture::new(1);
    fixture.frame("1", 0);
    fixture.roll().expect("room");
    let point = end_of(&fixture);
    assert_eq!(keys(&fixture.disk, &fixture, point).expect("whole").0, []);
    fixture.disk.zero(&SEGMENTS.name(2), 0..64);
    refused(&fixture.disk, &fixture, point, &SEGMENTS.name(2), 0);
}

#[test]
fn an_impossible_replay_point_is_refused() {
    let (fixture, point) = journal_with_point();
    let third = SEGMENTS.name(3);
    let header = segment::HEADER_BYTES;
    for (offset, lsn) in [
        (header, point.lsn),
        (header, 4),
        (point.offset, 5),
        (point.offset, 4),
        (point.offset + 8, point.lsn),
        (0, 5),
        (SEGMENT_BYTES_MIN + 16, point.lsn),
        (u64::MAX - 15, point.lsn),
    ] {
        refused(&fixture.disk, &fixture, ReplayPoint { offset, lsn, ..point }, &third, offset);
    }
    // A point without a frame of this number: frames are missing behind it.
    let odd = ReplayPoint { offset: point.offset + 16, ..point };
    refused(&fixture.disk, &fixture, odd, &SEGMENTS.name(4), 0);
    let odd = ReplayPoint { lsn: point.lsn + 2, ..point };
    refused(&fixture.disk, &fixture, odd, &SEGMENTS.name(4), 0);
}

#[test]
fn damage_behind_the_point_is_damage_and_a_torn_tail_is_cut() {
    let (fixture, point) = journal_with_point();
    fixture.disk.corrupt(&SEGMENTS.name(3), point.offset + 40, 1);
    refused(&fixture.disk, &fixture, point, &SEGMENTS.name(4), 0);
    fixture.disk.corrupt(&SEGMENTS.name(3), point.offset + 40, 1);
    fixture.disk.corrupt(&SEGMENTS.name(4), segment::HEADER_BYTES + 40, 1);
    refused(&fixture.disk, &fixture, point, &SEGMENTS.name(4), segment::HEADER_BYTES);
    fixture.disk.corrupt(&SEGMENTS.name(4), segment::HEADER_BYTES + 40, 1);

    let mut fixture = Fixture::new(1);
    fixture.frame("before", 0);
    let point = end_of(&fixture);
    let (from, to) = fixture.frame("torn", 0);
    assert_eq!(from, point.offset);
    fixture.disk.corrupt(FIRST, to - 20, 1);
    let (read, found) = keys(&fixture.disk, &fixture, point).expect("a torn tail");
    assert!(read.is_empty() && found.tail == Tail::Unknown);
    assert_eq!((found.next_lsn, found.segments[0].end), (point.lsn, from));
}

#[test]
fn leftovers_of_an_earlier_epoch_are_not_read_at_the_point() {
    let mut fixture = Fixture::new(1);
    fixture.frame("kept", 0);
    fixture.append(&pending("torn", 0));
    let torn_to = fixture.commit().position.offset;
    fixture.append(&pending("left over", 0));
    fixture.commit();
    fixture.disk.corrupt(FIRST, torn_to - 20, 1);
    let disk = fixture.disk.kill();
    let (mut fixture, _) = fixture.reopen(disk);
    // The new frame has the length of the torn one. Behind it is a whole frame of the epoch before, with
    // the very next number.
    fixture.append(&pending("anew", 0));
    let mark = fixture.commit();
    fixture.journal.synced(mark.lsn, mark.position);
    let point = end_of(&fixture);
    assert_eq!((point.offset, point.epoch), (torn_to, 2));
    assert_eq!(mark.position, Position { sequence: 1, offset: torn_to });
    let (read, found) = keys(&fixture.disk, &fixture, point).expect("whole");
    assert!(read.is_empty() && found.tail == Tail::Unknown, "something lies behind the end");
    let careless = ReplayPoint { epoch: 1, ..point };
    let (read, _) = keys(&fixture.disk, &fixture, careless).expect("whole");
    assert_eq!(read, [key("left over")], "it is the epoch that tells");
}

#[test]
fn a_manifest_older_than_the_point_is_refused() {
    let (mut fixture, point) = journal_with_point();
    fixture.manifest.epoch = 1;
    let newer = ReplayPoint { epoch: 2, ..end_of(&fixture) };
    refused(&fixture.disk, &fixture, newer, crate::manifest::NAME, crate::manifest::EPOCH_AT);
    assert!(keys(&fixture.disk, &fixture, point).is_ok());
}

#[test]
fn progress_counts_from_the_point() {
    let (fixture, point) = journal_with_point();
    let mut told = Vec::new();
    recover(&fixture.disk, &fixture.manifest, Some(point), &mut |_| Ok(()), &mut |read_progress| {
        told.push((read_progress.bytes_done, read_progress.bytes_total));
    })
    .expect("whole");
    let total = 2 * SEGMENT_BYTES_MIN - point.offset;
    let one = total - SEGMENT_BYTES_MIN;
    assert_eq!(told, [(0, total), (one, total), (total, total)]);
}
