use super::{
    super::{Rewriter, RewriterState},
    *,
};
use crate::{
    disk::Disk as _,
    format::record::decode,
    journal::{
        fixture::{FIRST, Fixture, id_of, pending},
        recycle,
    },
    numbered::SEGMENTS,
    options::SEGMENT_BYTES_MIN,
};

impl Rewriter {
    /// Returns the slots from which the job reads.
    pub(in crate::engine) fn sources(&self) -> &[u16] {
        &self.sources
    }

    /// Returns the bytes of live records that the job has read.
    pub(in crate::engine) fn job_bytes(&self) -> usize {
        match &self.state {
            RewriterState::Selecting { job, .. } => job.buffers.bytes.len(),
            _ => 0,
        }
    }
}

/// The timers of a part, read at the places that it names.
fn ids(part: &GatheredPart) -> Vec<String> {
    let records = part.candidates.iter().map(|it| decode(&part.bytes[it.start..it.end]));
    records.map(|it| id_of(&it.expect("whole").record).expect("a timer").to_owned()).collect()
}

/// The timers that the rewriter finds in a segment.
fn gathered(fixture: &Fixture, sequence: u64) -> Vec<String> {
    let source = SourceFile {
        file: fixture.disk.open(&SEGMENTS.name(sequence)).expect("it is there"),
        id: FileId::Segment(sequence),
        length: SEGMENT_BYTES_MIN,
        hash_key: fixture.manifest.hash_key,
        seed: fixture.manifest.frame_seed(),
    };
    ids(&source.part(None, GatheredPart::default()).expect("it is read"))
}

#[test]
fn t11_damaged_frame_length_keeps_earlier_records() {
    for bit in 0..32 {
        let mut fixture = Fixture::new(1);
        let mut starts = Vec::new();
        for id in ["a", "b", "c"] {
            let location = fixture.append(&pending(id, 300));
            fixture.sync();
            starts.push(location.unit() * ALIGN - frame::HEADER_BYTES as u64);
        }
        // The length is after the magic.
        fixture.disk.corrupt(FIRST, starts[1] + 4 + bit / 8, 1 << (bit % 8));
        assert_eq!(gathered(&fixture, 1), ["a"], "bit {bit}");
    }
}

/// Frames of a segment's earlier use are after its own, whole, each where the next one would begin.
#[test]
fn an_old_frame_of_a_recycled_segment_is_not_gathered() {
    let mut fixture = Fixture::new(1);
    for id in ["1", "2", "3", "4", "5"] {
        fixture.frame(id, 0);
    }
    fixture.roll().expect("room");
    fixture.frame("6", 0);
    assert!(
        recycle(&fixture.disk, &crate::journal::DirSyncLock::default(), FIRST, SEGMENT_BYTES_MIN)
            .expect("recycled")
    );
    fixture.roll().expect("room");
    assert_eq!(gathered(&fixture, 2), ["6"]);
    let mut expected = Vec::new();
    for id in ["7", "8", "9"] {
        assert_eq!(gathered(&fixture, 3), expected);
        fixture.frame(id, 0);
        expected.push(id);
    }
    assert_eq!(gathered(&fixture, 3), expected);
}

/// A frame that was written before a cut has the very next number, and an older epoch.
#[test]
fn a_frame_left_over_from_before_a_cut_is_not_gathered() {
    let mut fixture = Fixture::new(1);
    fixture.frame("kept", 0);
    fixture.append(&pending("torn", 0));
    let torn_to = fixture.commit().position.offset;
    fixture.append(&pending("left over", 0));
    fixture.commit();
    assert_eq!(gathered(&fixture, 1), ["kept", "torn", "left over"]);
    fixture.disk.corrupt(FIRST, torn_to - 20, 1);
    let disk = fixture.disk.kill();
    let (mut fixture, _) = fixture.reopen(disk);
    assert_eq!(fixture.frame("anew", 0).1, torn_to);
    assert_eq!(gathered(&fixture, 1), ["kept", "anew"]);
}
