//! Counts the records that point into each chunk of a file, so that the space of dead chunks can be
//! deallocated.
//!
//! Only sorted runs get holes. Their records are sorted by the time when they end, so the chunks of a
//! run die from the front. The chunk with the header, the first, stays, and so does the last, with the
//! directory.
//!
//! What must stay true:
//!
//! 1. A chunk can go when nothing has pointed into it since before the older of the two kept checkpoints
//!    began. The same holds for a whole file.
//! 2. A record counts in every chunk that it may touch, so no record reaches into a hole.
//! 3. After the rewriter is done with a sorted run, nothing points into an empty chunk of it again.
//!
//! [`super::Files`] calls it.

use std::{collections::BTreeMap, ops::Range};

use crate::{
    format::{ALIGN, sorted_run},
    index::Location,
};

/// Bytes of the longest file.
const FILE_BYTES_MAX: u64 = sorted_run::RUN_BYTES_MAX;

/// A chunk of a file.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    /// Number of records that may touch it.
    live: u32,
    state: ChunkState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    /// The chunk takes space. `emptied_at`: number of the first checkpoint that began after nothing
    /// pointed here any more.
    Kept { emptied_at: u64 },
    /// The chunk was deallocated.
    Hole,
}

/// The chunks of a file.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    chunks: Vec<Chunk>,
    /// Chunks that records point into.
    occupied: u64,
}

/// Length of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkBytes(pub(super) u64);

impl ChunkBytes {
    /// Returns the chunks that the record at a location may touch. If the size class has no upper bound,
    /// those are all chunks from its first byte on.
    fn touched(self, location: Location) -> Range<usize> {
        let start = location.unit() * ALIGN;
        let end = location.bytes_bound().map_or(FILE_BYTES_MAX, |bytes| start + bytes);
        place(start / self.0)..place(end.min(FILE_BYTES_MAX).div_ceil(self.0))
    }

    /// Returns the chunks of a file that may be deallocated, if its records end at this byte.
    fn removable(self, records_end: u64) -> Range<usize> {
        1..place(records_end / self.0).max(1)
    }
}

impl Chunks {
    /// Adds chunks up to this byte.
    pub(super) fn grow(&mut self, size: ChunkBytes, bytes: u64, next_checkpoint: u64) {
        self.grow_to(place(bytes.div_ceil(size.0)), next_checkpoint);
    }

    fn grow_to(&mut self, count: usize, next_checkpoint: u64) {
        if count > self.chunks.len() {
            let state = ChunkState::Kept { emptied_at: next_checkpoint };
            self.chunks.resize(count, Chunk { live: 0, state });
        }
    }

    pub(super) fn retain(&mut self, size: ChunkBytes, location: Location, next_checkpoint: u64) {
        let touched = size.touched(location);
        self.grow_to(touched.end, next_checkpoint);
        for chunk in &mut self.chunks[touched] {
            debug_assert!(chunk.state != ChunkState::Hole, "a record moves into a hole");
            self.occupied += u64::from(chunk.live == 0);
            chunk.live += 1;
        }
    }

    /// Returns `true` if records point into the chunk in which the record at a location begins.
    pub(super) fn has_live(&self, size: ChunkBytes, location: Location) -> bool {
        self.chunks.get(size.touched(location).start).is_some_and(|chunk| chunk.live > 0)
    }

    /// Counts a record as released. Returns the number of removable chunks that become empty.
    pub(super) fn release(
        &mut self,
        size: ChunkBytes,
        location: Location,
        records_end: u64,
        next_checkpoint: u64,
    ) -> u64 {
        let removable = size.removable(records_end);
        let mut emptied = 0;
        for index in size.touched(location) {
            let chunk = &mut self.chunks[index];
            chunk.live -= 1;
            if chunk.live == 0 {
                chunk.state = ChunkState::Kept { emptied_at: next_checkpoint };
                self.occupied -= 1;
                emptied += u64::from(removable.contains(&index));
            }
        }
        emptied
    }

    /// Returns the bytes of the chunks that records point into, and of the two that always stay.
    pub(super) const fn held_bytes(&self, size: ChunkBytes) -> u64 {
        (self.occupied + 2) * size.0
    }

    /// Returns the ranges that still take space and into which nothing has pointed since before the
    /// checkpoint with this number began.
    pub(super) fn removable(
        &self,
        size: ChunkBytes,
        records_end: u64,
        oldest_kept: u64,
    ) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for index in size.removable(records_end) {
            let goes = self.chunks.get(index).is_some_and(|chunk| {
                let is_old = |emptied_at| emptied_at <= oldest_kept;
                chunk.live == 0
                    && matches!(chunk.state, ChunkState::Kept { emptied_at } if is_old(emptied_at))
            });
            let start = index as u64 * size.0;
            match ranges.last_mut().filter(|last| last.end == start) {
                _ if !goes => {}
                Some(last) => last.end += size.0,
                None => ranges.push(start..start + size.0),
            }
        }
        ranges
    }

    /// Notes a hole and returns the bytes that it deallocated. Only whole chunks count.
    pub(super) fn punched(&mut self, size: ChunkBytes, records_end: u64, hole: &Range<u64>) -> u64 {
        let whole = place(hole.start.div_ceil(size.0))..place(hole.end / size.0);
        let mut bytes = 0;
        for index in size.removable(records_end) {
            let chunk = self.chunks.get_mut(index).filter(|_| whole.contains(&index));
            if let Some(chunk) = chunk.filter(|chunk| chunk.state != ChunkState::Hole) {
                chunk.state = ChunkState::Hole;
                bytes += size.0;
            }
        }
        bytes
    }
}

/// Number of checkpoints for which emptied chunks are remembered: more than are ever kept, unless many
/// checkpoints in a row fail.
const REMEMBERED: u64 = 16;

/// Number of chunks that became empty, by the checkpoint that makes them removable.
#[derive(Debug, Default)]
pub(super) struct EmptiedChunks(BTreeMap<u64, u64>);

impl EmptiedChunks {
    pub(super) fn note(&mut self, next_checkpoint: u64, chunks: u64) {
        if chunks > 0 {
            *self.0.entry(next_checkpoint).or_default() += chunks;
        }
    }

    /// Returns the chunks that wait until a later checkpoint than this one is the oldest kept.
    pub(super) fn waiting(&self, oldest_kept: u64) -> u64 {
        self.0.range(oldest_kept + 1..).map(|(_, chunks)| chunks).sum()
    }

    /// Drops the counts that no longer matter for any kept checkpoint.
    pub(super) fn checkpoint_begins(&mut self, number: u64) {
        self.0 = self.0.split_off(&number.saturating_sub(REMEMBERED));
    }
}

fn place(chunk: u64) -> usize {
    usize::try_from(chunk).expect("a file has at most 256 MiB")
}

#[cfg(test)]
mod tests;
