//! The files that locations point into: journal segments and sorted runs, by slot.
//!
//! An index entry names a file by a slot of 16 bits. This table has the file of each slot, the number of
//! records in it that are pointed at, and the same number for each MiB of it ([`chunks`]).
//!
//! What must stay true:
//!
//! 1. A slot keeps its file until nothing has pointed at it since before the older of the two kept
//!    checkpoints began ([`Files::reclaimable`]).
//! 2. The counts equal a full scan of the indexes.
//!
//! Only the engine calls it, from one thread.

use std::{ops::Range, sync::Arc};

use rustc_hash::FxHashMap;

use crate::{
    disk::{self, File, Punched},
    format::{
        self, ALIGN,
        checkpoint::FileSlot,
        record::{self, Decoded},
        sorted_run,
    },
    index::Location,
    numbered::{SEGMENTS, SORTED_RUNS},
    sorted_runs,
};

mod chunks;
mod read_many;

pub(crate) use crate::format::checkpoint::FileId;
use chunks::{ChunkBytes, Chunks, EmptiedChunks};
pub(crate) use read_many::ReadResults;

/// Bytes read at once for a record of unknown size.
const FIRST_READ_BYTES: usize = 64;

impl FileId {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Segment(sequence) => SEGMENTS.name(sequence),
            Self::SortedRun(id) => SORTED_RUNS.name(id),
        }
    }
}

/// The reason that a record could not be read back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("{file} at byte {offset}: {source}")]
    Damaged { file: String, offset: u64, source: format::DecodeError },
    #[error(transparent)]
    Disk(#[from] disk::Error),
    #[error("no file in slot {0}")]
    NoFile(u16),
}

/// A file in a slot.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) id: FileId,
    pub(crate) file: Arc<dyn File>,
    pub(crate) length: u64,
    /// `true`: a rewrite found records in the file that it could not move.
    pub(crate) is_stuck: bool,
    /// End of the records of a sorted run. 0 for a segment, which is deallocated only as a whole.
    records_end: u64,
    /// Bytes that were deallocated.
    hole_bytes: u64,
}

impl DataFile {
    pub(crate) const fn segment(sequence: u64, file: Arc<dyn File>, length: u64) -> Self {
        let id = FileId::Segment(sequence);
        Self { id, file, length, is_stuck: false, records_end: 0, hole_bytes: 0 }
    }

    fn run(run: sorted_runs::SortedRun) -> Self {
        let sorted_runs::SortedRun { id, file, length, records_end, .. } = run;
        let id = FileId::SortedRun(id);
        Self { id, file, length, is_stuck: false, records_end, hole_bytes: 0 }
    }

    /// Returns the bytes that the file takes, without its holes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.length.saturating_sub(self.hole_bytes)
    }
}

/// The counts of the records in a slot that are pointed at.
#[derive(Debug, Default)]
pub(crate) struct LiveCounts {
    /// Records that are pointed at.
    pub(crate) live: u64,
    /// Estimate of their bytes by size class: at most twice the real number.
    pub(crate) live_bytes: u64,
    chunks: Chunks,
    /// Number of the first checkpoint that began after nothing pointed here any more.
    emptied_at: u64,
}

#[derive(Debug, Default)]
struct SlotState {
    file: Option<DataFile>,
    counts: LiveCounts,
}

/// The table of slots.
#[derive(Debug)]
pub(crate) struct Files {
    slots: Vec<SlotState>,
    by_id: FxHashMap<FileId, u16>,
    /// Number of the next checkpoint.
    next_checkpoint: u64,
    /// Size of the chunks in which space is deallocated.
    chunk_bytes: ChunkBytes,
    emptied: EmptiedChunks,
    /// Result of the latest attempt to punch a hole. If holes are unsupported, there are no more
    /// attempts.
    punched: Punched,
}

impl Default for Files {
    fn default() -> Self {
        Self::new(sorted_run::CHUNK_BYTES)
    }
}

impl Files {
    /// Makes an empty table. Space is deallocated in chunks of `chunk_bytes`.
    pub(crate) fn new(chunk_bytes: u64) -> Self {
        Self {
            slots: Vec::new(),
            by_id: FxHashMap::default(),
            next_checkpoint: 0,
            chunk_bytes: ChunkBytes(chunk_bytes),
            emptied: EmptiedChunks::default(),
            punched: Punched::Done,
        }
    }

    /// Puts a sorted run into a free slot.
    ///
    /// # Errors
    /// As [`Files::check_free_slot`].
    pub(crate) fn add_run(&mut self, run: sorted_runs::SortedRun) -> disk::Result<u16> {
        let slot = self.free_slot()?;
        self.put_run(slot, run);
        Ok(slot)
    }

    /// Puts a sorted run into this slot, which must hold no file.
    pub(crate) fn put_run(&mut self, slot: u16, mut run: sorted_runs::SortedRun) {
        let holes = std::mem::take(&mut run.holes);
        let file = DataFile::run(run);
        let id = file.id;
        self.put(slot, file);
        self.punched(slot, id, &holes);
    }

    /// Puts a file into a free slot.
    ///
    /// # Errors
    /// As [`Files::check_free_slot`].
    pub(crate) fn add(&mut self, file: DataFile) -> disk::Result<u16> {
        let slot = self.free_slot()?;
        self.put(slot, file);
        Ok(slot)
    }

    /// Checks that there is a free slot.
    ///
    /// # Errors
    /// An index entry can name 65,536 files; when all are in use there is no capacity for more.
    pub(crate) fn check_free_slot(&self) -> disk::Result<()> {
        self.free_slot().map(drop)
    }

    fn free_slot(&self) -> disk::Result<u16> {
        let is_free = |slot: &SlotState| slot.file.is_none() && slot.counts.live == 0;
        let free = self.slots.iter().position(is_free).unwrap_or(self.slots.len());
        u16::try_from(free).map_err(|_| disk::Error::NoSpace {
            operation: disk::Operation::Create,
            name: "65536 data files are in use".into(),
        })
    }

    /// Puts a file into this slot, which must hold none.
    pub(crate) fn put(&mut self, slot: u16, file: DataFile) {
        let next_checkpoint = self.next_checkpoint;
        let chunk_bytes = self.chunk_bytes;
        let place = self.slot_mut(slot);
        assert!(place.file.is_none(), "slot {slot} is taken");
        place.counts.emptied_at = next_checkpoint;
        place.counts.chunks.grow(chunk_bytes, file.records_end, next_checkpoint);
        let id = file.id;
        place.file = Some(file);
        self.by_id.insert(id, slot);
    }

    fn slot_mut(&mut self, slot: u16) -> &mut SlotState {
        let place = usize::from(slot);
        if place >= self.slots.len() {
            self.slots.resize_with(place + 1, SlotState::default);
        }
        &mut self.slots[place]
    }

    /// Empties a slot and returns the file that was in it.
    pub(crate) fn remove(&mut self, slot: u16) -> Option<Arc<dyn File>> {
        let place = self.slot_mut(slot);
        let file = place.file.take()?;
        assert_eq!(place.counts.live, 0, "{} is pointed at", file.id.name());
        place.counts = LiveCounts::default();
        self.by_id.remove(&file.id);
        Some(file.file)
    }

    pub(crate) fn get(&self, slot: u16) -> Option<&DataFile> {
        self.slots.get(usize::from(slot))?.file.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u16) -> Option<&mut DataFile> {
        self.slots.get_mut(usize::from(slot))?.file.as_mut()
    }

    pub(crate) fn counts(&self, slot: u16) -> Option<&LiveCounts> {
        Some(&self.slots.get(usize::from(slot))?.counts)
    }

    pub(crate) fn slot_of(&self, id: FileId) -> Option<u16> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &DataFile, &LiveCounts)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(number, slot)| {
            Some((u16::try_from(number).ok()?, slot.file.as_ref()?, &slot.counts))
        })
    }

    /// Returns a slot without a file whose records are pointed at, if there is one, and their number.
    pub(crate) fn missing(&self) -> Option<(u16, u64)> {
        let is_missing = |slot: &SlotState| slot.file.is_none() && slot.counts.live > 0;
        let place = self.slots.iter().position(is_missing)?;
        Some((u16::try_from(place).ok()?, self.slots[place].counts.live))
    }

    /// Returns the slots as a checkpoint stores them.
    pub(crate) fn slots(&self) -> Vec<FileSlot> {
        self.iter().map(|(slot, file, _)| FileSlot { slot, id: file.id }).collect()
    }

    /// Counts a record as pointed at. During a start its file may be added later.
    pub(crate) fn retain(&mut self, location: Location) {
        let (chunk_bytes, next_checkpoint) = (self.chunk_bytes, self.next_checkpoint);
        let counts = &mut self.slot_mut(location.slot()).counts;
        counts.live += 1;
        counts.live_bytes += location.bytes_estimate();
        counts.chunks.retain(chunk_bytes, location, next_checkpoint);
    }

    /// Returns `true` if any record of its chunk is counted as pointed at.
    pub(crate) fn is_counted(&self, location: Location) -> bool {
        let counts = self.counts(location.slot());
        counts.is_some_and(|it| it.chunks.has_live(self.chunk_bytes, location))
    }

    /// Counts a record as no longer pointed at.
    pub(crate) fn release(&mut self, location: Location) {
        let (chunk_bytes, next_checkpoint) = (self.chunk_bytes, self.next_checkpoint);
        let SlotState { file, counts } = self.slot_mut(location.slot());
        assert!(counts.live > 0, "a record was released twice");
        counts.live -= 1;
        counts.live_bytes -= location.bytes_estimate();
        let records_end = file.as_ref().map_or(0, |file| file.records_end);
        let emptied = counts.chunks.release(chunk_bytes, location, records_end, next_checkpoint);
        if counts.live == 0 {
            counts.emptied_at = next_checkpoint;
        }
        self.emptied.note(next_checkpoint, emptied);
    }

    /// Notes that a checkpoint begins: what becomes empty from now on is not empty in it.
    pub(crate) fn checkpoint_begins(&mut self, number: u64) {
        self.next_checkpoint = number + 1;
        self.emptied.checkpoint_begins(number);
    }

    /// Returns the slots of the files at which nothing has pointed since before the checkpoint with this
    /// number began.
    pub(crate) fn reclaimable(&self, oldest_kept: u64) -> Vec<u16> {
        let is_empty = |counts: &LiveCounts| counts.live == 0 && counts.emptied_at <= oldest_kept;
        let empty = self.iter().filter(|(_, _, counts)| is_empty(counts));
        empty.map(|(slot, ..)| slot).collect()
    }

    /// Returns the bytes of files and chunks of sorted runs at which nothing points, but which wait
    /// until later checkpoints than this one are the oldest kept.
    pub(crate) fn waiting_bytes(&self, oldest_kept: u64) -> u64 {
        let waits = |counts: &LiveCounts| counts.live == 0 && counts.emptied_at > oldest_kept;
        let waiting = self.iter().filter(|(_, _, counts)| waits(counts));
        if self.punched == Punched::Unsupported {
            return waiting.map(|(_, file, _)| file.bytes()).sum();
        }
        let ChunkBytes(chunk_bytes) = self.chunk_bytes;
        // Everything between the first and the last chunk of a sorted run is counted in its chunks.
        let bytes = |file: &DataFile| match file.id {
            FileId::Segment(_) => file.bytes(),
            FileId::SortedRun(_) => file.bytes().min(2 * chunk_bytes),
        };
        let files: u64 = waiting.map(|(_, file, _)| bytes(file)).sum();
        files + self.emptied.waiting(oldest_kept) * chunk_bytes
    }

    /// Returns the bytes of a file that holes cannot deallocate.
    pub(crate) fn held_bytes(&self, file: &DataFile, counts: &LiveCounts) -> u64 {
        match self.punched {
            Punched::Done => file.bytes().min(counts.chunks.held_bytes(self.chunk_bytes)),
            Punched::Unsupported => file.bytes(),
        }
    }

    /// Returns the chunks of the sorted run in this slot that can be deallocated: nothing has pointed at
    /// them since before the checkpoint with this number began.
    pub(crate) fn removable(&self, slot: u16, oldest_kept: u64) -> Vec<Range<u64>> {
        let Some((file, counts)) = self.get(slot).zip(self.counts(slot)) else {
            return Vec::new();
        };
        // An empty file is removed as a whole.
        if counts.live == 0 || self.punched == Punched::Unsupported {
            return Vec::new();
        }
        counts.chunks.removable(self.chunk_bytes, file.records_end, oldest_kept)
    }

    /// Notes holes in a sorted run, if it is still in this slot.
    pub(crate) fn punched(&mut self, slot: u16, id: FileId, holes: &[Range<u64>]) {
        let chunk_bytes = self.chunk_bytes;
        let SlotState { file, counts } = self.slot_mut(slot);
        if let Some(file) = file.as_mut().filter(|file| file.id == id) {
            for hole in holes {
                file.hole_bytes += counts.chunks.punched(chunk_bytes, file.records_end, hole);
            }
        }
    }

    /// Returns `true` unless the file system is known not to support holes.
    pub(crate) const fn can_punch(&self) -> bool {
        matches!(self.punched, Punched::Done)
    }

    /// Notes that the file system does not support holes: none is tried any more.
    pub(crate) const fn cannot_punch(&mut self) {
        self.punched = Punched::Unsupported;
    }

    /// Returns the number of slots, used or free.
    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Returns the bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.iter().map(|(_, file, _)| file.bytes()).sum()
    }

    /// Reads a record back and checks it. A record that fails its check is read once more, from the
    /// disk. A bit that flipped in memory or on the way is not damage of the disk, and callers give up
    /// damaged records.
    pub(crate) fn read(&self, location: Location) -> Result<Decoded, ReadError> {
        let read = self.read_once(location);
        if let Err(first @ ReadError::Damaged { .. }) = &read
            && let Some(file) = self.get(location.slot())
        {
            file.file.drop_cached(location.unit() * ALIGN, location.bytes_max());
            let again = self.read_once(location);
            if again.is_ok() {
                tracing::warn!(
                    error = %first,
                    "record was readable only at the second attempt: check the disk and the memory"
                );
            }
            return again;
        }
        read
    }

    fn read_once(&self, location: Location) -> Result<Decoded, ReadError> {
        let slot = location.slot();
        let file = self.get(slot).ok_or(ReadError::NoFile(slot))?;
        let offset = location.unit() * ALIGN;
        let guess = usize::try_from(location.bytes_max()).unwrap_or(FIRST_READ_BYTES);
        let mut bytes = vec![0; guess.max(FIRST_READ_BYTES)];
        let got = file.file.read_at(offset, &mut bytes)?;
        bytes.truncate(got);
        let total = record::bytes_of(&bytes).unwrap_or(0);
        if total > got as u64 && offset + total <= file.length {
            bytes.resize(usize::try_from(total).expect("a file fits memory"), 0);
            file.file.read_exact_at(offset, &mut bytes)?;
        }
        record::decode(&bytes).map_err(|source| ReadError::Damaged {
            file: file.id.name(),
            offset,
            source,
        })
    }
}
