//! The reading of a file for the rewriter, part by part: its records, skimmed, and their bytes.
//!
//! A run may have holes where nothing is live. Its directory says where records begin after each hole.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use crate::{
    disk::{self, File},
    effect::{Effect, Skimmed},
    files::FileId,
    format::{ALIGN, align_up, frame, record, segment, sorted_run},
};

/// Bytes of a part, unless one frame or record is longer.
const PART_BYTES: u64 = 4 << 20;

/// A record that may be live.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) namespace: u32,
    pub(super) effect: Effect,
    /// Place in its file.
    pub(super) unit: u32,
    /// Its bytes with padding: range in the bytes of the part.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Length without the padding.
    pub(super) bytes: u64,
}

/// A part of a file.
#[derive(Debug, Default)]
pub(super) struct GatheredPart {
    pub(super) bytes: Vec<u8>,
    pub(super) candidates: Vec<Candidate>,
    /// Slot of its file, if nearly all of the part is live: then its small pending timers are copied
    /// without a lookup in the index.
    pub(super) is_live_in: Option<u16>,
    /// Start of the next part; `None` at the end.
    pub(super) next: Option<PartStart>,
}

impl GatheredPart {
    /// Clears it and keeps its memory, unless that is a large amount.
    fn clear(&mut self) {
        if self.bytes.capacity() as u64 > 4 * PART_BYTES {
            self.bytes = Vec::new();
        }
        self.candidates.clear();
        self.is_live_in = None;
        self.next = None;
    }
}

/// Start of a part of a file.
#[derive(Debug, Clone)]
pub(super) enum PartStart {
    Frames(Frames),
    /// In a run: bounds of the stretches that are still to be read.
    Records(VecDeque<u64>),
}

/// Start of a part of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frames {
    at: u64,
    /// Number of the next frame, and epoch of the frame before.
    lsn: u64,
    epoch: u32,
}

/// A file that is read.
pub(super) struct SourceFile {
    pub(super) file: Arc<dyn File>,
    pub(super) id: FileId,
    pub(super) length: u64,
    pub(super) hash_key: u128,
    pub(super) seed: frame::Seed,
}

impl SourceFile {
    /// Reads a part into the memory of an earlier one. Unreadable records are left out: they stay where
    /// they are.
    pub(super) fn part(
        &self,
        from: Option<PartStart>,
        spent: GatheredPart,
    ) -> disk::Result<GatheredPart> {
        let mut into = spent;
        into.clear();
        let begin = from.map_or_else(|| self.begin(), |mark| Ok(Some(mark)))?;
        match begin {
            Some(PartStart::Frames(from)) => self.frames(from, &mut into)?,
            Some(PartStart::Records(bounds)) => self.records(bounds, &mut into)?,
            None => {}
        }
        Ok(into)
    }

    /// Returns the start of the first part; `None` if the file is not valid.
    fn begin(&self) -> disk::Result<Option<PartStart>> {
        Ok(match self.id {
            FileId::Segment(_) => {
                let header = segment::Header::read(&self.read(0, segment::HEADER_BYTES)?);
                let at = segment::HEADER_BYTES;
                header
                    .map(|header| PartStart::Frames(Frames { at, lsn: header.base_lsn, epoch: 0 }))
            }
            FileId::SortedRun(_) => self.bounds()?.map(PartStart::Records),
        })
    }

    /// Returns the start of each stretch of a run, and the end of the last one.
    fn bounds(&self) -> disk::Result<Option<VecDeque<u64>>> {
        let at = self.length.saturating_sub(sorted_run::TRAILER_BYTES);
        let trailer = self.read(at, sorted_run::TRAILER_BYTES)?;
        let Ok(trailer) = sorted_run::Trailer::read(&trailer, self.seed, self.length) else {
            return Ok(None);
        };
        let directory = self.read(trailer.directory_at, at - trailer.directory_at)?;
        let directory = sorted_run::Directory::decode(&directory, &trailer, self.seed).ok();
        Ok(directory.map(|directory| {
            let starts = directory.groups.iter().map(|group| u64::from(group.unit) * ALIGN);
            starts.chain([trailer.directory_at]).collect()
        }))
    }

    fn read(&self, at: u64, count: u64) -> disk::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_into(&mut bytes, at, count)?;
        Ok(bytes)
    }

    fn read_into(&self, bytes: &mut Vec<u8>, at: u64, count: u64) -> disk::Result<()> {
        bytes.resize(memory(count.min(self.length.saturating_sub(at))), 0);
        self.file.read_exact_at(at, bytes)
    }

    /// Reads the frames of a segment, up to the first that does not follow. After that there may be bytes
    /// of the file's earlier use.
    fn frames(&self, from: Frames, into: &mut GatheredPart) -> disk::Result<()> {
        let GatheredPart { bytes, candidates, next, .. } = into;
        self.read_into(bytes, from.at, PART_BYTES)?;
        let mut mark = from;
        loop {
            let at = usize::try_from(mark.at - from.at).expect("within the part");
            let rest = &bytes[at.min(bytes.len())..];
            let is_cut = rest.len() < frame::HEADER_BYTES && mark.at + 64 < self.length;
            if is_cut && at > 0 {
                break;
            }
            let header = frame::Header::read(rest, self.seed)
                .filter(|header| header.lsn == mark.lsn && header.epoch >= mark.epoch);
            let Some(header) = header else {
                return Ok(());
            };
            let frame_bytes = header.frame_bytes();
            if frame_bytes > rest.len() as u64 {
                if mark.at + frame_bytes > self.length {
                    // Its length is damaged. The bytes of the part stay, because candidates refer to
                    // them.
                    return Ok(());
                }
                if at > 0 {
                    break;
                }
                self.read_into(bytes, mark.at, frame_bytes)?;
                if (bytes.len() as u64) < frame_bytes {
                    return Ok(());
                }
                continue;
            }
            let end = at + usize::try_from(frame_bytes).expect("it is in memory");
            if !frame::is_intact(&bytes[at..end], self.seed, &header) {
                return Ok(());
            }
            self.take(from.at, bytes, at + frame::HEADER_BYTES..end, candidates);
            let (at, lsn, epoch) = (from.at + end as u64, mark.lsn + 1, header.epoch);
            mark = Frames { at, lsn, epoch };
        }
        *next = Some(PartStart::Frames(mark));
        Ok(())
    }

    /// Reads the next stretches of a run, at least one.
    fn records(&self, mut bounds: VecDeque<u64>, into: &mut GatheredPart) -> disk::Result<()> {
        let Some(begin) = bounds.pop_front() else {
            return Ok(());
        };
        let mut stretches = Vec::new();
        let mut end = begin;
        while let Some(next) = bounds.front().copied()
            && (stretches.is_empty() || next - begin <= PART_BYTES)
        {
            stretches.push(memory(end - begin)..memory(next - begin));
            bounds.pop_front();
            end = next;
        }
        self.read_into(&mut into.bytes, begin, end - begin)?;
        for stretch in stretches {
            self.take(begin, &into.bytes, stretch, &mut into.candidates);
        }
        let has_more = !bounds.is_empty();
        bounds.push_front(end);
        into.next = has_more.then_some(PartStart::Records(bounds));
        Ok(())
    }

    /// Collects the records in a range of the part's bytes, up to the first place without a record that
    /// fits. No record begins with zeros, but a hole does.
    fn take(&self, begin: u64, bytes: &[u8], range: Range<usize>, candidates: &mut Vec<Candidate>) {
        let mut at = range.start;
        while let Some(total) = bytes.get(at..range.end).and_then(record::bytes_of) {
            let padded = usize::try_from(align_up(total)).unwrap_or(usize::MAX);
            let end = at.saturating_add(padded);
            if end > range.end || bytes[at..].starts_with(&[0; ALIGN as usize]) {
                break;
            }
            let skimmed = Effect::skim(self.hash_key, &bytes[at..range.end]);
            if let Ok(Skimmed { namespace, bytes, effect }) = skimmed
                && is_kept(&effect)
            {
                let unit = u32::try_from((begin + at as u64) / ALIGN).expect("at most 256 MiB");
                candidates.push(Candidate { namespace, effect, unit, start: at, end, bytes });
            }
            at = end;
        }
    }
}

fn memory(offset: u64) -> usize {
    usize::try_from(offset).expect("a file has at most 256 MiB")
}

const fn is_kept(effect: &Effect) -> bool {
    match effect {
        Effect::Pending(_) | Effect::Redriven(_) | Effect::Dead { .. } => true,
        Effect::Ended { ends_ms, .. } => ends_ms.is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
