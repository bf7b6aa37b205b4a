//! A last frame of many sectors, of which a power loss left any part. Recovery cuts the whole frame and
//! never uses half of it. If a later frame proves it durable, the store is refused.
//!
//! Below the frame there are zeros in one journal, and old frames of a recycled segment in the other.
//! Sectors that were not written still have them.

use std::ops::Range;

use duly_store::{Operation, conformance::ManualClock};
use duly_store_embedded::{EmbeddedStore, OpenError, disk::SimDisk};

use crate::{
    snapshot::Snapshot,
    steps::{Step, Tokens, apply, cancel, perform, reschedule, schedule},
    tail::{put, refused},
    twins::{SEGMENT_BYTES, copy, open_busy, open_inline},
    workload::{LARGE_BYTES, settings},
};

const HOUR_MS: u64 = 3_600_000;
/// Space for the last frame and the one behind it.
const ROOM_BYTES: usize = 20 << 10;

/// The contents of the segment before the last frame was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Under {
    Zeros,
    OldFrames,
}

/// A journal whose last frame is large, and one more frame behind it.
struct Journal {
    disk: SimDisk,
    segment: String,
    /// The segment before the last frame, with it, and with the one behind it.
    bytes: [Vec<u8>; 3],
    shown: [Snapshot; 3],
    frame: Range<usize>,
}

/// Returns the last segment.
fn last_segment(disk: &SimDisk) -> String {
    let names = disk.names().into_iter().filter(|name| name.ends_with(".log"));
    names.max().expect("a journal has segments")
}

fn differing(old: &[u8], new: &[u8]) -> Range<usize> {
    let first = old.iter().zip(new).position(|(old, new)| old != new).expect("it was written");
    let last = old.iter().zip(new).rposition(|(old, new)| old != new).expect("it was written");
    first..last + 1
}

/// Continues until the active segment is a recycled one with enough space.
fn into_a_recycled_segment(store: &EmbeddedStore, disk: &SimDisk) {
    let end = usize::try_from(SEGMENT_BYTES).expect("small");
    for number in 0..200 {
        let old = disk.read_file(&last_segment(disk));
        let id = format!("filler {number}");
        let filler = vec![schedule(&id, HOUR_MS, LARGE_BYTES), cancel(&id)];
        apply(store, "shop", filler).expect("taken");
        let segment = last_segment(disk);
        let new = disk.read_file(&segment);
        let has_just_begun = old[..64] != new[..64];
        if has_just_begun && new[end / 2..][..ROOM_BYTES].iter().any(|byte| *byte != 0) {
            return;
        }
    }
    panic!("segments are recycled");
}

/// Returns twelve kilobytes of changes in one batch.
fn changes() -> Vec<Operation> {
    let mut changes = vec![cancel("a"), reschedule("b", 2 * HOUR_MS)];
    changes.extend((0..9).map(|i| schedule(&format!("last {i}"), HOUR_MS, 1_200)));
    changes
}

fn journal(under: Under) -> Journal {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = open_busy(&disk, &clock, 1).expect("a new store opens");
    perform(&store, &Step::Put("shop", Box::new(settings())), &mut Tokens::new()).expect("taken");
    let kept = ["a", "b", "c"].map(|id| schedule(id, HOUR_MS, 40));
    if under == Under::OldFrames {
        into_a_recycled_segment(&store, &disk);
    }
    apply(&store, "shop", kept.into()).expect("taken");
    let segment = last_segment(&disk);
    let look = || (disk.read_file(&segment), Snapshot::of(&store));
    let before = look();
    apply(&store, "shop", changes()).expect("taken");
    let with = look();
    apply(&store, "shop", vec![reschedule("c", 3 * HOUR_MS)]).expect("taken");
    let behind = look();
    assert_eq!(segment, last_segment(&disk), "there was room");
    let frame = differing(&before.0, &with.0);
    assert!(frame.len() > 10_000, "{frame:?}");
    let is_over_old = before.0[frame.clone()].iter().any(|byte| *byte != 0);
    assert_eq!(is_over_old, under == Under::OldFrames, "{under:?}");
    drop(store);
    let bytes = [before.0, with.0, behind.0];
    let shown = [before.1, with.1, behind.1];
    Journal { disk: copy(&disk, 1), segment, bytes, shown, frame }
}

/// Returns sets of lost windows of the frame: one, those before it, those from it on, every other one.
fn losses(windows: usize) -> Vec<Vec<bool>> {
    let mut all = Vec::new();
    for at in 0..windows {
        all.push((0..windows).map(|window| window == at).collect());
        all.push((0..windows).map(|window| window <= at).collect());
        all.push((0..windows).map(|window| window >= at).collect());
    }
    for odd in 0..2 {
        all.push((0..windows).map(|window| window % 2 == odd).collect());
    }
    all
}

impl Journal {
    /// Tries every loss of windows of `window_bytes` bytes, and passes the resulting segment. `which`
    /// selects the state that loses them.
    fn torn(&self, window_bytes: usize, which: usize, mut each: impl FnMut(&str, Vec<u8>)) {
        let first = self.frame.start / window_bytes;
        let windows = self.frame.end.div_ceil(window_bytes) - first;
        for lost in losses(windows) {
            for zeroed in [true, false] {
                let mut bytes = self.bytes[which].clone();
                let lost_windows = (0..windows).filter(|window| lost[*window]);
                for window in lost_windows.clone() {
                    let start = (first + window) * window_bytes;
                    let from = start.max(self.frame.start);
                    let to = (start + window_bytes).min(self.frame.end);
                    let under = &self.bytes[0][from..to];
                    match zeroed {
                        true => bytes[from..to].fill(0),
                        false => bytes[from..to].copy_from_slice(under),
                    }
                }
                let lost: Vec<usize> = lost_windows.collect();
                let how = if zeroed { "zeroed" } else { "as they were before" };
                each(&format!("windows {lost:?} of {window_bytes} bytes {how}"), bytes);
            }
        }
    }

    fn disk_with(&self, bytes: &[u8]) -> SimDisk {
        let disk = copy(&self.disk, 2);
        put(&disk, &self.segment, bytes);
        disk
    }
}

fn any_part_is_lost(under: Under) {
    let journal = journal(under);
    let clock = ManualClock::default();
    for window_bytes in [512, 4_096] {
        journal.torn(window_bytes, 1, |what, bytes| {
            let what = format!("{under:?}: {what}");
            assert!(bytes != journal.bytes[1], "{what}: something is lost");
            let disk = journal.disk_with(&bytes);
            let store = open_inline(&disk, &clock, 9).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(Snapshot::of(&store) == journal.shown[0], "{what}: exactly this frame goes");
            // A frame of the same length takes its place.
            apply(&store, "shop", changes()).expect("it goes on");
            let shown = Snapshot::of(&store);
            drop(store);
            let again = open_inline(&disk.crash(), &clock, 10);
            let again = again.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(Snapshot::of(&again) == shown, "{what}: what came after it stays");
        });
        journal.torn(window_bytes, 2, |what, bytes| {
            let error = refused(&journal.disk_with(&bytes));
            let message = format!("{under:?}: {what}: {error}");
            let OpenError::Damaged { file, offset, .. } = error else {
                panic!("{message}");
            };
            assert_eq!(file, journal.segment, "{message}");
            assert_eq!(offset, journal.frame.start as u64, "{message}");
        });
    }
    for (bytes, shown) in journal.bytes.iter().zip(&journal.shown) {
        let store = open_inline(&journal.disk_with(bytes), &clock, 9).expect("nothing is lost");
        assert!(Snapshot::of(&store) == *shown, "{under:?}: whole");
    }
}

#[test]
fn p1_a_torn_last_frame_is_cut_whole() {
    any_part_is_lost(Under::Zeros);
}

#[test]
fn p1_a_torn_last_frame_in_a_recycled_segment_is_cut_whole() {
    any_part_is_lost(Under::OldFrames);
}
