//! Reading the journal back at open: what counts as the end, and what as damage.
//!
//! Frames are read in order. The first place that holds no valid next frame ends a segment:
//!
//! * In any segment but the last, the next segment must begin with the very next lsn (a segment is
//!   synced whole before the next one begins). Otherwise it is damage: refuse.
//! * In the last segment it is a **torn tail** and is cut, unless a later valid frame of the same
//!   life says that the bad one had already been on disk (`lag`, see [`crate::format::frame`]).
//!   Then acknowledged data is missing: refuse.
//! * A frame of an older epoch than the one before it is left over from before a cut: not valid.
//! * Epochs of frames end at the manifest's; beyond it the manifest is an old copy, and what would
//!   be written next would be taken for left-overs: refuse.
//!
//! * No segment at all is right only before the first one was made, which the epoch tells.
//!
//! Nothing is written here, so a refused directory is as it was.

use std::sync::Arc;

use crate::{
    disk::{self, Disk, File},
    format::{self, ALIGN, frame, record, segment},
    index::Location,
    manifest::{self, Manifest},
    open::OpenError,
    options::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN},
};

use super::DIR;

mod scan;

use scan::{Frame, Scan};

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
    unsure_from: u64,
}

impl FoundSegment {
    /// Makes durable what was read: it may only be in the page cache. After a failed sync it would
    /// even stay there, shown to every reader and written by no later sync, so what may be
    /// concerned is written again first.
    pub(crate) fn make_durable(&self) -> Result<(), disk::Error> {
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
    /// A last segment that was made but never used; to be removed.
    pub(crate) unused: Option<String>,
    /// Bytes that were cut off the tail.
    pub(crate) torn: bool,
    /// Frames and records that were read.
    pub(crate) frames: u64,
    pub(crate) records: u64,
}

impl Found {
    /// A journal without segments.
    pub(crate) const fn nothing() -> Self {
        Self { segments: Vec::new(), next_lsn: 1, unused: None, torn: false, frames: 0, records: 0 }
    }
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
}

/// Reads the whole journal and hands every record, in order, to `each`.
pub(crate) fn recover(
    disk: &dyn Disk,
    manifest: &Manifest,
    each: &mut dyn FnMut(Location, record::Decoded) -> Result<(), OpenError>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Found, OpenError> {
    let sequences = sequences(disk)?;
    let mut found = Found::nothing();
    let mut epoch = 0;
    for (place, &sequence) in sequences.iter().enumerate() {
        let last = place + 1 == sequences.len();
        let name = super::segment_name(sequence);
        let file = disk.open(&name)?;
        let length = file.len()?;
        check_length(&name, length)?;
        let mut scan =
            Scan::new(file.as_ref(), length, manifest.frame_seed(), epoch, found.next_lsn);
        let Some(header) = scan.segment_header()? else {
            if last && scan.later_frame(|_| true)?.is_none() {
                found.unused = Some(name);
                break;
            }
            return Err(damaged(&name, 0, "the segment's header is not valid"));
        };
        check_header(&name, &header, manifest, sequence, length)?;
        if place == 0 {
            found.next_lsn = header.base_lsn;
            scan.lsn = header.base_lsn;
        } else if header.base_lsn != found.next_lsn {
            let what = format!(
                "frames {} to {} are missing before it",
                found.next_lsn,
                header.base_lsn.saturating_sub(1)
            );
            return Err(damaged(&name, 0, &what));
        }
        let slot = u16::try_from(place).map_err(|_| damaged(&name, 0, "too many segments"))?;
        while let Some(Frame { start, header }) = scan.next_frame()? {
            let bytes = scan.bytes_of(Frame { start, header })?;
            found.frames += 1;
            found.records += each_record(&name, start, header.count, bytes, slot, each)?;
        }
        // The header of the next segment is checked against this lsn; but a crash in a roll leaves
        // one without a header.
        found.torn = check_tail(&name, &mut scan)?;
        found.next_lsn = scan.lsn;
        epoch = scan.epoch;
        if u64::from(epoch) > manifest.epoch {
            let what = format!(
                "it has epoch {} but {name} was written in epoch {epoch}: it is an old copy",
                manifest.epoch
            );
            return Err(damaged(manifest::NAME, manifest::EPOCH_AT, &what));
        }
        let (end, unsure_from) = (scan.at, scan.unsure_from());
        found.segments.push(FoundSegment { sequence, slot, file, length, end, unsure_from });
        progress(Progress {
            segments_done: place + 1,
            segments: sequences.len(),
            records: found.records,
        });
    }
    if found.segments.is_empty() && manifest.epoch > manifest::EPOCH_BEFORE_JOURNAL {
        let what = "the journal is gone although the store was in use: mount or restore it";
        return Err(damaged(DIR, 0, what));
    }
    Ok(found)
}

fn sequences(disk: &dyn Disk) -> Result<Vec<u64>, OpenError> {
    let mut sequences = Vec::new();
    for name in disk.list(DIR)? {
        if let Some(number) = name.strip_suffix(".log") {
            let sequence = number.parse().unwrap_or(0);
            let full_name = format!("{DIR}/{name}");
            if sequence == 0 || super::segment_name(sequence) != full_name {
                return Err(damaged(&full_name, 0, "not a name that Duly gives"));
            }
            sequences.push(sequence);
        }
    }
    sequences.sort_unstable();
    if let Some(gap) = sequences.windows(2).find(|pair| pair[1] != pair[0] + 1) {
        let missing = super::segment_name(gap[0] + 1);
        return Err(damaged(&missing, 0, "the segment is missing"));
    }
    Ok(sequences)
}

fn check_header(
    name: &str,
    header: &segment::Header,
    manifest: &Manifest,
    sequence: u64,
    length: u64,
) -> Result<(), OpenError> {
    if header.store != manifest.store {
        return Err(damaged(name, 16, "the segment belongs to another store"));
    }
    // A newer build may have written it in a way that its manifest says this one can read.
    if header.version > format::VERSION.max(manifest.version) {
        return Err(OpenError::Newer {
            found: header.version,
            known: format::VERSION,
            features: 0,
        });
    }
    if header.version < format::VERSION_READ_MIN {
        return Err(OpenError::Older { found: header.version, oldest: format::VERSION_READ_MIN });
    }
    if header.sequence != sequence || header.length != length {
        return Err(damaged(name, 32, "the segment was renamed, cut or extended"));
    }
    Ok(())
}

fn damaged(file: &str, offset: u64, what: &str) -> OpenError {
    OpenError::Damaged { file: file.into(), offset, what: what.into() }
}

/// Segments have their full length before they get their name, so another length is no trace of a
/// crash.
fn check_length(name: &str, length: u64) -> Result<(), OpenError> {
    if (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&length) {
        return Ok(());
    }
    let what =
        format!("it has {length} bytes; segments have {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}");
    Err(damaged(name, 0, &what))
}

/// Hands over the records of a frame; answers how many.
fn each_record(
    name: &str,
    start: u64,
    count: u32,
    frame: &[u8],
    slot: u16,
    each: &mut dyn FnMut(Location, record::Decoded) -> Result<(), OpenError>,
) -> Result<u64, OpenError> {
    let mut at = frame::HEADER_BYTES;
    for _ in 0..count {
        let offset = start + at as u64;
        let rest = frame.get(at..).unwrap_or(&[]);
        let decoded =
            record::decode(rest).map_err(|error| damaged(name, offset, &error.to_string()))?;
        let bytes = record::bytes_of(rest).unwrap_or(0);
        each(Location::new(slot, offset / ALIGN, bytes), decoded)?;
        at += usize::try_from(format::align_up(bytes)).unwrap_or(usize::MAX);
    }
    if at != frame.len() {
        return Err(damaged(name, start, "the frame's record count is wrong"));
    }
    Ok(u64::from(count))
}

/// Whether something was cut off the tail; refuses when a later frame shows that it had been
/// durable.
fn check_tail(name: &str, scan: &mut Scan<'_>) -> Result<bool, OpenError> {
    let missing = scan.lsn;
    if let Some(witness) = scan.later_frame(|header| header.durable_lsn() >= missing)? {
        let what = format!(
            "frame {missing} is damaged although frame {} at byte {} was written after it was \
             durable",
            witness.header.lsn, witness.start
        );
        return Err(damaged(name, scan.at, &what));
    }
    scan.has_leftovers()
}

#[cfg(test)]
mod tests;
