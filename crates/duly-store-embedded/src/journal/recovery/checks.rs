//! Checks of the names, headers and tails of segments, before and after their frames are read.

use std::sync::Arc;

use crate::{
    disk::{Disk, File},
    format::{ALIGN, segment},
    manifest::Manifest,
    numbered::{SEGMENTS, damaged},
    open::{OpenError, Tail},
    options::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN},
};

use super::{ReplayPoint, scan::Scan};

/// Returns the numbers of the segments from a replay point on, or of all, in order and without a gap.
pub(crate) fn sequences_from(
    disk: &dyn Disk,
    from: Option<ReplayPoint>,
) -> Result<Vec<u64>, OpenError> {
    let mut sequences = SEGMENTS.list(disk)?;
    if let Some(point) = from {
        sequences.retain(|sequence| *sequence >= point.sequence);
        if sequences.first() != Some(&point.sequence) {
            let missing = SEGMENTS.name(point.sequence);
            return Err(damaged(&missing, 0, "the segment is missing"));
        }
    }
    if let Some(gap) = sequences.windows(2).find(|pair| pair[1] != pair[0] + 1) {
        let missing = SEGMENTS.name(gap[0] + 1);
        return Err(damaged(&missing, 0, "the segment is missing"));
    }
    Ok(sequences)
}

pub(super) fn check_header(
    name: &str,
    header: &segment::Header,
    manifest: &Manifest,
    sequence: u64,
    length: u64,
) -> Result<(), OpenError> {
    manifest.check_origin(name, "segment", header.version, header.store)?;
    if header.sequence != sequence || header.length != length {
        return Err(damaged(name, 32, "the segment was renamed, cut or extended"));
    }
    Ok(())
}

/// Checks the length of a segment's file. Segments have their full length before they get their name, so
/// another length is not a trace of a crash.
fn check_length(name: &str, length: u64) -> Result<(), OpenError> {
    if (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&length) {
        return Ok(());
    }
    let what =
        format!("it has {length} bytes; segments have {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}");
    Err(damaged(name, 0, &what))
}

/// Opens a segment. Returns the name of its file, and its length, which is checked.
pub(super) fn open(
    disk: &dyn Disk,
    sequence: u64,
) -> Result<(String, Arc<dyn File>, u64), OpenError> {
    let name = SEGMENTS.name(sequence);
    let file = disk.open(&name)?;
    let length = file.len()?;
    check_length(&name, length)?;
    Ok((name, file, length))
}

/// Checks that a replay point can be in the segment with this header.
pub(super) fn check_point(
    name: &str,
    header: &segment::Header,
    point: ReplayPoint,
) -> Result<(), OpenError> {
    let ReplayPoint { offset, lsn, .. } = point;
    let is_first = offset == segment::HEADER_BYTES;
    let fits = (segment::HEADER_BYTES..=header.length).contains(&offset)
        && offset.is_multiple_of(ALIGN)
        && lsn >= header.base_lsn
        && is_first == (lsn == header.base_lsn);
    if fits {
        return Ok(());
    }
    let what = format!(
        "frame {lsn}, from which on the journal is to be read, cannot begin here: the segment \
         begins with frame {} and has {} bytes",
        header.base_lsn, header.length
    );
    Err(damaged(name, offset, &what))
}

/// Returns the kind of a segment's tail, and the end of the bytes that are cut off behind its frames.
/// Refuses if a later frame proves that the missing one had been durable.
pub(super) fn check_tail(name: &str, scan: &mut Scan<'_>) -> Result<(Tail, u64), OpenError> {
    let missing = scan.lsn;
    if let Some(witness) = scan.later_frame(|header| header.durable_lsn() >= missing)? {
        let what = format!(
            "frame {missing} is damaged although frame {} at byte {} was written after it was \
             durable",
            witness.header.lsn, witness.start
        );
        return Err(damaged(name, scan.at, &what));
    }
    if let Some(until) = scan.leftovers_until()? {
        return Ok((Tail::Unknown, until));
    }
    let tail = match scan.last {
        Some(header) if !header.is_closing() => Tail::Open,
        // A tail without a frame is confirmed by the previous segment or by the checkpoint.
        _ => Tail::Closed,
    };
    Ok((tail, scan.at))
}
