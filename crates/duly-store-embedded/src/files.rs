//! The files that locations point into: journal segments and runs, by slot.
//!
//! An index entry names a file by a slot of 16 bits. Here is which file stands in which slot, how
//! many of its records are pointed at, and how many of each MiB of it.
//!
//! Invariants: a slot keeps its file until nothing has pointed at it since before the older of the
//! two kept checkpoints began ([`Files::reclaimable`]); what is counted equals a full scan of the
//! indexes.
//!
//! Called by the engine alone, from one thread.

use std::{ops::Range, sync::Arc};

use rustc_hash::FxHashMap;

use crate::{
    disk::{self, File},
    format::{
        self, ALIGN, checkpoint,
        record::{self, Decoded},
    },
    index::Location,
    journal::segment_name,
    runs,
};

/// Read at once for a record of unknown size.
const FIRST_READ_BYTES: usize = 64;
/// Counts of live records are kept for each so many bytes of a file.
const CHUNK_BYTES: u64 = 1 << 20;

/// Which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileId {
    Segment(u64),
    Run(u64),
}

impl FileId {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Segment(sequence) => segment_name(sequence),
            Self::Run(id) => runs::FILES.name(id),
        }
    }

    pub(crate) const fn of(slot: &checkpoint::FileSlot) -> Self {
        match slot.kind {
            checkpoint::FileKind::Segment => Self::Segment(slot.number),
            checkpoint::FileKind::Run => Self::Run(slot.number),
        }
    }
}

/// Why a record could not be read back.
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
    /// Whether a rewrite found records in it that it could not move.
    pub(crate) is_stuck: bool,
    /// Bytes that were given back to the file system.
    pub(crate) hole_bytes: u64,
}

impl DataFile {
    pub(crate) const fn segment(sequence: u64, file: Arc<dyn File>, length: u64) -> Self {
        let id = FileId::Segment(sequence);
        Self { id, file, length, is_stuck: false, hole_bytes: 0 }
    }

    pub(crate) fn run(run: runs::Run) -> Self {
        let (id, length) = (FileId::Run(run.id), run.length);
        Self { id, file: run.file, length, is_stuck: false, hole_bytes: 0 }
    }

    /// Bytes that it takes, holes left out.
    pub(crate) const fn bytes(&self) -> u64 {
        self.length.saturating_sub(self.hole_bytes)
    }
}

/// What points at the file in a slot.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Records.
    pub(crate) live: u64,
    /// Their bytes, by size class: at most twice what they are.
    pub(crate) live_bytes: u64,
    /// Records by chunk.
    chunks: Vec<u32>,
    /// Number of the first checkpoint that began after nothing pointed here any more.
    emptied_at: u64,
}

#[derive(Debug, Default)]
struct Slot {
    file: Option<DataFile>,
    counts: Counts,
}

/// The table of slots.
#[derive(Debug, Default)]
pub(crate) struct Files {
    slots: Vec<Slot>,
    by_id: FxHashMap<FileId, u16>,
    /// Number that the next checkpoint gets.
    next_checkpoint: u64,
}

impl Files {
    /// Puts a file into a free slot.
    ///
    /// # Errors
    /// As [`Files::check_room`].
    pub(crate) fn add(&mut self, file: DataFile) -> Result<u16, disk::Error> {
        let slot = self.free_slot()?;
        self.put(slot, file);
        Ok(slot)
    }

    /// Whether there is a free slot.
    ///
    /// # Errors
    /// An index entry can name 65,536 files; past that there is no room.
    pub(crate) fn check_room(&self) -> Result<(), disk::Error> {
        self.free_slot().map(drop)
    }

    fn free_slot(&self) -> Result<u16, disk::Error> {
        let is_free = |slot: &Slot| slot.file.is_none() && slot.counts.live == 0;
        let free = self.slots.iter().position(is_free).unwrap_or(self.slots.len());
        u16::try_from(free).map_err(|_| disk::Error::NoSpace {
            operation: disk::Operation::Create,
            name: "65536 data files are in use".into(),
        })
    }

    /// Puts a file into this slot, which must hold none.
    pub(crate) fn put(&mut self, slot: u16, file: DataFile) {
        let next_checkpoint = self.next_checkpoint;
        let place = self.slot_mut(slot);
        assert!(place.file.is_none(), "slot {slot} is taken");
        place.counts.emptied_at = next_checkpoint;
        let id = file.id;
        place.file = Some(file);
        self.by_id.insert(id, slot);
    }

    fn slot_mut(&mut self, slot: u16) -> &mut Slot {
        let place = usize::from(slot);
        if place >= self.slots.len() {
            self.slots.resize_with(place + 1, Slot::default);
        }
        &mut self.slots[place]
    }

    /// Empties a slot.
    pub(crate) fn remove(&mut self, slot: u16) {
        let place = self.slot_mut(slot);
        if let Some(file) = place.file.take() {
            assert_eq!(place.counts.live, 0, "{} is pointed at", file.id.name());
            place.counts = Counts::default();
            self.by_id.remove(&file.id);
        }
    }

    pub(crate) fn get(&self, slot: u16) -> Option<&DataFile> {
        self.slots.get(usize::from(slot))?.file.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u16) -> Option<&mut DataFile> {
        self.slots.get_mut(usize::from(slot))?.file.as_mut()
    }

    pub(crate) fn counts(&self, slot: u16) -> Option<&Counts> {
        Some(&self.slots.get(usize::from(slot))?.counts)
    }

    pub(crate) fn slot_of(&self, id: FileId) -> Option<u16> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &DataFile, &Counts)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(number, slot)| {
            Some((u16::try_from(number).ok()?, slot.file.as_ref()?, &slot.counts))
        })
    }

    /// A slot without a file whose records are pointed at, if there is one, and how many.
    pub(crate) fn missing(&self) -> Option<(u16, u64)> {
        let is_missing = |slot: &Slot| slot.file.is_none() && slot.counts.live > 0;
        let place = self.slots.iter().position(is_missing)?;
        Some((u16::try_from(place).ok()?, self.slots[place].counts.live))
    }

    /// As it stands in a checkpoint.
    pub(crate) fn slots(&self) -> Vec<checkpoint::FileSlot> {
        let slot = |(slot, file, _): (u16, &DataFile, &Counts)| match file.id {
            FileId::Segment(number) => {
                checkpoint::FileSlot { slot, kind: checkpoint::FileKind::Segment, number }
            }
            FileId::Run(number) => {
                checkpoint::FileSlot { slot, kind: checkpoint::FileKind::Run, number }
            }
        };
        self.iter().map(slot).collect()
    }

    /// Counts a record as pointed at. While a store is opened its file may come later.
    pub(crate) fn retain(&mut self, location: Location) {
        let counts = &mut self.slot_mut(location.slot()).counts;
        counts.live += 1;
        counts.live_bytes += location.bytes_estimate();
        let chunk = chunk_of(location);
        if chunk >= counts.chunks.len() {
            counts.chunks.resize(chunk + 1, 0);
        }
        counts.chunks[chunk] += 1;
    }

    /// Whether some record of its chunk is counted as pointed at.
    pub(crate) fn is_counted(&self, location: Location) -> bool {
        let counts = self.counts(location.slot());
        counts.is_some_and(|it| it.chunks.get(chunk_of(location)).is_some_and(|live| *live > 0))
    }

    /// Counts a record as no longer pointed at.
    pub(crate) fn release(&mut self, location: Location) {
        let next_checkpoint = self.next_checkpoint;
        let counts = &mut self.slot_mut(location.slot()).counts;
        assert!(counts.live > 0, "a record was released twice");
        counts.live -= 1;
        counts.live_bytes -= location.bytes_estimate();
        counts.chunks[chunk_of(location)] -= 1;
        if counts.live == 0 {
            counts.emptied_at = next_checkpoint;
        }
    }

    /// A checkpoint begins: what empties from now on is not empty in it.
    pub(crate) const fn checkpoint_begins(&mut self, number: u64) {
        self.next_checkpoint = number + 1;
    }

    /// Slots of the files at which nothing has pointed since before the checkpoint with this number
    /// began.
    pub(crate) fn reclaimable(&self, oldest_kept: u64) -> Vec<u16> {
        let is_empty = |counts: &Counts| counts.live == 0 && counts.emptied_at <= oldest_kept;
        let empty = self.iter().filter(|(_, _, counts)| is_empty(counts));
        empty.map(|(slot, ..)| slot).collect()
    }

    /// Bytes of files that nothing points at and that wait for later checkpoints than this one to be
    /// the oldest that is kept.
    pub(crate) fn waiting_bytes(&self, oldest_kept: u64) -> u64 {
        let waits = |counts: &Counts| counts.live == 0 && counts.emptied_at > oldest_kept;
        let waiting = self.iter().filter(|(_, _, counts)| waits(counts));
        waiting.map(|(_, file, _)| file.bytes()).sum()
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.iter().map(|(_, file, _)| file.bytes()).sum()
    }

    /// Reads a record back, checking it.
    pub(crate) fn read(&self, location: Location) -> Result<Decoded, ReadError> {
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

impl Files {
    /// Reads many records back, as few reads as their places allow; answers in the order asked.
    pub(crate) fn read_many(&self, locations: &[Location]) -> Vec<Result<Decoded, ReadError>> {
        let mut order: Vec<usize> = (0..locations.len()).collect();
        order.sort_unstable_by_key(|&place| (locations[place].slot(), locations[place].unit()));
        let mut answers: Vec<Option<Result<Decoded, ReadError>>> = Vec::new();
        answers.resize_with(locations.len(), || None);
        let mut rest = order.as_slice();
        while let Some((&first, _)) = rest.split_first() {
            let (slot, start) = (locations[first].slot(), offset_of(locations[first]));
            let mut end = start + locations[first].bytes_max();
            let mut count = 1;
            for &next in &rest[1..] {
                let from = offset_of(locations[next]);
                let until = from + locations[next].bytes_max();
                let is_near = locations[next].slot() == slot && from <= end + GAP_BYTES;
                if !is_near || until - start > RANGE_BYTES_MAX {
                    break;
                }
                end = end.max(until);
                count += 1;
            }
            let (range, later) = rest.split_at(count);
            rest = later;
            self.read_range(slot, start..end, range, locations, &mut answers);
        }
        let answers = answers.into_iter();
        answers.map(|answer| answer.expect("each place is in one range")).collect()
    }

    fn read_range(
        &self,
        slot: u16,
        bytes: Range<u64>,
        places: &[usize],
        locations: &[Location],
        answers: &mut [Option<Result<Decoded, ReadError>>],
    ) {
        let alone = places.len() == 1;
        let mut read = Vec::new();
        if !alone && let Some(file) = self.get(slot) {
            let end = bytes.end.min(file.length);
            read.resize(usize::try_from(end - bytes.start.min(end)).unwrap_or(0), 0);
            let got = file.file.read_at(bytes.start, &mut read).unwrap_or(0);
            read.truncate(got);
        }
        for &place in places {
            let location = locations[place];
            let at = usize::try_from(offset_of(location) - bytes.start).unwrap_or(usize::MAX);
            // One that reaches beyond what was read, or is damaged, is read again by itself: then
            // the answer says where and why.
            let decoded = read.get(at..).map(record::decode).and_then(Result::ok);
            answers[place] = Some(decoded.map_or_else(|| self.read(location), Ok));
        }
    }
}

/// Bytes between two records that are read along rather than skipped.
const GAP_BYTES: u64 = 4 << 10;
/// Most bytes of one read.
const RANGE_BYTES_MAX: u64 = 512 << 10;

fn offset_of(location: Location) -> u64 {
    location.unit() * ALIGN
}

fn chunk_of(location: Location) -> usize {
    usize::try_from(location.unit() * ALIGN / CHUNK_BYTES).expect("at most 256 chunks")
}
