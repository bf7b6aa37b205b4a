//! Checks of the names, headers and tails of segments, before and after their frames are read.

use crate::{
    disk::Disk,
    format::{self, ALIGN, segment},
    journal::{DIR, segment_name},
    manifest::Manifest,
    open::{OpenError, Tail},
    options::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN},
};

use super::{ReplayPoint, scan::Scan};

/// Returns the numbers of the existing segments, in order.
pub(super) fn sequences_there(disk: &dyn Disk) -> Result<Vec<u64>, OpenError> {
    let mut sequences = Vec::new();
    for name in disk.list(DIR)? {
        if let Some(number) = name.strip_suffix(".log") {
            let sequence = number.parse().unwrap_or(0);
            let full_name = format!("{DIR}/{name}");
            if sequence == 0 || segment_name(sequence) != full_name {
                return Err(damaged(&full_name, 0, "not a name that Duly gives"));
            }
            sequences.push(sequence);
        }
    }
    sequences.sort_unstable();
    Ok(sequences)
}

/// Returns the numbers of the segments to be read, in order and without a gap.
pub(super) fn sequences(disk: &dyn Disk, from: Option<ReplayPoint>) -> Result<Vec<u64>, OpenError> {
    let mut sequences = sequences_there(disk)?;
    if let Some(point) = from {
        sequences.retain(|sequence| *sequence >= point.sequence);
        if sequences.first() != Some(&point.sequence) {
            let missing = segment_name(point.sequence);
            return Err(damaged(&missing, 0, "the segment is missing"));
        }
    }
    if let Some(gap) = sequences.windows(2).find(|pair| pair[1] != pair[0] + 1) {
        let missing = segment_name(gap[0] + 1);
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
    if header.store != manifest.store {
        return Err(damaged(name, 16, "the segment belongs to another store"));
    }
    // A newer build may have written it in a format that its manifest declares readable by this one.
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

pub(super) fn damaged(file: &str, offset: u64, what: &str) -> OpenError {
    OpenError::Damaged { file: file.into(), offset, what: what.into() }
}

/// Checks the length of a segment's file. Segments have their full length before they get their name, so
/// another length is not a trace of a crash.
pub(super) fn check_length(name: &str, length: u64) -> Result<(), OpenError> {
    if (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&length) {
        return Ok(());
    }
    let what =
        format!("it has {length} bytes; segments have {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}");
    Err(damaged(name, 0, &what))
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
    let tail = match scan.last() {
        Some(header) if !header.is_closing() => Tail::Open,
        // A tail without a frame is confirmed by the previous segment or by the checkpoint.
        _ => Tail::Closed,
    };
    Ok((tail, scan.at))
}
