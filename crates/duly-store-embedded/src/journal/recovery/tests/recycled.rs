//! A recycled segment still holds the frames of its first life, complete and of the same epoch.

use std::ops::Range;

use crate::{
    format::{frame, segment},
    journal::{
        fixture::{FIRST, Fixture},
        spare,
    },
    numbered::SEGMENTS,
    open::{OpenError, Tail},
    options::SEGMENT_BYTES_MIN,
};

use super::read;

/// Makes a journal whose third segment is its recycled first one. Frames 1 to 5 were in it; frames 6 and
/// 7 are in the second.
fn recycled() -> Fixture {
    let mut fixture = Fixture::new(1);
    for id in ["1", "2", "3", "4", "5"] {
        fixture.frame(id, 0);
    }
    fixture.roll().expect("room");
    fixture.frame("6", 0);
    fixture.frame("7", 0);
    assert!(
        spare::recycle(
            &fixture.disk,
            &crate::journal::DirSyncLock::default(),
            FIRST,
            SEGMENT_BYTES_MIN
        )
        .expect("recycled")
    );
    let old = fixture.disk.read_file(&FIRST.replace(".log", spare::RECYCLED_SUFFIX));
    fixture.roll().expect("room");
    let new = fixture.disk.read_file(&SEGMENTS.name(3));
    let header_bytes = usize::try_from(segment::HEADER_BYTES).expect("small");
    assert!(old[header_bytes..] == new[header_bytes..], "its old frames are all there");
    assert!(old[header_bytes..][..64].iter().any(|byte| *byte != 0));
    fixture
}

#[test]
fn an_old_frame_of_a_recycled_segment_is_not_valid() {
    let mut fixture = recycled();
    // The place of the next frame holds a whole old one.
    let reread = read(&fixture).expect("whole");
    assert_eq!((reread.ids(), reread.found.next_lsn), (vec!["6", "7"], 8));
    // The new frame has the length of each old one: behind it the second of them begins.
    let (from, to) = fixture.frame("8", 0);
    let reread = read(&fixture).expect("whole");
    assert_eq!((reread.ids(), reread.found.next_lsn), (vec!["6", "7", "8"], 9));
    assert_eq!(reread.found.tail, Tail::Open, "nothing was begun behind it");
    let whole = fixture.disk.read_file(&SEGMENTS.name(3));
    // A torn frame is cut alone, and the rest of the first old frame does not lead to the others.
    for cut in (from..to).step_by(8) {
        fixture.disk.corrupt(&SEGMENTS.name(3), cut, 1);
        let reread = read(&fixture).expect("a torn tail is no damage");
        assert_eq!((reread.ids(), reread.found.next_lsn), (vec!["6", "7"], 8), "byte {cut}");
        fixture.disk.corrupt(&SEGMENTS.name(3), cut, 1);
    }
    assert!(whole == fixture.disk.read_file(&SEGMENTS.name(3)));
    fixture.disk.corrupt(&SEGMENTS.name(3), to - 8, 1);
    let disk = fixture.disk.kill();
    let (mut fixture, records) = fixture.reopen(disk);
    assert_eq!(records.len(), 2);
    // Without a frame the segment counts as never used, and is made again.
    fixture.roll().expect("room");
    fixture.frame("anew", 0);
    let reread = read(&fixture).expect("whole");
    assert_eq!((reread.ids(), reread.found.next_lsn), (vec!["6", "7", "anew"], 9));
}

#[test]
fn each_new_frame_of_a_recycled_segment_can_be_the_last() {
    let mut fixture = recycled();
    let mut expected = vec!["6", "7"];
    // One more than there are old ones.
    for id in ["8", "9", "a", "b", "c", "d"] {
        fixture.frame(id, 0);
        expected.push(id);
        assert_eq!(read(&fixture).expect("whole").ids(), expected);
    }
}

/// Returns one bit of each byte, a different one each time.
fn one_of_each_byte(bytes: Range<u64>) -> impl Iterator<Item = u64> {
    bytes.map(|byte| byte * 8 + byte % 8)
}

/// Behind a damaged frame there are old ones. A flipped bit must not turn it into one of them.
#[test]
fn a_damaged_last_frame_after_recycling_is_unknown_or_damage() {
    let mut fixture = recycled();
    let segment = SEGMENTS.name(3);
    let (from, to) = fixture.frame("8", 0);
    for bit in one_of_each_byte(from..to) {
        fixture.disk.corrupt(&segment, bit / 8, 1 << (bit % 8));
        let reread = read(&fixture).expect("nothing shows that it was durable");
        let tail = reread.found.tail;
        assert_eq!((reread.ids(), tail), (vec!["6", "7"], Tail::Unknown), "bit {bit}");
        fixture.disk.corrupt(&segment, bit / 8, 1 << (bit % 8));
    }
    fixture.close();
    assert_eq!(read(&fixture).expect("whole").found.tail, Tail::Closed);
    for bit in one_of_each_byte(from..to) {
        fixture.disk.corrupt(&segment, bit / 8, 1 << (bit % 8));
        let error = read(&fixture).expect_err("the closing frame shows that it was durable");
        assert!(matches!(error, OpenError::Damaged { offset, .. } if offset == from), "{error}");
        fixture.disk.corrupt(&segment, bit / 8, 1 << (bit % 8));
    }
    for bit in one_of_each_byte(to..to + frame::HEADER_BYTES as u64) {
        fixture.disk.corrupt(&segment, bit / 8, 1 << (bit % 8));
        let reread = read(&fixture).expect("nothing is missing");
        let tail = reread.found.tail;
        assert_eq!((reread.ids(), tail), (vec!["6", "7", "8"], Tail::Unknown), "bit {bit}");
        fixture.disk.corrupt(&segment, bit / 8, 1 << (bit % 8));
    }
}
