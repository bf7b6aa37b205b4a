//! Reading a whole file for the rewriter: its records, skimmed, and their bytes.

use std::ops::Range;

use crate::{
    disk::{self, File},
    effect::{Effect, Skimmed},
    files::FileId,
    format::{ALIGN, align_up, frame, record, run, segment},
};

/// A record that may be live.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) namespace: u32,
    pub(super) effect: Effect,
    /// Where it stands in its file.
    pub(super) unit: u32,
    /// Its bytes, padding included, among those of the file.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Its bytes without the padding.
    pub(super) bytes: u64,
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) bytes: Vec<u8>,
    pub(super) candidates: Vec<Candidate>,
}

/// Reads a file. Records that cannot be read are left out: nothing points at their new place, so
/// they stay where they are.
pub(super) fn gather(
    file: &dyn File,
    id: FileId,
    length: u64,
    hash_key: u128,
    seed: frame::Seed,
) -> Result<Gathered, disk::Error> {
    let mut bytes = vec![0; usize::try_from(length).expect("a file has at most 256 MiB")];
    file.read_exact_at(0, &mut bytes)?;
    let mut candidates = Vec::new();
    let mut take = |start: usize, end: usize| {
        let mut at = start;
        while at < end {
            let rest = &bytes[at..end];
            let Some(total) = record::bytes_of(rest) else {
                return;
            };
            let padded = usize::try_from(align_up(total)).unwrap_or(usize::MAX);
            let stop = at.saturating_add(padded).min(end);
            if let Ok(Skimmed { namespace, bytes, effect }) = Effect::skim(hash_key, rest)
                && is_kept(&effect)
            {
                let unit = u32::try_from(at as u64 / ALIGN).expect("at most 256 MiB");
                candidates.push(Candidate { namespace, effect, unit, start: at, end: stop, bytes });
            }
            at = stop;
        }
    };
    match id {
        FileId::Segment(_) => {
            for frame in frames_of(&bytes, seed) {
                take(frame.start + frame::HEADER_BYTES, frame.end);
            }
        }
        FileId::Run(_) => {
            let trailer_at = bytes.len().saturating_sub(run::TRAILER_BYTES as usize);
            let trailer = run::Trailer::read(&bytes[trailer_at..], seed, length);
            let end = trailer.map_or(trailer_at, |trailer| {
                usize::try_from(trailer.directory_at).expect("within the file")
            });
            take(run::HEADER_BYTES as usize, end);
        }
    }
    Ok(Gathered { bytes, candidates })
}

/// Where the frames of a segment stand, up to the first that is not the next one: behind it may be
/// what an earlier life of the file left.
fn frames_of(bytes: &[u8], seed: frame::Seed) -> Vec<Range<usize>> {
    let mut frames = Vec::new();
    let Some(segment) = segment::Header::read(bytes) else {
        return frames;
    };
    let (mut at, mut lsn, mut epoch) = (segment::HEADER_BYTES as usize, segment.base_lsn, 0);
    while let Some(header) = bytes.get(at..).and_then(frame::Header::read) {
        let end = usize::try_from(header.frame_bytes()).map_or(usize::MAX, |len| at + len);
        let is_next = header.lsn == lsn && header.epoch >= epoch;
        let Some(whole) = bytes.get(at..end).filter(|_| is_next) else {
            break;
        };
        if !frame::is_intact(whole, seed, &header) {
            break;
        }
        frames.push(at..end);
        (at, lsn, epoch) = (end, lsn + 1, header.epoch);
    }
    frames
}

const fn is_kept(effect: &Effect) -> bool {
    match effect {
        Effect::Pending(_) | Effect::Redriven(_) | Effect::Dead { .. } => true,
        Effect::Ended { ends_ms, .. } => ends_ms.is_some(),
        _ => false,
    }
}
