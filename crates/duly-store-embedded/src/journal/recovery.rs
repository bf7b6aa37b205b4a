//! Reads the journal when a store is opened, and distinguishes its regular end from proven damage.
//!
//! A *frame* is one group commit. A *closing frame* has no records: a clean stop, or an idle journal, writes it
//! only to prove that the frame before it is on disk. The *lsn* (log sequence number) of a frame is one more
//! than that of the frame before, also across segments. The *epoch* is a number in the manifest that grows at
//! every accepted start; a frame carries the epoch in which it was written. A change is acknowledged only when
//! its frame is on disk; a claim may be returned before. Segment files are used again without being erased.
//!
//! The walk starts at the replay point of the checkpoint, or at the first segment. A frame is valid if its
//! checksums are right, its lsn is the next one, and its epoch is not older than that of the last valid frame.
//! The *end point* of a segment is the first place without a valid frame. The *next frame* is the frame that
//! would come at the end point. After the end point the file can have zeros, frames of an earlier use of the
//! file (with lower lsns than the next frame), frames that an earlier start discarded (rule 5), parts of frames
//! that a crash interrupted, or whole later frames.
//!
//! 1. **If another segment with a valid header follows**, its header must have the lsn after the last valid
//!    frame, because a segment is completely synced before the next one begins. Otherwise frames are missing,
//!    and the start is refused. A gap in the numbers of the segments is refused too. A last segment without a
//!    frame is left out: one without a valid header unless the replay point is in it, one with a valid header
//!    unless it is the first. A crash leaves such a segment, or a second try to begin the segment.
//! 2. **In each segment** a frame after the end point may prove damage. Each frame records the newest lsn that
//!    was on disk when it was written, as a distance from its own (`lag`, see [`crate::format::frame`]). A
//!    later frame can prove damage if its checksums are right, its lsn is above that of the next frame, and its
//!    epoch is not older than that of the last valid frame. It is a proof if its `lag` says that the next frame
//!    was on disk: then the next frame, perhaps acknowledged, was damaged since, and the start is refused.
//!    Behind an invalid header of the last segment, any later frame is a proof.
//! 3. Without such proof the segment ends at the end point; in the last segment the journal ends there. If
//!    other bytes than zeros are at the end point (a torn tail), it is unknown if they were an acknowledged
//!    frame: the result is [`Tail::Unknown`], and the log of the start reports it. A crash during a write
//!    leaves the same bytes, so a refusal would stop the store after ordinary crashes. In a file that was used
//!    before, only bytes that resemble the next frame count.
//! 4. The first frame after recovery takes the lsn of the next frame, and the epoch of this start.
//! 5. The first frame of each start has a newer epoch than all before it (rule 4). So a frame with an older
//!    epoch than the last valid one was discarded by an earlier start, or is from an earlier use of the file.
//!    It is not valid, and proves nothing.
//! 6. No valid frame may have a later epoch than the manifest. Otherwise the manifest is an old copy, and
//!    frames that are written from now on could not be told from those that are there. The start is refused.
//! 7. A journal without a segment is refused, unless the epoch of the manifest says that the first segment was
//!    never made durable. A segment with a wrong length or header, a valid frame with records that cannot be
//!    read, and a replay point that is missing or impossible are refused too.
//!
//! What must stay true:
//!
//! 1. The result is every valid frame from the start of the walk on, without a gap.
//! 2. A frame that was proven to be on disk is never skipped.
//! 3. A frame that one start has discarded is neither valid nor proof in a later start.
//! 4. The walk writes nothing, so a directory that it refuses is unchanged. Once it is accepted, the engine
//!    zeroes a torn tail whose end is known, and writes again the header and the frames of the last segment
//!    that no later frame says to be on disk ([`FoundSegment::make_durable`]).
//!
//! ```text
//!   walk (segments, checks) ─► frames ─┬─► recover          reads what the index needs, in another thread
//!                                      └─► recover_records  decodes every record, for tests
//! ```

use std::sync::Arc;

use crate::{
    disk::{self, Disk, File},
    format::segment,
    manifest::Manifest,
    numbered::{SEGMENTS, damaged},
    open::{OpenError, Tail},
};

mod checks;
mod pipeline;
mod scan;
mod walk;

pub(crate) use crate::format::checkpoint::ReplayPoint;
pub(crate) use checks::sequences_from;
pub(crate) use pipeline::{Replayed, recover};
pub(crate) use walk::{SegmentContents, read_segment};

/// Bytes of a cut that are zeroed at once.
const CUT_BYTES: usize = 1 << 20;

/// A segment that recovery read.
#[derive(Debug)]
pub(crate) struct FoundSegment {
    pub(crate) sequence: u64,
    pub(crate) slot: u16,
    pub(crate) file: Arc<dyn File>,
    pub(crate) length: u64,
    /// End of its last valid frame.
    pub(crate) end: u64,
    /// Start of the frames that may never have been synced.
    pub(super) unsure_from: u64,
    /// End of the bytes that are cut off behind its last frame.
    pub(super) cut_until: u64,
}

impl FoundSegment {
    /// Makes the recovered bytes durable, which may only be in the page cache. After a failed sync they
    /// would even stay there: visible to every reader, but written by no later sync. So the uncertain
    /// frames are written again first. Bytes that are cut off become zeros; otherwise their rest would
    /// look like another cut behind the next frame.
    pub(crate) fn make_durable(&self) -> disk::Result<()> {
        let zeros = vec![0; CUT_BYTES];
        for from in (self.end..self.cut_until).step_by(CUT_BYTES) {
            let count = usize::try_from(self.cut_until - from).unwrap_or(CUT_BYTES).min(CUT_BYTES);
            self.file.write_at(from, &zeros[..count])?;
        }
        for range in [0..segment::HEADER_BYTES, self.unsure_from..self.end] {
            let length = usize::try_from(range.end - range.start).expect("a segment fits memory");
            let mut bytes = vec![0; length];
            self.file.read_exact_at(range.start, &mut bytes)?;
            self.file.write_at(range.start, &bytes)?;
        }
        self.file.sync_data()
    }
}

/// The result of recovery.
#[derive(Debug)]
pub(crate) struct RecoveredJournal {
    pub(crate) segments: Vec<FoundSegment>,
    pub(crate) next_lsn: u64,
    /// The steady clock when the last frame was written, if any frame was read.
    pub(crate) steady_ms: Option<u64>,
    /// Number of a last segment without a whole frame, whose name may not be durable. The segment before it
    /// is the last one and takes no more frames: the next frame begins a new segment.
    pub(crate) unused: Option<u64>,
    /// The end of the last segment.
    pub(crate) tail: Tail,
    /// Frames, their bytes, and records that were read.
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

impl RecoveredJournal {
    /// Returns the result for a journal without segments.
    pub(crate) const fn nothing() -> Self {
        Self {
            segments: Vec::new(),
            next_lsn: 1,
            steady_ms: None,
            unused: None,
            tail: Tail::Closed,
            frames: 0,
            bytes: 0,
            records: 0,
        }
    }
}

/// Returns the numbers of all segments, in order.
pub(crate) fn all_sequences(disk: &dyn Disk) -> Result<Vec<u64>, OpenError> {
    SEGMENTS.list(disk)
}

/// Opens a segment that is not read back because a checkpoint covers it. Returns its length too.
pub(crate) fn open_sealed(
    disk: &dyn Disk,
    sequence: u64,
    manifest: &Manifest,
) -> Result<(Arc<dyn File>, u64), OpenError> {
    let (name, file, length) = checks::open(disk, sequence)?;
    let mut bytes = [0; segment::HEADER_BYTES as usize];
    file.read_exact_at(0, &mut bytes)?;
    let header = segment::Header::read(&bytes)
        .ok_or_else(|| damaged(&name, 0, "the segment's header is not valid"))?;
    checks::check_header(&name, &header, manifest, sequence, length)?;
    Ok((file, length))
}

#[cfg(test)]
pub(crate) mod tests;
