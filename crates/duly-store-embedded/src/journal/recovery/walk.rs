//! Walks over the segments: decides which are read, in which order, and what stops the walk.
//!
//! It passes every valid frame to a [`Visitor`], which processes the records. The rules are those of
//! [`super`]. The visitor adds only one: a record that it cannot read is damage too.

use std::sync::Arc;

use crate::{
    disk::{self, Disk, File},
    format::{self, ALIGN, frame, record, segment},
    index::Location,
    manifest::{self, Manifest},
    numbered::{SEGMENTS, damaged},
    open::{OpenError, OpenProgress, Result},
};

use super::{
    FoundSegment, RecoveredJournal, ReplayPoint,
    checks::{check_header, check_point, check_tail, open, sequences_from},
    scan::{Frame, Scan},
};

/// Bytes of a segment after which progress is reported.
const PROGRESS_BYTES: u64 = 8 << 20;

/// The receiver of the frames of a walk.
pub(super) trait Visitor {
    /// Takes the records of the next frame.
    fn frame(&mut self, frame: &WholeFrame<'_>) -> Result<(), Halt>;

    /// Takes a progress report.
    fn progress(&mut self, progress: OpenProgress) -> Result<(), Halt>;
}

/// The reason that a walk did not reach the end.
pub(super) enum Halt {
    /// The directory is refused.
    Refused(OpenError),
    /// The consumer has stopped.
    ConsumerGone,
}

impl Halt {
    /// Returns the reason, for visitors that never stop by themselves.
    pub(super) fn refusal(self) -> OpenError {
        match self {
            Self::Refused(error) => error,
            Self::ConsumerGone => unreachable!("only a visitor ends a walk in this way"),
        }
    }
}

impl From<OpenError> for Halt {
    fn from(error: OpenError) -> Self {
        Self::Refused(error)
    }
}

impl From<disk::Error> for Halt {
    fn from(error: disk::Error) -> Self {
        Self::Refused(error.into())
    }
}

/// A frame whose checksum holds.
pub(super) struct WholeFrame<'a> {
    pub(super) name: &'a str,
    pub(super) slot: u16,
    pub(super) start: u64,
    pub(super) header: frame::Header,
    pub(super) bytes: &'a [u8],
}

/// The place of a record.
#[derive(Clone, Copy)]
pub(super) struct RecordPlace<'a> {
    name: &'a str,
    slot: u16,
    offset: u64,
}

impl RecordPlace<'_> {
    /// Returns the location of the record whose bytes begin here.
    pub(super) fn location(self, bytes: &[u8]) -> Location {
        let bytes = record::bytes_of(bytes).unwrap_or(0);
        Location::new(self.slot, self.offset / ALIGN, bytes)
    }

    pub(super) fn damaged(self, error: &format::DecodeError) -> OpenError {
        damaged(self.name, self.offset, &error.to_string())
    }
}

impl WholeFrame<'_> {
    /// Passes every record to `each`: its place, and the frame's bytes from there on. `each` refuses
    /// bytes that are not a whole record.
    pub(super) fn each_record(
        &self,
        mut each: impl FnMut(RecordPlace<'_>, &[u8]) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let mut at = frame::HEADER_BYTES;
        for _ in 0..self.header.count {
            let offset = self.start + at as u64;
            let rest = self.bytes.get(at..).unwrap_or(&[]);
            each(RecordPlace { name: self.name, slot: self.slot, offset }, rest)?;
            let bytes = record::bytes_of(rest).unwrap_or(0);
            at += usize::try_from(format::align_up(bytes)).unwrap_or(usize::MAX);
        }
        if at != self.bytes.len() {
            let what = "the frame's record count is wrong";
            return Err(damaged(self.name, self.start, what).into());
        }
        Ok(())
    }
}

/// A segment before it is read.
struct NamedSegment {
    sequence: u64,
    name: String,
    file: Arc<dyn File>,
    length: u64,
}

/// Walks over the journal, from its beginning or from a replay point on.
pub(super) fn walk(
    disk: &dyn Disk,
    manifest: &Manifest,
    from: Option<ReplayPoint>,
    visitor: &mut dyn Visitor,
) -> Result<RecoveredJournal, Halt> {
    let segments = segments(disk, from)?;
    let skipped = from.map_or(0, |point| point.offset);
    let bytes_total = segments.iter().map(|segment| segment.length).sum::<u64>();
    let mut walk = SegmentWalk {
        manifest,
        from,
        visitor,
        found: RecoveredJournal::nothing(),
        epoch: from.map_or(0, |point| point.epoch),
        segments: segments.len(),
        bytes_done: 0,
        bytes_total: bytes_total.saturating_sub(skipped),
    };
    walk.report_progress(0)?;
    for segment in segments {
        if !walk.segment(segment)? {
            break;
        }
    }
    let found = walk.found;
    if found.segments.is_empty() && manifest.epoch > manifest::EPOCH_BEFORE_JOURNAL {
        let what = "the journal is gone although the store was in use: mount or restore it";
        return Err(damaged(SEGMENTS.dir, 0, what).into());
    }
    Ok(found)
}

/// Opens the files to be read. Nothing is read if one of them cannot be right.
fn segments(disk: &dyn Disk, from: Option<ReplayPoint>) -> Result<Vec<NamedSegment>, Halt> {
    let sequences = sequences_from(disk, from)?.into_iter();
    let open = sequences.map(|sequence| {
        let (name, file, length) = open(disk, sequence)?;
        Ok(NamedSegment { sequence, name, file, length })
    });
    open.collect()
}

/// A walk under way.
struct SegmentWalk<'a> {
    manifest: &'a Manifest,
    from: Option<ReplayPoint>,
    visitor: &'a mut dyn Visitor,
    found: RecoveredJournal,
    /// Epoch of the last frame.
    epoch: u32,
    segments: usize,
    bytes_done: u64,
    bytes_total: u64,
}

impl SegmentWalk<'_> {
    /// Reads the next segment. Returns `false` for a file that a crash during a roll left behind.
    fn segment(&mut self, segment: NamedSegment) -> Result<bool, Halt> {
        let NamedSegment { sequence, name, file, length } = segment;
        let place = self.found.segments.len();
        let is_last = place + 1 == self.segments;
        let point = self.from.filter(|_| place == 0);
        let seed = self.manifest.frame_seed();
        let mut scan = Scan::new(file.as_ref(), length, seed, self.epoch, self.found.next_lsn);
        let Some(header) = scan.segment_header()? else {
            // A segment with a replay point was in use.
            if is_last && point.is_none() && scan.later_frame(|_| true)?.is_none() {
                self.found.unused = Some(sequence);
                return Ok(false);
            }
            return Err(damaged(&name, 0, "the segment's header is not valid").into());
        };
        check_header(&name, &header, self.manifest, sequence, length)?;
        if let Some(point) = point {
            check_point(&name, &header, point)?;
            scan.begin_at(point.offset, point.lsn);
        } else if place == 0 {
            scan.begin_at(segment::HEADER_BYTES, header.base_lsn);
        } else if header.base_lsn != self.found.next_lsn {
            let what = format!(
                "frames {} to {} are missing before it",
                self.found.next_lsn,
                header.base_lsn.saturating_sub(1)
            );
            return Err(damaged(&name, 0, &what).into());
        }
        let slot = u16::try_from(place).map_err(|_| damaged(&name, 0, "too many segments"))?;
        let begin = point.map_or(0, |point| point.offset);
        let bytes_before = self.bytes_done;
        let begun_at = scan.at;
        while let Some(Frame { start, header }) = scan.next_frame()? {
            let bytes = scan.bytes_of(Frame { start, header })?;
            self.visitor.frame(&WholeFrame { name: &name, slot, start, header, bytes })?;
            self.found.steady_ms = Some(header.steady_ms);
            self.found.frames += 1;
            self.found.records += u64::from(header.count);
            let bytes_done = bytes_before + scan.at - begin;
            if bytes_done - self.bytes_done >= PROGRESS_BYTES {
                self.report_progress(bytes_done)?;
            }
        }
        // The header of the next segment is checked against this lsn, but a crash during a roll leaves a
        // file without a header.
        let (tail, cut_until) = check_tail(&name, &mut scan)?;
        self.found.tail = tail;
        self.found.next_lsn = scan.lsn;
        self.epoch = scan.epoch;
        self.check_epoch(&name)?;
        let (end, unsure_from) = (scan.at, scan.unsure_from());
        let is_first = self.found.segments.is_empty();
        if is_last && !is_first && end == segment::HEADER_BYTES {
            // After a failed sync of the directory its name may exist in memory only.
            self.found.unused = Some(sequence);
            return Ok(false);
        }
        self.found.bytes += end - begun_at;
        self.found.segments.push(FoundSegment {
            sequence,
            slot,
            file,
            length,
            end,
            unsure_from,
            cut_until,
        });
        self.report_progress(bytes_before + length - begin)?;
        Ok(true)
    }

    fn check_epoch(&self, name: &str) -> Result<()> {
        let (epoch, known) = (self.epoch, self.manifest.epoch);
        if u64::from(epoch) <= known {
            return Ok(());
        }
        let what = format!(
            "it has epoch {known} but {name} was written in epoch {epoch}: it is an old copy"
        );
        Err(damaged(manifest::NAME, manifest::EPOCH_AT, &what))
    }

    fn report_progress(&mut self, bytes_done: u64) -> Result<(), Halt> {
        self.bytes_done = bytes_done;
        let (what, bytes_total) = (OpenProgress::JOURNAL, self.bytes_total);
        self.visitor.progress(OpenProgress { what, bytes_done, bytes_total })
    }
}

/// The contents of a segment.
#[derive(Debug)]
pub(crate) struct SegmentContents {
    pub(crate) base_lsn: u64,
    /// Number of the next frame.
    pub(crate) next_lsn: u64,
    pub(crate) frames: u64,
    pub(crate) records: u64,
    /// End of its last frame.
    pub(crate) end: u64,
    /// The damage in it.
    pub(crate) damage: Vec<OpenError>,
}

/// Reads one segment alone, frame by frame, and passes each record with its byte offset to `each`. Returns
/// `None` if it has no header and no frame: a crash leaves such a file of a segment that was just made.
///
/// It is for readers of segments that no replay needs any more. The rules are those of [`super`], but damage
/// is noted. If a later frame shows where valid frames continue, reading resumes there.
pub(crate) fn read_segment(
    disk: &dyn Disk,
    manifest: &Manifest,
    sequence: u64,
    each: &mut dyn FnMut(u64, record::Decoded),
) -> Result<Option<SegmentContents>> {
    let (name, file, length) = open(disk, sequence)?;
    let mut scan = Scan::new(file.as_ref(), length, manifest.frame_seed(), 0, 0);
    let Some(header) = scan.segment_header()? else {
        if scan.later_frame(|_| true)?.is_none() {
            return Ok(None);
        }
        return Err(damaged(&name, 0, "the segment's header is not valid"));
    };
    check_header(&name, &header, manifest, sequence, length)?;
    scan.begin_at(scan.at, header.base_lsn);
    let base_lsn = header.base_lsn;
    let (frames, records, end) = (0, 0, scan.at);
    let mut contents =
        SegmentContents { base_lsn, next_lsn: base_lsn, frames, records, end, damage: Vec::new() };
    loop {
        while let Some(frame) = scan.next_frame()? {
            contents.take(&name, &mut scan, frame, each)?;
        }
        let (missing, at) = (scan.lsn, scan.at);
        let Some(later) = scan.later_frame(|header| header.durable_lsn() >= missing)? else {
            (contents.next_lsn, contents.end) = (missing, at);
            return Ok(Some(contents));
        };
        let what = format!(
            "frame {missing} is damaged although frame {} at byte {} was written after it was \
             durable",
            later.header.lsn, later.start
        );
        contents.damage.push(damaged(&name, at, &what));
        scan.begin_at(later.start, later.header.lsn);
    }
}

impl SegmentContents {
    fn take(
        &mut self,
        name: &str,
        scan: &mut Scan<'_>,
        frame: Frame,
        each: &mut dyn FnMut(u64, record::Decoded),
    ) -> Result<()> {
        let Frame { start, header } = frame;
        let bytes = scan.bytes_of(frame)?;
        let damage = &mut self.damage;
        let whole = WholeFrame { name, slot: 0, start, header, bytes };
        let read = whole.each_record(|place, bytes| {
            match record::decode(bytes) {
                Ok(decoded) => each(place.offset, decoded),
                Err(error) => damage.push(place.damaged(&error)),
            }
            Ok(())
        });
        self.damage.extend(read.map_err(Halt::refusal).err());
        self.frames += 1;
        self.records += u64::from(header.count);
        Ok(())
    }
}
