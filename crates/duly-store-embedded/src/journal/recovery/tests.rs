use crate::{
    disk::SimDisk,
    format::{
        self, ALIGN, frame,
        record::{self, Record},
    },
    index::Location,
    journal::fixture::{
        FIRST, Fixture, NAMESPACE, Reread, manifest as manifest_of_fixtures, pending, pending_with,
        reread,
    },
    manifest,
    numbered::SEGMENTS,
    open::OpenProgress,
    options::SEGMENT_BYTES_MIN,
};

use super::{
    walk::{Halt, Visitor, WholeFrame, walk},
    *,
};

mod recycled;

/// Reads the journal from its beginning or from `from` on, and passes every decoded record to `each`, in
/// order.
pub(crate) fn recover_records(
    disk: &dyn Disk,
    manifest: &Manifest,
    from: Option<ReplayPoint>,
    each: &mut dyn FnMut(Location, record::Decoded) -> Result<(), OpenError>,
    progress: &mut dyn FnMut(OpenProgress),
) -> Result<RecoveredJournal, OpenError> {
    walk(disk, manifest, from, &mut Decoder { each, progress }).map_err(Halt::refusal)
}

/// Decodes the records of each frame of a walk.
struct Decoder<'a> {
    each: &'a mut dyn FnMut(Location, record::Decoded) -> Result<(), OpenError>,
    progress: &'a mut dyn FnMut(OpenProgress),
}

impl Visitor for Decoder<'_> {
    fn frame(&mut self, frame: &WholeFrame<'_>) -> Result<(), Halt> {
        frame.each_record(|place, bytes| {
            let decoded = record::decode(bytes).map_err(|error| place.damaged(&error))?;
            Ok((self.each)(place.location(bytes), decoded)?)
        })
    }

    fn progress(&mut self, progress: OpenProgress) -> Result<(), Halt> {
        (self.progress)(progress);
        Ok(())
    }
}

fn is_damage(error: &OpenError, in_file: &str, at: u64) -> bool {
    matches!(error, OpenError::Damaged { file, offset, .. } if file == in_file && *offset == at)
}

fn read(fixture: &Fixture) -> Result<Reread, OpenError> {
    let before = fixture.disk.ops();
    let answer = reread(&fixture.disk, &fixture.manifest);
    assert_eq!(fixture.disk.ops(), before, "reading changes nothing");
    answer
}

fn put(disk: &SimDisk, name: &str, bytes: &[u8]) {
    let file = match disk.open(name) {
        Ok(file) => file,
        Err(_) => disk.create(name).expect("made"),
    };
    file.set_len(0).expect("cut");
    file.write_at(0, bytes).expect("written");
}

#[test]
fn an_empty_journal_is_read_as_one() {
    let fixture = Fixture::new(1);
    let reread = read(&fixture).expect("whole");
    assert_eq!((reread.found.segments.len(), reread.found.next_lsn), (1, 1));
    assert!(reread.found.tail == Tail::Closed && reread.found.unused.is_none());
    let nothing = self::reread(&SimDisk::new(1), &fixture.manifest).expect("nothing");
    assert_eq!((nothing.found.segments.len(), nothing.found.next_lsn), (0, 1));
}

#[test]
fn a_last_frame_that_ends_anywhere_is_a_torn_tail() {
    let mut fixture = Fixture::new(1);
    fixture.frame("kept", 10);
    let (from, to) = fixture.frame("torn", 30);
    for cut in from..to {
        let whole = fixture.disk.read_file(FIRST);
        fixture.disk.zero(FIRST, cut..to);
        let changed = whole != fixture.disk.read_file(FIRST);
        let reread = read(&fixture).expect("a torn tail is no damage");
        assert_eq!(reread.ids().len(), if changed { 1 } else { 2 }, "zeros from {cut}");
        assert_eq!(reread.found.tail == Tail::Unknown, changed && cut > from, "zeros from {cut}");
        assert_eq!(reread.found.next_lsn, if changed { 2 } else { 3 });
        put(&fixture.disk, FIRST, &whole);
    }
}

#[test]
fn a_flipped_bit_in_the_last_frame_is_a_torn_tail() {
    let mut fixture = Fixture::new(1);
    fixture.frame("kept", 10);
    let (from, to) = fixture.frame("torn", 30);
    for bit in from * 8..to * 8 {
        fixture.disk.corrupt(FIRST, bit / 8, 1 << (bit % 8));
        let reread = read(&fixture).expect("a torn tail is no damage");
        assert_eq!((reread.ids(), reread.found.tail), (vec!["kept"], Tail::Unknown), "bit {bit}");
        fixture.disk.corrupt(FIRST, bit / 8, 1 << (bit % 8));
    }
    assert_eq!(read(&fixture).expect("whole").ids(), ["kept", "torn"]);
}

#[test]
fn a_flipped_bit_before_a_witness_is_damage_and_named() {
    let mut fixture = Fixture::new(1);
    let (from, to) = fixture.frame("damaged", 10);
    fixture.frame("witness", 10);
    for bit in from * 8..to * 8 {
        fixture.disk.corrupt(FIRST, bit / 8, 1 << (bit % 8));
        let error = read(&fixture).expect_err("acknowledged data is missing");
        assert!(is_damage(&error, FIRST, from), "bit {bit}: {error}");
        assert!(error.to_string().contains("frame 1 is damaged although frame 2"), "{error}");
        fixture.disk.corrupt(FIRST, bit / 8, 1 << (bit % 8));
    }
}

#[test]
fn a_flipped_bit_before_a_closing_frame_is_damage_and_named() {
    let mut fixture = Fixture::new(1);
    fixture.frame("kept", 10);
    let (from, to) = fixture.frame("damaged", 10);
    fixture.close();
    let whole = read(&fixture).expect("whole");
    assert_eq!((whole.ids(), whole.found.tail), (vec!["kept", "damaged"], Tail::Closed));
    for bit in from * 8..to * 8 {
        fixture.disk.corrupt(FIRST, bit / 8, 1 << (bit % 8));
        let error = read(&fixture).expect_err("acknowledged data is missing");
        assert!(is_damage(&error, FIRST, from), "bit {bit}: {error}");
        fixture.disk.corrupt(FIRST, bit / 8, 1 << (bit % 8));
    }
    for bit in to * 8..(to + frame::HEADER_BYTES as u64) * 8 {
        fixture.disk.corrupt(FIRST, bit / 8, 1 << (bit % 8));
        let reread = read(&fixture).expect("nothing is missing");
        let tail = reread.found.tail;
        assert_eq!((reread.ids(), tail), (vec!["kept", "damaged"], Tail::Unknown), "bit {bit}");
        fixture.disk.corrupt(FIRST, bit / 8, 1 << (bit % 8));
    }
    fixture.disk.zero(FIRST, to..to + frame::HEADER_BYTES as u64);
    assert_eq!(read(&fixture).expect("whole").found.tail, Tail::Open);
}

#[test]
fn unsynced_frames_may_be_lost_in_any_combination() {
    let mut fixture = Fixture::new(1);
    fixture.frame("kept", 0);
    let mut begins = Vec::new();
    for id in ["2", "3", "4"] {
        fixture.append(&pending(id, 0));
        begins.push(fixture.commit().position.offset);
    }
    let frame_bytes = begins[1] - begins[0];
    for lost in 0..3 {
        let whole = fixture.disk.read_file(FIRST);
        let from = begins[lost] - frame_bytes;
        fixture.disk.zero(FIRST, from..begins[lost]);
        let reread = read(&fixture).expect("none of them was acknowledged");
        assert_eq!(reread.ids(), [&["kept"], &["2", "3", "4"][..lost]].concat());
        put(&fixture.disk, FIRST, &whole);
    }
    // When a later frame says that they were durable, the same loss is damage.
    fixture.journal.synced(4, crate::journal::Position { sequence: 1, offset: begins[2] });
    fixture.append(&pending("witness", 0));
    fixture.commit();
    fixture.disk.zero(FIRST, begins[0]..begins[1]);
    let error = read(&fixture).expect_err("frame 3 was durable");
    assert!(is_damage(&error, FIRST, begins[0]), "{error}");
}

#[test]
fn a_frame_left_over_from_before_a_cut_is_not_read_again() {
    let mut fixture = Fixture::new(1);
    fixture.frame("kept", 0);
    fixture.append(&pending("torn", 0));
    let torn_to = fixture.commit().position.offset;
    fixture.append(&pending("left over", 0));
    fixture.commit();
    fixture.disk.corrupt(FIRST, torn_to - 20, 1);
    let disk = fixture.disk.kill();
    let (mut fixture, records) = fixture.reopen(disk);
    assert_eq!(records.len(), 1);
    // The new frame has the length of the torn one, and the left-over one has the very next lsn.
    fixture.append(&pending("anew", 0));
    let mark = fixture.commit();
    assert_eq!((mark.lsn, mark.position.offset), (2, torn_to));
    let reread = read(&fixture).expect("whole");
    assert_eq!(reread.ids(), ["kept", "anew"]);
    assert_eq!(reread.found.tail, Tail::Unknown, "something lies behind the end");
    // The left-over frame proves nothing either, when the new frame is torn in turn.
    fixture.disk.corrupt(FIRST, torn_to - 20, 1);
    assert_eq!(read(&fixture).expect("torn").ids(), ["kept"]);
}

/// Reads a torn frame whose payload contains frames that were sealed with `seed`. They have the next lsn
/// and many more, in the right epoch, and each says that everything before it was durable.
fn torn_around_forged_frames(seed: frame::Seed) -> Result<Reread, OpenError> {
    let mut fixture = Fixture::new(1);
    fixture.frame("kept", 0);
    let mut payload = Vec::new();
    for lsn in 2..100 {
        let mut forged = vec![0; frame::HEADER_BYTES];
        record::encode(&mut forged, NAMESPACE, &Record::NamespaceGone);
        let identity =
            frame::Identity { epoch: 1, lsn, count: 1, durable_lsn: lsn - 1, steady_ms: 0 };
        frame::seal(&mut forged, seed, identity);
        payload.extend_from_slice(&forged);
    }
    // This id puts the payload at a place where frames can begin.
    let place = fixture.append(&pending_with("id-to-align-1", payload));
    fixture.commit();
    let bytes = fixture.disk.read_file(FIRST);
    let magics = bytes.chunks(16).filter(|unit| unit.starts_with(b"DLYf")).count();
    assert_eq!(magics, 2 + 98, "the forged frames are aligned");
    fixture.disk.corrupt(FIRST, place.unit() * ALIGN + 30, 1);
    read(&fixture)
}

#[test]
fn frames_within_a_payload_are_neither_witnesses_nor_frames() {
    let foreign = torn_around_forged_frames(frame::Seed::of(0)).expect("nothing is missing");
    assert_eq!((foreign.ids(), foreign.found.tail == Tail::Unknown), (vec!["kept"], true));
    // A caller that knew the store's own key could prevent its start.
    let own = manifest_of_fixtures().frame_seed();
    let error = torn_around_forged_frames(own).expect_err("believed");
    assert!(error.to_string().contains("written after it was durable"), "{error}");
}

#[test]
fn damage_at_the_end_of_a_sealed_segment_is_noticed() {
    let mut fixture = Fixture::new(1);
    fixture.frame("first", 0);
    let (from, _) = fixture.frame("damaged", 0);
    fixture.roll().expect("room");
    fixture.disk.corrupt(FIRST, from + 40, 1);
    let error = read(&fixture).expect_err("the segment was synced before the next began");
    assert!(is_damage(&error, &SEGMENTS.name(2), 0), "{error}");
    assert!(error.to_string().contains("frames 2 to 2 are missing"), "{error}");
}

#[test]
fn a_missing_segment_is_named() {
    let mut fixture = Fixture::new(1);
    for id in ["1", "2", "3"] {
        fixture.frame(id, 0);
        fixture.roll().expect("room");
    }
    fixture.disk.remove(&SEGMENTS.name(3)).expect("removed");
    let error = read(&fixture).expect_err("a gap");
    assert!(is_damage(&error, &SEGMENTS.name(3), 0), "{error}");
    // The oldest segments may be gone: they are removed when nothing needs them.
    fixture.disk.rename(&SEGMENTS.name(4), &SEGMENTS.name(3)).expect("renamed");
    let error = read(&fixture).expect_err("a renamed segment");
    assert!(is_damage(&error, &SEGMENTS.name(3), 32), "{error}");
    fixture.disk.remove(&SEGMENTS.name(3)).expect("removed");
    fixture.disk.remove(&SEGMENTS.name(1)).expect("removed");
    assert_eq!(read(&fixture).expect("whole").ids(), ["2"]);
}

#[test]
fn a_damaged_header_of_a_used_segment_is_refused() {
    let mut fixture = Fixture::new(1);
    fixture.frame("1", 0);
    fixture.roll().expect("room");
    let second = SEGMENTS.name(2);
    for end in 0..64 {
        let whole = fixture.disk.read_file(&second);
        fixture.disk.zero(&second, end..64);
        if whole != fixture.disk.read_file(&second) {
            let reread = read(&fixture).expect("a crash while it was made");
            assert_eq!(reread.found.unused, Some(2), "zeros from {end}");
            assert_eq!((reread.ids(), reread.found.segments.len()), (vec!["1"], 1));
        }
        put(&fixture.disk, &second, &whole);
    }
    fixture.frame("2", 0);
    for bit in 0..64 * 8 {
        fixture.disk.corrupt(&second, bit / 8, 1 << (bit % 8));
        let error = read(&fixture).expect_err("it holds a frame");
        assert!(is_damage(&error, &second, 0), "bit {bit}: {error}");
        fixture.disk.corrupt(&second, bit / 8, 1 << (bit % 8));
    }
    fixture.roll().expect("room");
    fixture.disk.corrupt(&second, 0, 1);
    let error = read(&fixture).expect_err("it is not the last one");
    assert!(is_damage(&error, &second, 0), "{error}");
}

#[test]
fn segments_of_other_stores_and_versions_are_refused() {
    let fixture = Fixture::new(1);
    let header = segment::Header {
        version: format::VERSION,
        store: fixture.manifest.store,
        sequence: 1,
        base_lsn: 1,
        length: SEGMENT_BYTES_MIN,
    };
    let answer = |header: segment::Header| {
        fixture.disk.open(FIRST).expect("there").write_at(0, &header.encode()).expect("written");
        reread(&fixture.disk, &fixture.manifest)
    };
    answer(header).expect("its own");
    let error = answer(segment::Header { store: 1, ..header }).expect_err("foreign");
    assert!(is_damage(&error, FIRST, 16), "{error}");
    let error = answer(segment::Header { length: 4096, ..header }).expect_err("cut");
    assert!(is_damage(&error, FIRST, 32), "{error}");
    let error = answer(segment::Header { version: 2, ..header }).expect_err("newer");
    assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error}");
    let error = answer(segment::Header { version: 0, ..header }).expect_err("older");
    assert!(matches!(error, OpenError::Older { found: 0, oldest: 1 }), "{error}");
}

#[test]
fn impossible_segment_lengths_are_refused_before_reading() {
    let mut fixture = Fixture::new(1);
    fixture.frame("1", 0);
    let whole = fixture.disk.read_file(FIRST);
    put(&fixture.disk, FIRST, &[&whole[..], &[0; 4096]].concat());
    let error = read(&fixture).expect_err("extended by somebody");
    assert!(is_damage(&error, FIRST, 32), "{error}");
    let file = fixture.disk.open(FIRST).expect("there");
    for length in [0, 63, 64, SEGMENT_BYTES_MIN - 1] {
        file.set_len(length).expect("cut");
        let error = read(&fixture).expect_err("cut by somebody");
        assert!(is_damage(&error, FIRST, 0), "{length}: {error}");
    }

    let dir = tempfile::tempdir().expect("a directory");
    let disk = crate::disk::RealDisk::open_or_create(dir.path()).expect("open");
    disk.make_dir(SEGMENTS.dir).expect("made");
    disk.create(FIRST).expect("made").set_len(1 << 40).expect("a sparse file");
    let error = recover_records(&disk, &fixture.manifest, None, &mut |_, _| Ok(()), &mut |_| {});
    assert!(is_damage(&error.expect_err("a terabyte"), FIRST, 0));
}

#[test]
fn foreign_names_are_refused_or_ignored() {
    for odd in ["5.log", "+000000000000005.log", "0000000000000000.log", "x.log"] {
        let fixture = Fixture::new(1);
        let odd = format!("{}/{odd}", SEGMENTS.dir);
        fixture.disk.create(&odd).expect("made");
        let error = read(&fixture).expect_err("not ours");
        assert!(is_damage(&error, &odd, 0), "{odd}: {error}");
    }
    let fixture = Fixture::new(1);
    for other in ["spare", "spare.tmp", "next.tmp", "notes.txt"] {
        fixture.disk.create(&format!("{}/{other}", SEGMENTS.dir)).expect("made");
    }
    assert!(read(&fixture).is_ok());
}

#[test]
fn a_manifest_older_than_the_journal_is_refused() {
    let mut fixture = Fixture::new(1);
    fixture.frame("1", 0);
    let disk = fixture.disk.kill();
    let (mut fixture, _) = fixture.reopen(disk);
    fixture.frame("2", 0);
    assert_eq!(read(&fixture).expect("whole").ids(), ["1", "2"]);
    fixture.manifest.epoch = 1;
    let error = read(&fixture).expect_err("an old copy of the manifest");
    assert!(is_damage(&error, manifest::NAME, 56), "{error}");
}

#[test]
fn a_wrong_record_count_is_damage() {
    for count in [0, 2] {
        let fixture = Fixture::new(1);
        let mut bytes = vec![0; frame::HEADER_BYTES];
        record::encode(&mut bytes, NAMESPACE, &pending("1", 0));
        let identity = frame::Identity { epoch: 1, lsn: 1, count, durable_lsn: 0, steady_ms: 0 };
        frame::seal(&mut bytes, fixture.manifest.frame_seed(), identity);
        fixture.disk.open(FIRST).expect("there").write_at(64, &bytes).expect("written");
        assert!(matches!(read(&fixture), Err(OpenError::Damaged { .. })), "{count}");
    }
}

#[test]
fn random_bytes_behind_a_header_are_a_torn_tail() {
    use rand::{RngCore, SeedableRng};
    let mut random = rand::rngs::SmallRng::seed_from_u64(3);
    for _ in 0..20 {
        let fixture = Fixture::new(1);
        let mut noise = vec![0; usize::try_from(SEGMENT_BYTES_MIN).expect("small") - 64];
        random.fill_bytes(&mut noise);
        // With starts of frames everywhere.
        for at in (0..noise.len() - 4).step_by(16 * 5) {
            noise[at..at + 4].copy_from_slice(b"DLYf");
        }
        fixture.disk.open(FIRST).expect("there").write_at(64, &noise).expect("written");
        let reread = read(&fixture).expect("no frame is among them");
        assert!(reread.records.is_empty() && reread.found.tail == Tail::Unknown);
    }
}
