//! The journal: numbered segments of frames, the only place where timers are written.
//!
//! ```text
//!   append(record) ──► frame under construction (memory) ──► location, at once
//!   commit()       ──► frame header + checksum, one write to the active segment
//!   synced(mark)   ──► everything up to the mark is durable   (the sync runs elsewhere)
//! ```
//!
//! * A location is known when the record is appended, so the index can point at it before it is
//!   written; [`Journal::read`] looks into the frame under construction too.
//! * A frame is written by one call and never empty. Only the active segment has unsynced bytes:
//!   [`Journal::roll`] syncs the old segment, and the header of the new one, first.
//! * A write or sync that fails leaves the file in an unknown state; the caller stops for good.
//!
//! Called by the engine alone, from one thread.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    disk::{self, Disk, File},
    format::{
        self, ALIGN, align_up, frame,
        record::{self, Decoded, Record},
        segment,
    },
    index::Location,
    manifest::Manifest,
};

pub(crate) mod recovery;
mod spare;
mod sticky;

pub(crate) use spare::write_spare;

/// Directory of the segments.
pub(crate) const DIR: &str = "journal";
/// Read at once for a record of unknown size.
const FIRST_READ_BYTES: usize = 64;

/// Name of a segment's file.
pub(crate) fn segment_name(sequence: u64) -> String {
    format!("{DIR}/{sequence:016}.log")
}

/// A place in the journal's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    pub(crate) sequence: u64,
    pub(crate) offset: u64,
}

/// What a sync has to make durable.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) lsn: u64,
    pub(crate) position: Position,
    pub(crate) file: Arc<dyn File>,
}

/// Why a record could not be read back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("{file} at byte {offset}: {source}")]
    Damaged { file: String, offset: u64, source: format::DecodeError },
    #[error(transparent)]
    Disk(#[from] disk::Error),
    #[error("no segment in slot {0}")]
    NoSegment(u16),
}

/// Why a record could not be appended.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The active segment is full: roll, then try again.
    Full,
    /// The record is larger than any segment.
    TooLarge { bytes: u64, bytes_max: u64 },
}

#[derive(Debug)]
struct Segment {
    slot: u16,
    file: Arc<dyn File>,
    length: u64,
}

/// The journal of an open store.
#[derive(Debug)]
pub(crate) struct Journal {
    disk: Arc<dyn Disk>,
    store: u128,
    seed: frame::Seed,
    epoch: u32,
    segment_bytes: u64,
    segments: BTreeMap<u64, Segment>,
    /// Sequence number of the segment in each slot that the index can name.
    slots: Vec<Option<u64>>,
    /// Records that the state points at, per slot.
    live: Vec<u64>,
    active: u64,
    /// Where the next frame begins in the active segment.
    end: u64,
    frame: Vec<u8>,
    frame_records: u32,
    next_lsn: u64,
    durable_lsn: u64,
    durable: Position,
}

impl Journal {
    /// A journal without segments.
    pub(crate) fn new(disk: Arc<dyn Disk>, manifest: &Manifest, segment_bytes: u64) -> Self {
        Self {
            disk,
            store: manifest.store,
            seed: manifest.frame_seed(),
            epoch: 0,
            segment_bytes,
            segments: BTreeMap::new(),
            slots: Vec::new(),
            live: Vec::new(),
            active: 0,
            end: segment::HEADER_BYTES,
            frame: Vec::new(),
            frame_records: 0,
            next_lsn: 1,
            durable_lsn: 0,
            durable: Position::default(),
        }
    }

    /// Takes over what recovery found. Its records have been counted already, by slot.
    pub(crate) fn adopt(&mut self, epoch: u32, found: recovery::Found) {
        self.epoch = epoch;
        self.next_lsn = found.next_lsn;
        self.durable_lsn = found.next_lsn - 1;
        self.slots.clear();
        for segment in found.segments {
            let slot = segment.slot;
            debug_assert_eq!(usize::from(slot), self.slots.len(), "slots come in order");
            self.slots.push(Some(segment.sequence));
            self.active = segment.sequence;
            self.end = segment.end;
            let length = segment.length;
            let file = sticky::sticky(segment.file);
            self.segments.insert(segment.sequence, Segment { slot, file, length });
        }
        self.live.resize(self.slots.len().max(self.live.len()), 0);
        self.durable = Position { sequence: self.active, offset: self.end };
    }

    /// Whether nothing has been written to the active segment.
    pub(crate) const fn is_active_empty(&self) -> bool {
        self.end == segment::HEADER_BYTES && self.frame_records == 0
    }

    /// Bytes of all segment files.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.length).sum()
    }

    /// The newest frame that is known to be durable.
    pub(crate) const fn durable_lsn(&self) -> u64 {
        self.durable_lsn
    }

    /// The newest frame that was written.
    pub(crate) const fn written_lsn(&self) -> u64 {
        self.next_lsn - 1
    }

    /// Whether an eighth of the active segment has been written.
    pub(crate) fn active_is_begun(&self) -> bool {
        self.segments.get(&self.active).is_some_and(|active| self.end >= active.length / 8)
    }

    /// Bytes of the frame under construction.
    pub(crate) const fn frame_bytes(&self) -> usize {
        self.frame.len()
    }

    /// Appends a record to the frame under construction and says where it will stand.
    pub(crate) fn append(
        &mut self,
        namespace: u32,
        record: &Record,
    ) -> Result<Location, AppendError> {
        let reserved = self.frame.len();
        if reserved == 0 {
            self.frame.resize(frame::HEADER_BYTES, 0);
        }
        let start = self.frame.len();
        let bytes = record::encode(&mut self.frame, namespace, record);
        let (slot, length) = self
            .segments
            .get(&self.active)
            .map_or((0, 0), |segment| (segment.slot, segment.length));
        if self.end + self.frame.len() as u64 > length {
            let frame_bytes = (self.frame.len() - start + frame::HEADER_BYTES) as u64;
            self.frame.truncate(reserved);
            let bytes_max = self.segment_bytes - segment::HEADER_BYTES;
            return Err(if frame_bytes > bytes_max {
                AppendError::TooLarge { bytes: frame_bytes, bytes_max }
            } else {
                AppendError::Full
            });
        }
        debug_assert!(
            record::decode(&self.frame[start..]).is_ok(),
            "what is written can be read back: {record:?}"
        );
        self.frame_records += 1;
        let unit = (self.end + start as u64) / ALIGN;
        Ok(Location::new(slot, unit, u64::from(bytes)))
    }

    /// Writes the frame under construction. Answers what has to be synced, if anything is new.
    pub(crate) fn commit(&mut self) -> Result<Option<Mark>, disk::Error> {
        if self.frame_records == 0 {
            return Ok(None);
        }
        let lsn = self.next_lsn;
        let identity = frame::Identity {
            epoch: self.epoch,
            lsn,
            count: self.frame_records,
            durable_lsn: self.durable_lsn,
        };
        frame::seal(&mut self.frame, self.seed, identity);
        let segment = self.segments.get(&self.active).expect("append checked the room in it");
        segment.file.write_at(self.end, &self.frame)?;
        self.end += self.frame.len() as u64;
        debug_assert_eq!(self.end, align_up(self.end), "frames end aligned");
        self.next_lsn += 1;
        self.frame.clear();
        self.frame_records = 0;
        Ok(Some(Mark {
            lsn,
            position: Position { sequence: self.active, offset: self.end },
            file: Arc::clone(&segment.file),
        }))
    }

    /// Takes note that everything up to the mark is durable.
    pub(crate) fn synced(&mut self, lsn: u64, position: Position) {
        self.durable_lsn = self.durable_lsn.max(lsn);
        self.durable = self.durable.max(position);
    }

    /// Whether the record at this place is durable.
    pub(crate) fn is_durable(&self, location: Location) -> bool {
        let sequence = self.slots.get(usize::from(location.slot())).copied().flatten();
        sequence.is_some_and(|sequence| {
            Position { sequence, offset: location.unit() * ALIGN } < self.durable
        })
    }

    /// Begins a new segment; the frame under construction must have been committed. On success
    /// everything before is durable. Where there is no room for a segment, nothing has changed.
    pub(crate) fn roll(&mut self) -> Result<(), disk::Error> {
        assert_eq!(self.frame_records, 0, "a frame never spans segments");
        if let Some(old) = self.segments.get(&self.active) {
            old.file.sync_data()?;
            let position = Position { sequence: self.active, offset: self.end };
            self.synced(self.written_lsn(), position);
        }
        let sequence = self.active + 1;
        let name = segment_name(sequence);
        let slot = self.free_slot()?;
        let length = self.segment_bytes;
        let header = segment::Header {
            version: format::VERSION,
            store: self.store,
            sequence,
            base_lsn: self.next_lsn,
            length,
        };
        spare::take(self.disk.as_ref(), &header, &name)?;
        let file = sticky::sticky(self.disk.open(&name)?);
        self.disk.sync_dir(DIR)?;
        self.slots[usize::from(slot)] = Some(sequence);
        self.segments.insert(sequence, Segment { slot, file, length });
        self.live.resize(self.slots.len().max(self.live.len()), 0);
        self.active = sequence;
        self.end = segment::HEADER_BYTES;
        self.durable = Position { sequence, offset: self.end };
        Ok(())
    }

    /// Reads a record back, checking it.
    pub(crate) fn read(&self, location: Location) -> Result<Decoded, ReadError> {
        let slot = location.slot();
        let sequence = self
            .slots
            .get(usize::from(slot))
            .copied()
            .flatten()
            .ok_or(ReadError::NoSegment(slot))?;
        let segment = &self.segments[&sequence];
        let offset = location.unit() * ALIGN;
        let damaged = |source| ReadError::Damaged { file: segment_name(sequence), offset, source };
        if sequence == self.active && offset >= self.end {
            let start = usize::try_from(offset - self.end).expect("a frame fits memory");
            let bytes = self.frame.get(start..).unwrap_or(&[]);
            return record::decode(bytes).map_err(damaged);
        }
        let guess = usize::try_from(location.bytes_max()).unwrap_or(FIRST_READ_BYTES);
        let mut bytes = vec![0; guess.max(FIRST_READ_BYTES)];
        let got = segment.file.read_at(offset, &mut bytes)?;
        bytes.truncate(got);
        let total = record::bytes_of(&bytes).unwrap_or(0);
        if total > got as u64 && offset + total <= segment.length {
            bytes.resize(usize::try_from(total).expect("a segment fits memory"), 0);
            segment.file.read_exact_at(offset, &mut bytes)?;
        }
        record::decode(&bytes).map_err(damaged)
    }

    /// Counts a record as pointed at.
    pub(crate) fn retain(&mut self, location: Location) {
        let slot = usize::from(location.slot());
        if slot >= self.live.len() {
            self.live.resize(slot + 1, 0);
        }
        self.live[slot] += 1;
    }

    /// Counts a record as no longer pointed at.
    pub(crate) fn release(&mut self, location: Location) {
        let live = &mut self.live[usize::from(location.slot())];
        assert!(*live > 0, "a record was released twice");
        *live -= 1;
    }

    /// Removes segments that nothing points at, oldest first and never past one that is needed:
    /// a cancel is then never dropped before the schedule that it cancels. The newest sealed
    /// segment always stays: until the active one holds a durable table of namespaces, theirs is
    /// the only one.
    pub(crate) fn drop_dead_prefix(&mut self) -> Result<u64, disk::Error> {
        let mut dropped = 0;
        while let Some((&sequence, segment)) = self.segments.first_key_value() {
            if sequence + 1 >= self.active || self.live[usize::from(segment.slot)] > 0 {
                break;
            }
            self.disk.remove(&segment_name(sequence))?;
            // One by one: names that came back out of order would look like a missing segment.
            self.disk.sync_dir(DIR)?;
            self.slots[usize::from(segment.slot)] = None;
            self.segments.remove(&sequence);
            dropped += 1;
        }
        Ok(dropped)
    }

    /// A slot without a segment. An index entry can name 65,536; past that the journal is full.
    fn free_slot(&mut self) -> Result<u16, disk::Error> {
        let free = self.slots.iter().position(Option::is_none);
        let place = free.unwrap_or(self.slots.len());
        let slot = u16::try_from(place).map_err(|_| disk::Error::NoSpace {
            operation: disk::Operation::Create,
            name: format!("{DIR}: 65536 segments are in use"),
        })?;
        if free.is_none() {
            self.slots.push(None);
        }
        Ok(slot)
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
