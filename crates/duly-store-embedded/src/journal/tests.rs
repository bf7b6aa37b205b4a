use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::{
    disk::{Fault, SimDisk},
    journal::fixture::{FIRST, Fixture, NAMESPACE, id_of, pending, reread},
    options::SEGMENT_BYTES_MIN,
};

use super::*;
use crate::files::ReadError;

mod rolling;

/// Size of a record that leaves no space for a second one in a segment.
const NEARLY_A_SEGMENT: usize = 60_000;

#[test]
fn a_record_reads_back_from_frame_disk_and_restart() {
    let mut fixture = Fixture::new(1);
    let first = fixture.append(&pending("first", 10));
    let second = fixture.append(&pending("second", 5_000));
    assert_eq!(fixture.read_id(first), "first", "under construction");
    assert_eq!(fixture.read_id(second), "second", "under construction");
    fixture.sync();
    assert_eq!(fixture.read_id(first), "first", "written");
    assert_eq!(fixture.read_id(second), "second", "written, larger than one read");
    let disk = fixture.disk.kill();
    let (fixture, records) = fixture.reopen(disk);
    let places: Vec<_> = records.iter().map(|(location, _)| *location).collect();
    assert_eq!(places, [first, second]);
    assert_eq!(fixture.read_id(second), "second");
}

#[test]
fn a_record_is_durable_when_its_frame_was_synced() {
    let mut fixture = Fixture::new(1);
    let first = fixture.append(&pending("first", 0));
    let mark = fixture.commit();
    let second = fixture.append(&pending("second", 0));
    assert!(!fixture.is_durable(first));
    mark.file.sync_data().expect("synced");
    fixture.journal.synced(mark.lsn, mark.position);
    assert!(fixture.is_durable(first));
    assert!(!fixture.is_durable(second));
    assert_eq!((fixture.journal.durable_lsn(), fixture.journal.written_lsn()), (1, 1));
    // The report of an older sync changes nothing.
    fixture.sync();
    fixture.journal.synced(mark.lsn, mark.position);
    assert!(fixture.is_durable(second));
    assert_eq!(fixture.journal.durable_lsn(), 2);
}

#[test]
fn nothing_appended_is_nothing_written() {
    let mut fixture = Fixture::new(1);
    let before = fixture.disk.ops();
    assert!(fixture.journal.commit(0).expect("fine").is_none());
    assert_eq!(fixture.disk.ops(), before);
}

#[test]
fn a_full_segment_says_so_and_a_roll_makes_room() {
    let mut fixture = Fixture::new(1);
    let first = fixture.append(&pending("first", NEARLY_A_SEGMENT));
    let full = fixture.journal.append(NAMESPACE, &pending("second", NEARLY_A_SEGMENT));
    assert!(matches!(full, Err(AppendError::Full)), "{full:?}");
    assert_eq!(fixture.read_id(first), "first", "a refused record leaves no trace");
    fixture.commit();
    assert!(!fixture.is_durable(first));
    fixture.roll().expect("room");
    assert!(fixture.is_durable(first), "a roll syncs what is before it");
    let second = fixture.append(&pending("second", NEARLY_A_SEGMENT));
    fixture.sync();
    assert_ne!(first.slot(), second.slot());
    assert_eq!(fixture.files.bytes(), 2 * SEGMENT_BYTES_MIN);
    let reread = reread(&fixture.disk, &fixture.manifest).expect("it is whole");
    assert_eq!(reread.ids(), ["first", "second"]);
    assert_eq!(reread.found.next_lsn, 3);
}

#[test]
fn too_large_records_differ_from_a_full_segment() {
    let mut fixture = Fixture::new(1);
    let check = |fixture: &mut Fixture, payload_bytes| {
        fixture.journal.append(NAMESPACE, &pending("a", payload_bytes)).err()
    };
    let too_large = check(&mut fixture, 70_000);
    assert!(matches!(too_large, Some(AppendError::TooLarge { bytes_max: 65_424, .. })));
    // The largest one that fits an empty segment.
    let fits = (0..70_000).rev().find(|bytes| check(&mut fixture, *bytes).is_none());
    fixture.sync();
    assert_eq!(fixture.journal.end + CLOSING_BYTES, SEGMENT_BYTES_MIN, "{fits:?}");
    assert_eq!(reread(&fixture.disk, &fixture.manifest).expect("whole").ids(), ["a"]);
    fixture.close();
    assert_eq!(fixture.journal.end, SEGMENT_BYTES_MIN, "a closing frame has room behind any frame");
    assert_eq!(reread(&fixture.disk, &fixture.manifest).expect("whole").ids(), ["a"]);
    let full = check(&mut fixture, 0);
    assert!(matches!(full, Some(AppendError::Full)));
}

#[test]
fn a_closing_frame_stands_once_behind_what_is_durable() {
    let mut fixture = Fixture::new(1);
    let closes = |fixture: &mut Fixture| {
        fixture.journal.write_closing_frame(0).expect("a healthy disk takes it")
    };
    assert!(closes(&mut fixture).is_none(), "there is nothing to confirm");
    fixture.append(&pending("1", 0));
    assert!(closes(&mut fixture).is_none(), "a record waits to be written");
    let mark = fixture.commit();
    assert!(closes(&mut fixture).is_none(), "a frame waits to be durable");
    mark.file.sync_data().expect("synced");
    fixture.journal.synced(mark.lsn, mark.position);
    let mark = closes(&mut fixture).expect("it is durable");
    assert_eq!(mark.lsn, 2);
    assert!(closes(&mut fixture).is_none(), "there is one");
    fixture.journal.synced(mark.lsn, mark.position);
    fixture.frame("2", 0);
    fixture.roll().expect("room");
    assert!(closes(&mut fixture).is_none(), "the header of the segment confirms what is before it");
    let found = reread(&fixture.disk, &fixture.manifest).expect("whole").found;
    assert_eq!((found.next_lsn, found.tail), (4, Tail::Closed));
}

/// Makes the pace of a spare whose segment is full.
fn unhindered(segment_bytes: u64) -> SparePace {
    let (filled, hears) = std::sync::mpsc::channel();
    filled.send(segment_bytes).expect("heard");
    // The channel never closes: the engine continues.
    std::mem::forget(filled);
    SparePace::new(segment_bytes, hears)
}

#[test]
fn a_roll_takes_the_spare_if_it_has_the_right_size() {
    let mut fixture = Fixture::new(1);
    write_spare(
        &fixture.disk,
        &DirSyncLock::default(),
        SEGMENT_BYTES_MIN,
        &mut unhindered(SEGMENT_BYTES_MIN),
    )
    .expect("room");
    fixture.roll().expect("room");
    assert_eq!(fixture.disk.names(), [FIRST, &SEGMENTS.name(2)]);
    // The setting has changed since the spare was written.
    write_spare(
        &fixture.disk,
        &DirSyncLock::default(),
        2 * SEGMENT_BYTES_MIN,
        &mut unhindered(2 * SEGMENT_BYTES_MIN),
    )
    .expect("room");
    fixture.roll().expect("room");
    assert_eq!(fixture.disk.read_file(&SEGMENTS.name(3)).len() as u64, SEGMENT_BYTES_MIN);
}

#[test]
fn a_roll_does_not_touch_a_spare_that_is_being_written() {
    let mut fixture = Fixture::new(1);
    let half = fixture.disk.create("journal/spare.tmp").expect("made");
    half.write_at(0, &[0; 100]).expect("written");
    fixture.roll().expect("room");
    assert_eq!(fixture.disk.read_file("journal/spare.tmp").len(), 100);
    assert_eq!(fixture.disk.read_file(&SEGMENTS.name(2)).len() as u64, SEGMENT_BYTES_MIN);
    drop(half);
    write_spare(
        &fixture.disk,
        &DirSyncLock::default(),
        SEGMENT_BYTES_MIN,
        &mut unhindered(SEGMENT_BYTES_MIN),
    )
    .expect("what a crash left is no obstacle");
}

#[test]
fn a_full_disk_leaves_no_half_segment_and_the_old_one_in_use() {
    let mut fixture = Fixture::new(1);
    let first = fixture.append(&pending("first", 0));
    fixture.commit();
    fixture.disk.plan(Fault::NoSpaceAtWrite(1));
    let error = fixture.roll().expect_err("no room");
    assert!(error.is_no_space(), "{error}");
    assert_eq!(fixture.disk.names(), [FIRST]);
    let second = fixture.append(&pending("second", 0));
    fixture.sync();
    assert_eq!([fixture.read_id(first), fixture.read_id(second)], ["first", "second"]);
    fixture.roll().expect("there is room again");
}

#[test]
fn a_damaged_record_is_noticed_when_it_is_read() {
    let mut fixture = Fixture::new(1);
    let place = fixture.append(&pending("1", 100));
    fixture.sync();
    let offset = place.unit() * ALIGN;
    for (at, mask) in [(4, 0xFF), (7, 0x80), (20, 1), (150, 1)] {
        fixture.disk.corrupt(FIRST, offset + at, mask);
        let error = fixture.read(place).expect_err("damaged");
        let named = matches!(&error, ReadError::Damaged { file, offset: o, .. } if file == FIRST && *o == offset);
        assert!(named, "byte {at}: {error}");
        fixture.disk.corrupt(FIRST, offset + at, mask);
    }
    assert_eq!(fixture.read_id(place), "1");
    let nowhere = fixture.read(Location::new(9, 4, 100));
    assert!(matches!(nowhere, Err(ReadError::NoFile(9))), "{nowhere:?}");
}

/// Appends, commits, syncs and rolls. Returns the ids by the frame that they were in, and the number of
/// frames that a sync covered.
fn scenario(fixture: &mut Fixture, steps: &[(u8, usize)]) -> disk::Result<()> {
    for (n, (what, payload_bytes)) in steps.iter().enumerate() {
        let record = pending(&n.to_string(), *payload_bytes);
        if matches!(fixture.journal.append(NAMESPACE, &record), Err(AppendError::Full)) {
            fixture.journal.commit(0)?;
            fixture.roll()?;
            fixture.append(&record);
        }
        if *what > 0 {
            let mark = fixture.journal.commit(0)?.expect("something was appended");
            if *what > 1 {
                mark.file.sync_data()?;
                fixture.journal.synced(mark.lsn, mark.position);
            }
        }
    }
    Ok(())
}

/// Returns the ids in each lsn's frame, by walking a disk that did not crash.
fn ids_by_lsn(fixture: &Fixture) -> BTreeMap<u64, Vec<String>> {
    let mut by_lsn = BTreeMap::new();
    let seed = fixture.manifest.frame_seed();
    let mut names = fixture.disk.names();
    names.retain(|name| name.ends_with(".log"));
    for name in names {
        let bytes = fixture.disk.read_file(&name);
        let mut at = 64;
        while let Some(header) = frame::Header::read(&bytes[at..], seed) {
            let mut inside = at + frame::HEADER_BYTES;
            let ids = by_lsn.entry(header.lsn).or_insert_with(Vec::new);
            for _ in 0..header.count {
                let rest = &bytes[inside..];
                ids.extend(id_of(&record::decode(rest).expect("whole").record).map(str::to_owned));
                let length = record::bytes_of(rest).expect("whole");
                inside += usize::try_from(align_up(length)).expect("small");
            }
            at += usize::try_from(header.frame_bytes()).expect("small");
            if at >= bytes.len() {
                break;
            }
        }
    }
    by_lsn
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// P1 at the level of the journal. After a power cut anywhere, whole frames are read back, in order
    /// from the first, at least as far as the last sync. The next life continues from there.
    #[test]
    fn p1_a_power_cut_leaves_whole_frames_at_least_to_the_last_sync(
        seed in any::<u64>(),
        steps in prop::collection::vec((0_u8..3, 0_usize..30_000), 1..14),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut calm = Fixture::new(seed);
        let before = calm.disk.ops();
        scenario(&mut calm, &steps).expect("nothing goes wrong");
        let frames = ids_by_lsn(&calm);
        let ops = calm.disk.ops() - before;

        let mut cut_off = Fixture::new(seed);
        cut_off.disk.plan(Fault::CrashAtOp(1 + cut.index(ops.max(1) as usize) as u64));
        drop(scenario(&mut cut_off, &steps));
        let durable = cut_off.journal.durable_lsn();
        let disk: SimDisk = cut_off.disk.crash();

        let reread = reread(&disk, &cut_off.manifest);
        let reread = reread.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let last = reread.found.next_lsn - 1;
        prop_assert!(last >= durable, "frame {durable} was durable, {last} is the last");
        let expected: Vec<String> = frames.range(..=last).flat_map(|(_, ids)| ids.clone()).collect();
        prop_assert_eq!(reread.ids(), expected);

        let (mut next, _) = cut_off.reopen(disk);
        if next.journal.active_sequence() > 0 {
            let full = next.journal.append(NAMESPACE, &pending("next", 0)).is_err();
            if full {
                next.roll().expect("room");
                next.append(&pending("next", 0));
            }
            next.sync();
            let after = self::reread(&next.disk.crash(), &next.manifest);
            let after = after.map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(after.ids().last().copied(), Some("next"));
            prop_assert_eq!(after.found.next_lsn, last + 2);
        }
    }
}
