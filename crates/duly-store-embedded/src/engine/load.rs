//! Loading: restores the state at startup, from the newest checkpoint that reads back and the journal
//! after its replay point.
//!
//! ```text
//!   checkpoint ─► namespaces, entries, leases, dead letters, table of files
//!   journal    ─► records from the replay point on ─► absorb
//! ```
//!
//! 1. A checkpoint that does not read back, or that needs a missing file, is skipped for the one before
//!    it.
//! 2. Entries that the checkpoint copied too early are overwritten by the records that follow.
//! 3. The counts per file, lane and state are made here, entry by entry.

use std::sync::Arc;

use crate::{
    checkpoint::{self, CheckpointReader},
    disk::Disk,
    files::{DataFile, FileId},
    format::checkpoint::{self as layout, Block, IndexKind},
    index::{AttemptKind, Entry, Flags, Index, IndexLoader, Key},
    journal::recovery::{self, RecoveredJournal, ReplayPoint, Replayed},
    manifest::Manifest,
    numbered::{CHECKPOINTS, SEGMENTS, damaged},
    open::{OpenError, OpenProgress},
    sorted_runs,
};

use super::{Engine, checkpoint::KeptCheckpoint};

/// Bytes of a checkpoint between two progress reports. Tests use small checkpoints.
const REPORT_EVERY_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 8 << 20 };

impl Engine {
    /// Restores the state from the disk. Writes nothing.
    pub(super) fn load(
        &mut self,
        manifest: &Manifest,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<RecoveredJournal, OpenError> {
        let disk = Arc::clone(&self.disk);
        let mut numbers = CHECKPOINTS.list(disk.as_ref())?;
        numbers.reverse();
        self.checkpoints.latest = numbers.first().copied().unwrap_or(0);
        self.files.checkpoint_begins(self.checkpoints.latest);
        let mut skipped = SkippedCheckpoints::default();
        for (place, &number) in numbers.iter().enumerate() {
            let refusal = match self.load_checkpoint(disk.as_ref(), number, manifest, progress) {
                Ok(point) => {
                    let found = self.read_journal(Some(point), manifest, progress);
                    let found = found.map_err(|error| skipped.first_or(error))?;
                    match self.check_files() {
                        Ok(()) => {
                            skipped.check_reached(&found)?;
                            self.keep_older(disk.as_ref(), &numbers[place + 1..], manifest);
                            let kept = KeptCheckpoint { number, sequence: point.sequence };
                            self.checkpoints.kept.push_back(kept);
                            return Ok(found);
                        }
                        Err(refusal) => refusal,
                    }
                }
                // This error does not concern the checkpoint.
                Err(refusal @ OpenError::NoThread(_)) => return Err(refusal),
                Err(OpenError::Disk(error)) if error.is_shortage() => return Err(error.into()),
                Err(refusal) => refusal,
            };
            tracing::error!(
                error = %refusal, number,
                "checkpoint cannot be loaded; trying the previous one"
            );
            skipped.note(
                refusal,
                CheckpointReader::open(disk.as_ref(), number, manifest).ok().as_ref(),
            );
            self.reset();
        }
        let first = recovery::all_sequences(disk.as_ref())?.first().copied();
        match skipped.refusal {
            Some(refusal) if first != Some(1) => return Err(refusal),
            None if first.is_some_and(|first| first > 1) => {
                let what = "there is no checkpoint although the journal's first segments are gone";
                return Err(damaged(CHECKPOINTS.dir, 0, what));
            }
            _ => {}
        }
        let found = self.read_journal(None, manifest, progress)?;
        self.check_files()?;
        skipped.check_reached(&found)?;
        Ok(found)
    }

    /// Replays the journal from a place on, or from the first segment of the store.
    fn read_journal(
        &mut self,
        from: Option<ReplayPoint>,
        manifest: &Manifest,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<RecoveredJournal, OpenError> {
        let disk = Arc::clone(&self.disk);
        let slots = self.open_segments(disk.as_ref(), from)?;
        let mut each = |batch: Vec<Replayed>| {
            for replayed in batch {
                self.replay(&slots, replayed);
            }
            Ok(())
        };
        let mut found = recovery::recover(disk.as_ref(), manifest, from, &mut each, progress)?;
        self.steady_seen_ms = found.steady_ms.unwrap_or(self.steady_seen_ms);
        for (place, segment) in found.segments.iter_mut().enumerate() {
            segment.slot = slots[place];
        }
        self.settle_evictions();
        Ok(found)
    }

    /// Checks that every file exists that an entry points into.
    fn check_files(&mut self) -> Result<(), OpenError> {
        let missing_files = std::mem::take(&mut self.missing_files);
        let Some((slot, records)) = self.files.missing() else {
            return Ok(());
        };
        let named = missing_files.iter().find(|(missing, _)| *missing == slot);
        let name = named.map_or_else(|| format!("file {slot}"), |(_, id)| id.name());
        Err(damaged(&name, 0, &format!("it is missing, with {records} timers in it")))
    }

    fn replay(&mut self, slots: &[u16], replayed: Replayed) {
        let Replayed { location, lsn, namespace, effect } = replayed;
        self.replay_lsn = lsn;
        self.absorb(location.in_slot(slots[usize::from(location.slot())]), namespace, effect);
    }

    /// Keeps the checkpoint before the loaded one as the older of the two, if its header reads back.
    fn keep_older(&mut self, disk: &dyn Disk, older: &[u64], manifest: &Manifest) {
        let Some(&number) = older.first() else {
            return;
        };
        if let Ok(reader) = CheckpointReader::open(disk, number, manifest) {
            let sequence = reader.header.replay.sequence;
            self.checkpoints.kept.push_back(KeptCheckpoint { number, sequence });
        }
    }

    fn load_checkpoint(
        &mut self,
        disk: &dyn Disk,
        number: u64,
        manifest: &Manifest,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<ReplayPoint, OpenError> {
        let reader = CheckpointReader::open(disk, number, manifest)?;
        let point = reader.header.replay;
        self.checkpoints.bytes = reader.read_progress().bytes_total;
        let name = CHECKPOINTS.name(number);
        self.namespaces.reserve_numbers(reader.end.highest_namespace);
        self.retry_due_max_ms = reader.header.retry_due_max_ms;
        self.steady_seen_ms = reader.header.steady_ms;
        let mut loading = Loading::default();
        let mut last = reader.read_progress();
        progress(last);
        let mut reported_bytes = last.bytes_done;
        checkpoint::each_block(reader, &mut |block, read_progress| {
            match block {
                Block::Namespace(namespace) => {
                    self.end_loading(std::mem::take(&mut loading));
                    loading.counts = namespace.counts;
                    self.load_namespace(*namespace);
                }
                Block::Entries(entries) => {
                    let part = (entries.namespace, entries.which);
                    if loading.part != Some(part) {
                        let next = loading.next(part);
                        self.end_loading(std::mem::replace(&mut loading, next));
                    }
                    let number = entries.namespace;
                    self.load_entries(&entries, &mut loading).ok_or_else(|| {
                        damaged(&name, 0, &format!("entries of namespace {number} before it"))
                    })?;
                }
                Block::Leases(leases) => loading.leases.push(leases),
                Block::MultipleDeadLetters(several) => {
                    for letter in &several.dead_letters {
                        self.namespaces
                            .with(several.namespace, |ns| ns.dead_letters.restore(letter));
                    }
                }
                Block::Files(files) => self.open_files(disk, &files, manifest)?,
                Block::End(_) => {}
            }
            last = read_progress;
            if last.bytes_done >= reported_bytes + REPORT_EVERY_BYTES {
                progress(last);
                reported_bytes = last.bytes_done;
            }
            Ok(())
        })?;
        self.end_loading(loading);
        progress(last);
        Ok(point)
    }

    fn load_namespace(&mut self, copied: layout::Namespace) {
        let layout::Namespace { number, lsn, record, lanes, counts: _ } = copied;
        self.namespaces.put(number, record);
        self.namespaces.with(number, |namespace| {
            namespace.captured_lsn = lsn;
            for lane in lanes {
                namespace.lanes.restore(lane.number, lane.key);
            }
        });
    }

    /// Loads entries; `None` if their namespace does not exist.
    fn load_entries(&mut self, entries: &layout::Entries<'_>, loading: &mut Loading) -> Option<()> {
        let (number, which) = (entries.namespace, entries.which);
        let files = &mut self.files;
        let namespace = self.namespaces.get_mut(number)?;
        let retention_ms = namespace.tombstones.retention_ms();
        let mut joined = [0; 256];
        for mut entry in entries.iter().filter_map(Entry::from_words) {
            match which {
                IndexKind::Live => {
                    let kind = entry.claimable().kind;
                    *namespace.waiting_mut(kind) += 1;
                    namespace.pending_bytes += entry.location().bytes_estimate();
                    joined[usize::from(entry.lane())] += 1;
                    if kind == AttemptKind::Retry && entry.flags().has(Flags::EXPIRES) {
                        self.retries_that_expire.push(entry.key(number));
                    }
                }
                IndexKind::Tombstones => {
                    entry = entry.due(entry.claimable().at_ms.saturating_sub(retention_ms));
                }
                IndexKind::DeadLetters | IndexKind::DeadByTimer => {}
            }
            if which != IndexKind::DeadByTimer {
                files.retain(entry.location());
            }
            loading.loader.get_or_insert_with(|| Index::load(0)).push(entry);
        }
        for (lane, count) in (0..=u8::MAX).zip(joined).filter(|(_, count)| *count > 0) {
            namespace.lanes.rejoin(lane, count);
        }
        Some(())
    }

    /// Installs a loaded index, and then its leases.
    fn end_loading(&mut self, loading: Loading) {
        if let (Some((number, which)), Some(loader)) = (loading.part, loading.loader) {
            let index = loader.finish();
            self.namespaces.with(number, |namespace| match which {
                IndexKind::Live => namespace.live = index,
                IndexKind::Tombstones => namespace.tombstones.index = index,
                IndexKind::DeadLetters => namespace.dead_letters.by_delivery = index,
                IndexKind::DeadByTimer => namespace.dead_letters.by_timer = index,
            });
            if which == IndexKind::Tombstones {
                self.note_tombstone_end(number, self.now.wall_ms);
            }
        }
        loading.leases.iter().for_each(|leases| self.load_leases(leases));
    }

    fn load_leases(&mut self, leases: &layout::Leases) {
        for (key, lease) in &leases.leases {
            self.restore_lease(Key::unpack(*key), lease);
        }
    }

    /// Opens the files of a checkpoint. A missing file is noted: `check_files` fails if an entry points
    /// into it.
    fn open_files(
        &mut self,
        disk: &dyn Disk,
        files: &[layout::FileSlot],
        manifest: &Manifest,
    ) -> Result<(), OpenError> {
        for slot in files {
            let opened = match slot.id {
                FileId::Segment(sequence) => open_segment(disk, sequence, manifest)
                    .map(|file| self.files.put(slot.slot, file)),
                FileId::SortedRun(id) => sorted_runs::open(disk, id, manifest)
                    .map(|run| self.files.put_run(slot.slot, run)),
            };
            match opened {
                Ok(()) => {}
                Err(OpenError::Disk(error)) if error.is_not_found() => {
                    self.missing_files.push((slot.slot, slot.id));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Opens the segments that will be replayed. Returns their slots in order.
    fn open_segments(
        &mut self,
        disk: &dyn Disk,
        from: Option<ReplayPoint>,
    ) -> Result<Vec<u16>, OpenError> {
        let mut slots = Vec::new();
        for sequence in recovery::sequences_from(disk, from)? {
            let slot = match self.files.slot_of(FileId::Segment(sequence)) {
                Some(slot) => slot,
                None => {
                    let file = disk.open(&SEGMENTS.name(sequence))?;
                    let length = file.len()?;
                    self.files.add(DataFile::segment(sequence, file, length))?
                }
            };
            slots.push(slot);
        }
        Ok(slots)
    }
}

/// Checkpoints that could not be loaded.
#[derive(Default)]
struct SkippedCheckpoints {
    /// Error of the newest one.
    refusal: Option<OpenError>,
    /// First frame that the newest of them does not include.
    lsn: u64,
}

impl SkippedCheckpoints {
    fn note(&mut self, refusal: OpenError, reader: Option<&CheckpointReader>) {
        self.refusal.get_or_insert(refusal);
        self.lsn = self.lsn.max(reader.map_or(0, |reader| reader.header.replay.lsn));
    }

    /// Returns the error to report when the checkpoint before it cannot be loaded either.
    fn first_or(&mut self, error: OpenError) -> OpenError {
        match self.refusal.take() {
            Some(refusal) => {
                tracing::error!(
                    %error,
                    "the previous checkpoint cannot be used either; startup fails with the error \
                     of the newest one"
                );
                refusal
            }
            None => error,
        }
    }

    /// Refuses if the journal ends before a frame that a skipped checkpoint has seen.
    fn check_reached(&mut self, found: &RecoveredJournal) -> Result<(), OpenError> {
        match self.refusal.take() {
            Some(refusal) if found.next_lsn < self.lsn => Err(refusal),
            _ => Ok(()),
        }
    }
}

/// The index that is being loaded.
#[derive(Default)]
struct Loading {
    part: Option<(u32, IndexKind)>,
    loader: Option<IndexLoader>,
    /// Leases of its entries.
    leases: Vec<layout::Leases>,
    /// Approximate number of entries of each index of the namespace.
    counts: [u64; 4],
}

impl Loading {
    /// Returns the state for another index of the namespace.
    fn next(&self, part: (u32, IndexKind)) -> Self {
        let count = self.counts[part.1 as usize - 1];
        let loader = Index::load(usize::try_from(count).unwrap_or(usize::MAX));
        Self { part: Some(part), loader: Some(loader), leases: Vec::new(), counts: self.counts }
    }
}

fn open_segment(
    disk: &dyn Disk,
    sequence: u64,
    manifest: &Manifest,
) -> Result<DataFile, OpenError> {
    let (file, length) = recovery::open_sealed(disk, sequence, manifest)?;
    Ok(DataFile::segment(sequence, file, length))
}
