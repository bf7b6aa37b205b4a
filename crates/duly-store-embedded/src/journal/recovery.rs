//! Reading the journal back at open: what counts as the end, and what as damage.
//!
//! Frames are read in order. The first place that holds no valid next frame ends a segment:
//!
//! * In any segment but the last, the next segment must begin with the very next lsn (a segment is
//!   synced whole before the next one begins). Otherwise it is damage: refuse.
//! * In the last segment it is a **torn tail** and is cut, unless a later valid frame of the same
//!   life says that the bad one had already been on disk (`lag`, see [`crate::format::frame`]).
//!   Then acknowledged data is missing: refuse. A closing frame is such a one. Of what is cut with no
//!   frame behind it nobody can tell whether it was acknowledged ([`Tail::Unknown`]).
//! * A frame of an older epoch than the one before it is left over from before a cut: not valid.
//! * Epochs of frames end at the manifest's; beyond it the manifest is an old copy, and what would
//!   be written next would be taken for left-overs: refuse.
//!
//! * No segment at all is right only before the first one was made, which the epoch tells.
//!
//! Nothing is written here, so a refused directory is as it was.
//!
//! ```text
//!   walk (segments, checks) ─► frames ─┬─► recover          skims them in a thread of its own
//!                                      └─► recover_records  decodes them whole, for tests
//! ```

use std::sync::Arc;

use crate::{
    disk::{self, Disk, File},
    format::segment,
    manifest::Manifest,
    open::{OpenError, Tail},
};
#[cfg(test)]
use crate::{format::record, index::Location};

mod alone;
mod checks;
mod pipeline;
mod scan;
mod walk;

pub(crate) use alone::{Alone, read_alone};
pub(crate) use pipeline::{Replayed, recover};

#[cfg(test)]
use walk::{Halt, Visitor, WholeFrame, walk};

/// Bytes of a cut that are written at once.
const CUT_BYTES: usize = 1 << 20;

/// A segment that recovery read.
#[derive(Debug)]
pub(crate) struct FoundSegment {
    pub(crate) sequence: u64,
    pub(crate) slot: u16,
    pub(crate) file: Arc<dyn File>,
    pub(crate) length: u64,
    /// Where its last valid frame ends.
    pub(crate) end: u64,
    /// Where the frames begin that may never have been synced.
    pub(super) unsure_from: u64,
    /// Where the bytes end that are cut off behind its last frame.
    pub(super) cut_until: u64,
}

impl FoundSegment {
    /// Makes durable what was read: it may only be in the page cache. After a failed sync it would
    /// even stay there, shown to every reader and written by no later sync, so what may be
    /// concerned is written again first. What is cut off becomes zeros, or the rest of it would look
    /// like another cut behind the next frame.
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

/// What recovery found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) segments: Vec<FoundSegment>,
    pub(crate) next_lsn: u64,
    /// The steady clock when the last frame was written, if any was read.
    pub(crate) steady_ms: Option<u64>,
    /// Number of a last segment that was made but never used, and whose name may not be durable: the
    /// journal goes on with the one before it, which takes no frame any more.
    pub(crate) unused: Option<u64>,
    /// How the last segment ends.
    pub(crate) tail: Tail,
    /// Frames, their bytes, and records that were read.
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

impl Found {
    /// A journal without segments.
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

/// Where a replay begins that need not begin at the oldest segment: a place that was the end of the
/// journal once, everything before it durable and known otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayPoint {
    pub(crate) sequence: u64,
    /// Where the frame begins, or would.
    pub(crate) offset: u64,
    /// Its number.
    pub(crate) lsn: u64,
    /// Epoch of the opening in which this was the end. What stands here with an older one is left
    /// over from before a cut.
    pub(crate) epoch: u32,
}

/// How far recovery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Segments read.
    pub segments_done: usize,
    /// Segments in all.
    pub segments: usize,
    /// Records read.
    pub records: u64,
    /// Bytes of segments read.
    pub bytes_done: u64,
    /// Bytes of segments in all.
    pub bytes_total: u64,
}

/// Reads the journal, from its beginning or from `from` on, and hands every record, whole and in
/// order, to `each`.
#[cfg(test)]
pub(crate) fn recover_records(
    disk: &dyn Disk,
    manifest: &Manifest,
    from: Option<ReplayPoint>,
    each: &mut dyn FnMut(Location, record::Decoded) -> Result<(), OpenError>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Found, OpenError> {
    walk(disk, manifest, from, &mut Decoder { each, progress }).map_err(Halt::refusal)
}

/// The numbers of the segments from a replay point on, or of all, in order and without a gap.
pub(crate) fn sequences_from(
    disk: &dyn Disk,
    from: Option<ReplayPoint>,
) -> Result<Vec<u64>, OpenError> {
    checks::sequences(disk, from)
}

/// The numbers of all segments, in order.
pub(crate) fn all_sequences(disk: &dyn Disk) -> Result<Vec<u64>, OpenError> {
    checks::sequences_there(disk)
}

/// Opens a segment that is not read back because a checkpoint covers it; answers its length.
pub(crate) fn open_sealed(
    disk: &dyn Disk,
    sequence: u64,
    manifest: &Manifest,
) -> Result<(Arc<dyn File>, u64), OpenError> {
    let name = super::segment_name(sequence);
    let file = disk.open(&name)?;
    let length = file.len()?;
    checks::check_length(&name, length)?;
    let mut bytes = [0; segment::HEADER_BYTES as usize];
    file.read_exact_at(0, &mut bytes)?;
    let header = segment::Header::read(&bytes)
        .ok_or_else(|| checks::damaged(&name, 0, "the segment's header is not valid"))?;
    checks::check_header(&name, &header, manifest, sequence, length)?;
    Ok((file, length))
}

/// Decodes what a walk comes by.
#[cfg(test)]
struct Decoder<'a> {
    each: &'a mut dyn FnMut(Location, record::Decoded) -> Result<(), OpenError>,
    progress: &'a mut dyn FnMut(Progress),
}

#[cfg(test)]
impl Visitor for Decoder<'_> {
    fn frame(&mut self, frame: &WholeFrame<'_>) -> Result<(), Halt> {
        frame.each_record(|place, bytes| {
            let decoded = record::decode(bytes).map_err(|error| place.damaged(&error))?;
            Ok((self.each)(place.location(bytes), decoded)?)
        })
    }

    fn progress(&mut self, progress: Progress) -> Result<(), Halt> {
        (self.progress)(progress);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
