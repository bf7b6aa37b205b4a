//! Reads one segment alone, frame by frame, as far as it can be read.
//!
//! It is for `duly store check`. The rules are those of [`super`], but damage is noted. If a later frame
//! shows where valid frames continue, reading resumes there. This is the only reader of segments that no
//! replay needs any more.

use crate::{
    disk::Disk,
    format::record::{self, Decoded},
    manifest::Manifest,
    numbered::damaged,
    open::{OpenError, Result},
};

use super::{
    checks::{check_header, open},
    scan::{Frame, Scan},
    walk::{Halt, WholeFrame},
};

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

/// Reads a segment and passes each record with its byte offset to `each`. Returns `None` if it has no
/// header and no frame: a crash leaves such a file of a segment that was just made.
pub(crate) fn read_segment(
    disk: &dyn Disk,
    manifest: &Manifest,
    sequence: u64,
    each: &mut dyn FnMut(u64, Decoded),
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
        each: &mut dyn FnMut(u64, Decoded),
    ) -> Result<()> {
        let Frame { start, header } = frame;
        let bytes = scan.bytes_of(frame)?;
        let damage = &mut self.damage;
        let whole = WholeFrame { name, slot: 0, start, header, bytes };
        let read = whole.each_record(|place, bytes| {
            match record::decode(bytes) {
                Ok(decoded) => each(place.offset(), decoded),
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
