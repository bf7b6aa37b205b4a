//! The end and the middle of the journal: a torn tail is cut, damage is refused and named.
//!
//! The stores here are inline: every call is one frame, durable before the next is written.

use duly_store::conformance::ManualClock;
use duly_store_embedded::{
    OpenError, Tail,
    disk::{Disk, SimDisk},
};

use crate::{
    snapshot::Snapshot,
    steps::{Step, Tokens, cancel, get, perform, reschedule, schedule},
    twins::{copy, open_inline},
    workload::settings,
};

const SEGMENT: &str = "journal/0000000000000001.log";

/// A journal with the places where its frames begin; the last number is the end of the last frame.
struct Journal {
    disk: SimDisk,
    frames: Vec<usize>,
    /// The contents of the store before its last frame, and after it.
    shown: [Snapshot; 2],
}

fn journal() -> Journal {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = open_inline(&disk, &clock, 1).expect("a new store opens");
    let steps = [
        Step::Put("shop", Box::new(settings())),
        Step::Apply("shop", vec![schedule("a", 5_000, 40), schedule("b", 6_000, 40)]),
        Step::Apply("shop", vec![cancel("a")]),
        Step::Apply("shop", vec![schedule("c", 0, 40)]),
        Step::Claim("shop", 1),
        Step::Apply("shop", vec![reschedule("b", 7_000), schedule("last", 9_000, 500)]),
    ];
    let mut frames = Vec::new();
    let mut shown = [Snapshot::default(), Snapshot::default()];
    for step in steps {
        shown[0] = Snapshot::of(&store);
        let before = disk.read_file(SEGMENT);
        perform(&store, &step, &mut Tokens::new()).expect("a healthy disk takes it");
        let after = disk.read_file(SEGMENT);
        let start = before.iter().zip(&after).position(|(old, new)| old != new);
        frames.push(start.expect("each step writes a frame"));
    }
    shown[1] = Snapshot::of(&store);
    let bytes = disk.read_file(SEGMENT);
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("something was written") + 1;
    frames.push(end.next_multiple_of(16));
    drop(store);
    Journal { disk: copy(&disk, 1), frames, shown }
}

impl Journal {
    /// Returns a copy with changed bytes of the segment.
    fn with(&self, change: impl FnOnce(&mut Vec<u8>)) -> SimDisk {
        let disk = copy(&self.disk, 2);
        let mut bytes = disk.read_file(SEGMENT);
        change(&mut bytes);
        put(&disk, SEGMENT, &bytes);
        disk
    }

    fn last_frame(&self) -> std::ops::Range<usize> {
        self.frames[self.frames.len() - 2]..self.frames[self.frames.len() - 1]
    }
}

/// Overwrites a file.
pub(crate) fn put(disk: &SimDisk, name: &str, bytes: &[u8]) {
    let file = disk.open(name).expect("the file is there");
    file.write_at(0, bytes).expect("a healthy disk takes it");
    file.sync_all().expect("a healthy disk syncs");
}

/// Returns all files of a disk.
pub(crate) fn everything(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    disk.names().into_iter().map(|name| (name.clone(), disk.read_file(&name))).collect()
}

/// Opens a disk that must be refused without a change. Returns the reason.
pub(crate) fn refused(disk: &SimDisk) -> OpenError {
    // Any opening of a directory makes the lock file.
    drop(disk.lock().expect("nobody holds it"));
    let before = everything(disk);
    let error = open_inline(disk, &ManualClock::default(), 9).expect_err("it has to be refused");
    assert!(everything(disk) == before, "a refused directory is as it was: {error}");
    error
}

#[test]
fn p1_a_cut_last_frame_is_dropped_alone() {
    let journal = journal();
    let last = journal.last_frame();
    for cut in last.clone() {
        let disk = journal.with(|bytes| bytes[cut..last.end].fill(0));
        let store = open_inline(&disk, &ManualClock::default(), 9)
            .unwrap_or_else(|error| panic!("cut at byte {cut}: {error}"));
        let c = get(&store, "shop", "c");
        assert!(c.is_some(), "cut at byte {cut}: what was acknowledged is there");
        // Zeros at the end of the last record's padding equal the written bytes.
        let is_whole = journal.disk.read_file(SEGMENT)[cut..last.end].iter().all(|b| *b == 0);
        let expected = &journal.shown[usize::from(is_whole)];
        assert_eq!(get(&store, "shop", "last").is_some(), is_whole, "cut at byte {cut}");
        if cut % 16 == 0 {
            assert!(Snapshot::of(&store) == *expected, "cut at byte {cut}");
        }
    }
}

#[test]
fn p1_a_last_frame_garbled_anywhere_is_dropped_and_overwritten() {
    let journal = journal();
    for at in journal.last_frame() {
        let disk = journal.with(|bytes| bytes[at] ^= 0x40);
        let clock = ManualClock::default();
        let store = open_inline(&disk, &clock, 9)
            .unwrap_or_else(|error| panic!("garbled at byte {at}: {error}"));
        assert!(get(&store, "shop", "last").is_none(), "garbled at byte {at}");
        if at % 8 != 0 {
            continue;
        }
        assert_eq!(store.report().tail, Tail::Unknown, "garbled at byte {at}: the report says so");
        assert!(Snapshot::of(&store) == journal.shown[0], "garbled at byte {at}");
        let step = Step::Apply("shop", vec![schedule("next", 9_000, 40)]);
        perform(&store, &step, &mut Tokens::new()).expect("it goes on");
        store.close();
        let again = open_inline(&disk.crash(), &clock, 10);
        let again = again.unwrap_or_else(|error| panic!("garbled at byte {at}: {error}"));
        assert!(get(&again, "shop", "next").is_some(), "garbled at byte {at}");
        assert!(get(&again, "shop", "last").is_none(), "it does not come back");
    }
}

#[test]
fn p1_t11_damage_before_the_last_frame_is_refused_by_name() {
    let journal = journal();
    let frames = journal.frames.windows(2).rev().skip(1);
    for frame in frames {
        for at in (frame[0]..frame[1]).step_by(7) {
            let error = refused(&journal.with(|bytes| bytes[at] ^= 1));
            let message = error.to_string();
            let OpenError::Damaged { file, offset, .. } = error else {
                panic!("damage at byte {at} is refused as {message}");
            };
            assert_eq!((file.as_str(), offset), (SEGMENT, frame[0] as u64), "{message}");
            for part in [SEGMENT, "duly store check", "restore", "backup"] {
                assert!(message.contains(part), "{message} names {part}");
            }
        }
    }
}

#[test]
fn p1_lost_sectors_before_the_last_frame_are_refused() {
    let journal = journal();
    let first = journal.frames[0] / 512;
    let last = journal.last_frame().start / 512;
    for sector in first..last {
        let error = refused(&journal.with(|bytes| bytes[sector * 512..][..512].fill(0)));
        assert!(matches!(error, OpenError::Damaged { .. }), "sector {sector}: {error}");
    }
}

#[test]
fn p1_damage_is_noticed_behind_a_segment_that_was_never_used() {
    let journal = journal();
    let frame = journal.frames[1];
    let never_used = |disk: SimDisk| {
        let file = disk.create("journal/0000000000000002.log").expect("there is none");
        file.write_at(0, &vec![0; 64 * 1024]).expect("a healthy disk takes it");
        file.sync_all().expect("a healthy disk syncs");
        disk
    };
    let error = refused(&never_used(journal.with(|bytes| bytes[frame + 40] ^= 1)));
    let OpenError::Damaged { file, offset, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((file.as_str(), *offset), (SEGMENT, frame as u64), "{error}");
    let whole = never_used(journal.with(|_| {}));
    let store = open_inline(&whole, &ManualClock::default(), 9).expect("nothing is wrong");
    assert!(Snapshot::of(&store) == journal.shown[1]);
}
