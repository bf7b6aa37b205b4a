//! The journal (write-ahead log): numbered segments of frames, to which every change is written first.
//!
//! ```text
//!   append(record) ──► frame under construction (memory) ──► location, at once
//!   commit()       ──► frame header + checksum, one write to the active segment
//!   synced(mark)   ──► everything up to the mark is durable   (the sync runs elsewhere)
//! ```
//!
//! What must stay true:
//!
//! 1. A record's location is known when it is appended, so the index can point at it before it is
//!    written. Until then it is read from [`Journal::under_construction`].
//! 2. One call writes a whole frame. A frame without records is a closing frame
//!    ([`Journal::write_closing_frame`]); every segment has space for one behind its last frame.
//! 3. Only the active segment has unsynced bytes: [`Journal::roll`] first syncs the old segment and the
//!    header of the new one.
//! 4. A write or sync that fails leaves the file in an unknown state, and the caller stops for good. The
//!    exception is a failure for lack of space ([`Journal::rewrite_unsynced`]).
//!
//! Only the engine calls it, from one thread.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    disk::{self, Disk},
    files::{DataFile, Files},
    format::{
        self, ALIGN, align_up, frame,
        record::{self, Record},
        segment,
    },
    index::Location,
    manifest::Manifest,
    numbered::SEGMENTS,
    open::Tail,
};

pub(crate) mod recovery;
mod spare;
mod sync_guard;

pub(crate) use spare::{PACED_BYTES, RECYCLED_SUFFIX, SPARE, SparePace, recycle, write_spare};

/// Memory that is kept from one frame to the next; a larger buffer was for very large records.
const FRAME_BYTES_KEPT: usize = 4 << 20;

/// A place in the order of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Position {
    pub(crate) sequence: u64,
    pub(crate) offset: u64,
}

/// The frame and position that a sync must make durable.
#[derive(Debug, Clone)]
pub(crate) struct SyncMark {
    pub(crate) lsn: u64,
    pub(crate) position: Position,
    pub(crate) file: Arc<sync_guard::FailedSyncGuard>,
}

/// The reason that a record could not be appended.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The active segment is full: roll, then try again.
    Full,
    /// The record is larger than any segment.
    TooLarge { bytes: u64, bytes_max: u64 },
}

/// A lock that is held from the naming of a segment to the sync of the directory, and during every other
/// sync of the directory.
///
/// A failed sync gives up all pending changes of names. If another thread's sync failed between the two,
/// the sync that follows would succeed and prove nothing.
pub(crate) type DirSyncLock = Arc<Mutex<()>>;

/// Makes the names of segments durable, for threads that do not name any.
pub(crate) fn sync_names(disk: &dyn Disk, naming: &DirSyncLock) -> disk::Result<()> {
    let _alone = naming.lock();
    disk.sync_dir(SEGMENTS.dir)
}

/// The reason that a segment could not be started.
#[derive(Debug)]
pub(crate) enum RollError {
    /// Nothing of the journal was written: another attempt can succeed.
    Again(disk::Error),
    /// A sync of the old segment found no space: see [`Journal::rewrite_unsynced`].
    Unsynced(disk::Error),
    /// It is unknown what of the journal is durable.
    Terminal(disk::Error),
}

/// The segment that frames are appended to.
#[derive(Debug)]
struct ActiveSegment {
    sequence: u64,
    slot: u16,
    file: Arc<sync_guard::FailedSyncGuard>,
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
    /// The segment that frames are appended to; `None` before the first one.
    active: Option<ActiveSegment>,
    naming: DirSyncLock,
    /// Offset of the next frame in the active segment.
    pub(crate) end: u64,
    /// `true`: the active segment takes no more frames. The next segment may have its name, and begins
    /// with the next frame.
    is_sealed: bool,
    frame: Vec<u8>,
    frame_records: u32,
    next_lsn: u64,
    durable_lsn: u64,
    /// Position up to which everything is durable.
    pub(crate) durable: Position,
    /// Bytes written to the journal since the checkpoint that it was opened with, bytes read back
    /// included. It measures the growth of the journal.
    pub(crate) bytes_written: u64,
    /// `true`: a closing frame or the header of the next segment proves that the last frame was durable.
    is_closed: bool,
}

/// Bytes of a closing frame.
pub(crate) const CLOSING_BYTES: u64 = frame::HEADER_BYTES as u64;

impl Journal {
    /// Makes a journal without segments.
    pub(crate) fn new(disk: Arc<dyn Disk>, manifest: &Manifest, segment_bytes: u64) -> Self {
        Self {
            disk,
            store: manifest.store,
            seed: manifest.frame_seed(),
            epoch: 0,
            segment_bytes,
            active: None,
            naming: DirSyncLock::default(),
            end: segment::HEADER_BYTES,
            is_sealed: false,
            frame: Vec::new(),
            frame_records: 0,
            next_lsn: 1,
            durable_lsn: 0,
            durable: Position::default(),
            bytes_written: 0,
            is_closed: true,
        }
    }

    /// Continues the journal that recovery found; `slot` is that of its last segment.
    pub(crate) fn adopt(&mut self, epoch: u32, found: recovery::RecoveredJournal, slot: u16) {
        self.epoch = epoch;
        self.next_lsn = found.next_lsn;
        self.durable_lsn = found.next_lsn - 1;
        self.bytes_written = found.bytes;
        self.is_closed = found.tail == Tail::Closed;
        self.is_sealed = found.unused.is_some();
        if let Some(last) = found.segments.into_iter().next_back() {
            self.end = last.end;
            self.durable = Position { sequence: last.sequence, offset: self.end };
            let (sequence, length) = (last.sequence, last.length);
            let file = sync_guard::guard(last.file);
            self.active = Some(ActiveSegment { sequence, slot, file, length });
        }
    }

    /// Returns the lock of the names, for other threads.
    pub(crate) fn naming(&self) -> DirSyncLock {
        Arc::clone(&self.naming)
    }

    /// Returns the number of the active segment; 0 before the first one.
    pub(crate) fn active_sequence(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.sequence)
    }

    /// Returns the place and the number of the next frame. The frame under construction must have been
    /// committed.
    pub(crate) fn replay_point(&self) -> recovery::ReplayPoint {
        assert_eq!(self.frame_records, 0, "a replay point is between two frames");
        recovery::ReplayPoint {
            sequence: self.active_sequence(),
            offset: self.end,
            lsn: self.next_lsn,
            epoch: self.epoch,
        }
    }

    /// Returns the record under construction at this location, if there is one.
    pub(crate) fn under_construction(&self, location: Location) -> Option<&[u8]> {
        let active = self.active.as_ref()?;
        let offset = location.unit() * ALIGN;
        let start = offset.checked_sub(self.end).filter(|_| location.slot() == active.slot)?;
        Some(self.frame.get(usize::try_from(start).ok()?..).unwrap_or(&[]))
    }

    /// Returns the newest frame that is known to be durable.
    pub(crate) const fn durable_lsn(&self) -> u64 {
        self.durable_lsn
    }

    /// Returns the newest frame that was written.
    pub(crate) const fn written_lsn(&self) -> u64 {
        self.next_lsn - 1
    }

    /// Returns `true` if the active segment is filled far enough to begin its spare.
    pub(crate) fn active_is_begun(&self) -> bool {
        self.active.as_ref().is_some_and(|active| self.end >= spare::begins_at(active.length))
    }

    /// Returns the bytes of the frame under construction.
    pub(crate) const fn frame_bytes(&self) -> usize {
        self.frame.len()
    }

    /// Appends a record to the frame under construction and returns its future location.
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
        let (slot, length) =
            self.active.as_ref().map_or((0, 0), |active| (active.slot, active.length));
        if self.is_sealed || self.end + self.frame.len() as u64 + CLOSING_BYTES > length {
            let frame_bytes = (self.frame.len() - start + frame::HEADER_BYTES) as u64;
            self.frame.truncate(reserved);
            let bytes_max = self.segment_bytes - segment::HEADER_BYTES - CLOSING_BYTES;
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

    /// Writes the frame under construction, with this time of the steady clock. Returns the mark to
    /// sync, if a frame was written.
    pub(crate) fn commit(&mut self, steady_ms: u64) -> disk::Result<Option<SyncMark>> {
        if self.frame_records == 0 {
            return Ok(None);
        }
        let identity = self.next_identity(steady_ms);
        frame::seal(&mut self.frame, self.seed, identity);
        let frame = std::mem::take(&mut self.frame);
        let written = self.write_frame(&frame);
        // If there was no space for a frame, it is written again later.
        self.frame = frame;
        let mark = written?;
        self.frame.clear();
        self.frame.shrink_to(FRAME_BYTES_KEPT);
        self.frame_records = 0;
        self.is_closed = false;
        Ok(Some(mark))
    }

    /// Writes a closing frame behind the last frame, if that frame is durable and nothing proves it yet.
    /// Returns the mark to sync.
    pub(crate) fn write_closing_frame(&mut self, steady_ms: u64) -> disk::Result<Option<SyncMark>> {
        if !self.wants_closing_frame() || self.durable_lsn < self.written_lsn() {
            return Ok(None);
        }
        let mark = self.write_frame(&frame::closing(self.seed, self.next_identity(steady_ms)))?;
        self.is_closed = true;
        Ok(Some(mark))
    }

    /// Returns `true` if nothing proves that the last frame was durable, and a closing frame can be
    /// written.
    pub(crate) fn wants_closing_frame(&self) -> bool {
        // Segments of older builds may be full to the end.
        let has_room =
            self.active.as_ref().is_some_and(|active| self.end + CLOSING_BYTES <= active.length);
        !self.is_closed && !self.is_sealed && self.frame_records == 0 && has_room
    }

    /// Returns the closing frame for a copy of the journal up to [`Journal::durable`]; `None` if the
    /// copy needs none.
    pub(crate) fn closing_frame_of_copy(&self, steady_ms: u64) -> Option<Vec<u8>> {
        let length = self.active.as_ref()?.length;
        let is_closed = self.is_closed && self.durable_lsn == self.written_lsn();
        if is_closed || self.durable.offset + CLOSING_BYTES > length {
            return None;
        }
        let lsn = self.durable_lsn + 1;
        let identity = frame::Identity { lsn, count: 0, ..self.next_identity(steady_ms) };
        Some(frame::closing(self.seed, identity))
    }

    /// Returns the header fields of the next frame.
    const fn next_identity(&self, steady_ms: u64) -> frame::Identity {
        frame::Identity {
            epoch: self.epoch,
            lsn: self.next_lsn,
            count: self.frame_records,
            durable_lsn: self.durable_lsn,
            steady_ms,
        }
    }

    /// Writes a sealed frame behind the last one.
    fn write_frame(&mut self, frame: &[u8]) -> disk::Result<SyncMark> {
        let active = self.active.as_ref().expect("the caller checked the room in it");
        active.file.file.write_at(self.end, frame)?;
        let lsn = self.next_lsn;
        self.end += frame.len() as u64;
        self.bytes_written += frame.len() as u64;
        debug_assert_eq!(self.end, align_up(self.end), "frames end aligned");
        self.next_lsn += 1;
        Ok(SyncMark {
            lsn,
            position: Position { sequence: active.sequence, offset: self.end },
            file: Arc::clone(&active.file),
        })
    }

    /// Notes that everything up to the mark is durable.
    pub(crate) fn synced(&mut self, lsn: u64, position: Position) {
        self.durable_lsn = self.durable_lsn.max(lsn);
        self.durable = self.durable.max(position);
    }

    /// Writes everything again that a sync without space left undone, and makes it durable. Those bytes
    /// are in the page cache at best. Fails with [`disk::Error::NoSpace`] while there is no space; any
    /// other error is final.
    pub(crate) fn rewrite_unsynced(&mut self) -> disk::Result<()> {
        let Some(active) = &self.active else {
            return Ok(());
        };
        let is_here = self.durable.sequence == active.sequence;
        let from = if is_here { self.durable.offset } else { segment::HEADER_BYTES };
        let mut bytes = vec![0; usize::try_from(self.end - from).expect("a segment fits memory")];
        active.file.file.read_exact_at(from, &mut bytes)?;
        if !self.are_unsynced_frames(&bytes) {
            let what = "the written bytes are no longer there";
            return Err(disk::Error::other(disk::Operation::Read, active.file.file.name(), what));
        }
        active.file.rewrite(from, &bytes)?;
        let position = Position { sequence: active.sequence, offset: self.end };
        self.synced(self.written_lsn(), position);
        Ok(())
    }

    /// Returns `true` if the bytes are exactly the frames that were written and not synced.
    fn are_unsynced_frames(&self, bytes: &[u8]) -> bool {
        let (mut at, mut lsn) = (0, self.durable_lsn + 1);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let header = frame::Header::read(rest, self.seed).filter(|header| header.lsn == lsn);
            let Some(header) = header else {
                return false;
            };
            let length = usize::try_from(header.frame_bytes()).unwrap_or(usize::MAX);
            let whole = rest.get(..length);
            if !whole.is_some_and(|frame| frame::is_intact(frame, self.seed, &header)) {
                return false;
            }
            (at, lsn) = (at + length, lsn + 1);
        }
        lsn == self.next_lsn
    }

    /// Returns `true` if this place of a segment is durable.
    pub(crate) fn is_durable(&self, sequence: u64, offset: u64) -> bool {
        Position { sequence, offset } < self.durable
    }

    /// Begins a new segment. The frame under construction must have been committed. On success
    /// everything before is durable.
    ///
    /// 1. Nothing of the journal is written before the new segment has its name. So a roll that fails
    ///    before that starts again from the beginning.
    /// 2. From the rename on the name may exist, even if the rename failed. The old segment takes no
    ///    more frames, and the next attempt replaces the file.
    pub(crate) fn roll(&mut self, files: &mut Files) -> Result<(), RollError> {
        assert_eq!(self.frame_records, 0, "a frame never spans segments");
        if let Some(old) = &self.active {
            old.file.sync_data().map_err(|error| match error {
                error @ disk::Error::NoSpace { .. } => RollError::Unsynced(error),
                error => RollError::Terminal(error),
            })?;
            let position = Position { sequence: old.sequence, offset: self.end };
            self.synced(self.written_lsn(), position);
        }
        let sequence = self.active_sequence() + 1;
        let name = SEGMENTS.name(sequence);
        let length = self.segment_bytes;
        let header = segment::Header {
            version: format::VERSION,
            store: self.store,
            sequence,
            base_lsn: self.next_lsn,
            length,
        };
        files.check_free_slot().map_err(RollError::Again)?;
        spare::prepare(self.disk.as_ref(), &header).map_err(RollError::Again)?;
        let alone = self.naming.lock();
        if let Err(error) = self.disk.rename(spare::NEXT_TEMPORARY, &name) {
            self.is_sealed |= !error.is_no_space();
            return Err(RollError::Again(error));
        }
        self.is_sealed = true;
        let file = sync_guard::guard(self.disk.open(&name).map_err(RollError::Again)?);
        self.disk.sync_dir(SEGMENTS.dir).map_err(|error| match error {
            // The directory was not opened, or the next attempt gives the name again: its sync counts.
            error if error.is_shortage() => RollError::Again(error),
            error @ disk::Error::NoSpace { .. } => RollError::Again(error),
            error => RollError::Terminal(error),
        })?;
        drop(alone);
        let segment = DataFile::segment(sequence, Arc::clone(&file.file), length);
        let slot = files.add(segment).map_err(RollError::Again)?;
        self.active = Some(ActiveSegment { sequence, slot, file, length });
        self.is_sealed = false;
        self.end = segment::HEADER_BYTES;
        self.durable = Position { sequence, offset: self.end };
        // A segment begins when all before it is durable, and its header has the number of its first
        // frame.
        self.is_closed = true;
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
