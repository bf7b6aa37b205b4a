//! Coming up: the newest checkpoint that reads back, then the journal from its replay point on.
//!
//! ```text
//!   checkpoint ─► namespaces, entries, leases, letters, table of files
//!   journal    ─► records from the replay point on ─► absorb
//! ```
//!
//! What the checkpoint copied too early is overwritten by the records that follow; what is counted
//! per file, lane and state is counted here, entry by entry.

use std::sync::Arc;

use crate::{
    checkpoint::{self, Reader},
    disk::Disk,
    effect,
    files::{DataFile, FileId},
    format::checkpoint::{self as layout, Block, Which},
    index::{Entry, Flags, Index, Key, Kind, Loader},
    journal::{
        recovery::{self, Found, ReplayPoint, Replayed},
        segment_name,
    },
    manifest::Manifest,
    numbered::damaged,
    open::{OpenError, OpenProgress},
    runs,
};

use super::{Engine, checkpoint::Kept};

/// Progress of a checkpoint is told this often. Tests hear it of small ones.
const TOLD_EVERY_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 8 << 20 };

impl Engine {
    /// Brings the state up from what is on the disk. Writes nothing.
    pub(super) fn load(
        &mut self,
        manifest: &Manifest,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<Found, OpenError> {
        let point = self.load_newest_checkpoint(manifest, progress)?;
        let disk = Arc::clone(&self.disk);
        let slots = self.open_segments(disk.as_ref(), point)?;
        let mut each = |batch: Vec<Replayed>| {
            for replayed in batch {
                self.replay(&slots, replayed);
            }
            Ok(())
        };
        let mut tell = |how_far: recovery::Progress| progress(how_far.into());
        let mut found = recovery::recover(disk.as_ref(), manifest, point, &mut each, &mut tell)?;
        for (place, segment) in found.segments.iter_mut().enumerate() {
            segment.slot = slots[place];
        }
        if let Some((slot, records)) = self.files.missing() {
            let named = self.missing_files.iter().find(|(missing, _)| *missing == slot);
            let name = named.map_or_else(|| format!("file {slot}"), |(_, id)| id.name());
            return Err(damaged(&name, 0, &format!("it is missing, with {records} timers in it")));
        }
        self.missing_files = Vec::new();
        Ok(found)
    }

    fn replay(&mut self, slots: &[u16], replayed: Replayed) {
        let Replayed { location, lsn, namespace, effect, .. } = replayed;
        self.replay_lsn = lsn;
        self.absorb(location.in_slot(slots[usize::from(location.slot())]), namespace, effect);
    }

    /// Answers where the replay begins; `None`: at the first segment of the store's life.
    fn load_newest_checkpoint(
        &mut self,
        manifest: &Manifest,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<Option<ReplayPoint>, OpenError> {
        let disk = Arc::clone(&self.disk);
        let numbers = checkpoint::list(disk.as_ref())?;
        self.checkpoints.latest = numbers.first().copied().unwrap_or(0);
        self.files.checkpoint_begins(self.checkpoints.latest);
        let mut refusal = None;
        for (place, &number) in numbers.iter().enumerate() {
            let loaded = self.load_checkpoint(disk.as_ref(), number, manifest, progress);
            match loaded {
                Ok(point) => {
                    self.keep_older(disk.as_ref(), &numbers[place + 1..], manifest);
                    self.checkpoints.kept.push_back(Kept { number, sequence: point.sequence });
                    return Ok(Some(point));
                }
                Err(error) => {
                    tracing::error!(%error, number, "a checkpoint cannot be loaded");
                    self.forget_everything();
                    refusal.get_or_insert(error);
                }
            }
        }
        if let Some(refusal) = refusal {
            return if self.begins_at_the_first_segment()? { Ok(None) } else { Err(refusal) };
        }
        let first = recovery::all_sequences(disk.as_ref())?.first().copied();
        if first.is_some_and(|first| first > 1) {
            let what = "there is no checkpoint although the journal's first segments are gone";
            return Err(damaged(checkpoint::FILES.dir, 0, what));
        }
        Ok(None)
    }

    fn begins_at_the_first_segment(&self) -> Result<bool, OpenError> {
        Ok(recovery::all_sequences(self.disk.as_ref())?.first() == Some(&1))
    }

    /// The checkpoint before the loaded one stays as the older of the two, if its header reads back.
    fn keep_older(&mut self, disk: &dyn Disk, older: &[u64], manifest: &Manifest) {
        let Some(&number) = older.first() else {
            return;
        };
        if let Ok(reader) = Reader::open(disk, number, manifest) {
            let sequence = reader.header().replay.sequence;
            self.checkpoints.kept.push_back(Kept { number, sequence });
        }
    }

    fn load_checkpoint(
        &mut self,
        disk: &dyn Disk,
        number: u64,
        manifest: &Manifest,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<ReplayPoint, OpenError> {
        let mut reader = Reader::open(disk, number, manifest)?;
        let point = reader.replay_point()?;
        let name = checkpoint::FILES.name(number);
        self.namespaces.reserve_numbers(reader.end().highest_namespace);
        let mut loading = Loading::default();
        let mut told = Told::new(progress);
        told.tell(&reader);
        while let Some(block) = reader.next()? {
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
                Block::Several(several) => {
                    for letter in &several.letters {
                        self.namespaces.with(several.namespace, |ns| ns.letters.restore(letter));
                    }
                }
                Block::Files(files) => self.open_files(disk, &files, manifest)?,
                Block::End(_) => {}
            }
            told.tell_at_times(&reader);
        }
        self.end_loading(loading);
        told.tell(&reader);
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

    /// `None` if the namespace is not there.
    fn load_entries(&mut self, entries: &layout::Entries<'_>, loading: &mut Loading) -> Option<()> {
        let (number, which) = (entries.namespace, entries.which);
        let (files, now_ms) = (&mut self.files, self.now.wall_ms);
        let namespace = self.namespaces.get_mut(number)?;
        for entry in entries.iter().filter_map(Entry::from_words) {
            match which {
                Which::Live => {
                    let kind = entry.claimable().kind;
                    *namespace.waiting_mut(kind) += 1;
                    namespace.pending_bytes += entry.location().bytes_estimate();
                    namespace.lanes.rejoin(entry.lane());
                    if kind == Kind::Retry && entry.flags().has(Flags::EXPIRES) {
                        self.retries_that_expire.push(entry.key(number));
                    }
                }
                Which::Stubs if entry.claimable().at_ms <= now_ms => continue,
                Which::Stubs | Which::DeadLetters | Which::DeadByTimer => {}
            }
            if which != Which::DeadByTimer {
                files.retain(entry.location());
            }
            loading.loader.get_or_insert_with(|| Index::load(0)).push(entry);
        }
        Some(())
    }

    /// Puts an index in its place, and the leases that came with it on it.
    fn end_loading(&mut self, loading: Loading) {
        if let (Some((number, which)), Some(loader)) = (loading.part, loading.loader) {
            let index = loader.finish();
            self.namespaces.with(number, |namespace| match which {
                Which::Live => namespace.live = index,
                Which::Stubs => *namespace.stubs.index_mut() = index,
                Which::DeadLetters => *namespace.letters.indexes_mut().0 = index,
                Which::DeadByTimer => *namespace.letters.indexes_mut().1 = index,
            });
            if which == Which::Stubs {
                self.note_stub_end(number, self.now.wall_ms);
            }
        }
        loading.leases.iter().for_each(|leases| self.load_leases(leases));
    }

    fn load_leases(&mut self, leases: &layout::Leases) {
        for lease in &leases.leases {
            self.restore_lease(Key::unpack(lease.key), &restored(lease));
        }
    }

    /// Opens the files of a checkpoint. One that is gone was not needed, or is missed later on.
    fn open_files(
        &mut self,
        disk: &dyn Disk,
        files: &[layout::FileSlot],
        manifest: &Manifest,
    ) -> Result<(), OpenError> {
        for slot in files {
            let id = FileId::of(slot);
            let opened = match id {
                FileId::Segment(sequence) => open_segment(disk, sequence, manifest),
                FileId::Run(id) => runs::open(disk, id, manifest).map(DataFile::run),
            };
            match opened {
                Ok(file) => self.files.put(slot.slot, file),
                Err(OpenError::Disk(error)) if error.is_not_found() => {
                    self.missing_files.push((slot.slot, id));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The slots of the segments that are about to be replayed, in order.
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
                    let file = disk.open(&segment_name(sequence))?;
                    let length = file.len()?;
                    self.files.add(DataFile::segment(sequence, file, length))?
                }
            };
            slots.push(slot);
        }
        Ok(slots)
    }
}

/// Says how far the loading of a checkpoint is.
struct Told<'a> {
    progress: &'a mut dyn FnMut(OpenProgress),
    bytes_done: u64,
}

impl<'a> Told<'a> {
    fn new(progress: &'a mut dyn FnMut(OpenProgress)) -> Self {
        Self { progress, bytes_done: 0 }
    }

    fn tell(&mut self, reader: &Reader) {
        let (bytes_done, bytes_total) = reader.how_far();
        self.bytes_done = bytes_done;
        (self.progress)(OpenProgress { what: OpenProgress::CHECKPOINT, bytes_done, bytes_total });
    }

    fn tell_at_times(&mut self, reader: &Reader) {
        if reader.how_far().0 >= self.bytes_done + TOLD_EVERY_BYTES {
            self.tell(reader);
        }
    }
}

/// The index that is being loaded.
#[derive(Default)]
struct Loading {
    part: Option<(u32, Which)>,
    loader: Option<Loader>,
    /// Leases on its entries.
    leases: Vec<layout::Leases>,
    /// About how many entries each index of the namespace gets.
    counts: [u64; 4],
}

impl Loading {
    /// The one for another index of the namespace.
    fn next(&self, part: (u32, Which)) -> Self {
        let count = self.counts[part.1 as usize - 1];
        let loader = Index::load(usize::try_from(count).unwrap_or(usize::MAX));
        Self { part: Some(part), loader: Some(loader), leases: Vec::new(), counts: self.counts }
    }
}

fn restored(lease: &layout::Lease) -> effect::Lease {
    let layout::Lease { key: _, nonce, attempt, node, claimed_at, lease_ms, until } = *lease;
    effect::Lease { nonce, attempt, node, claimed_at, lease_ms, until, extends: true }
}

fn open_segment(
    disk: &dyn Disk,
    sequence: u64,
    manifest: &Manifest,
) -> Result<DataFile, OpenError> {
    let (file, length) = recovery::open_sealed(disk, sequence, manifest)?;
    Ok(DataFile::segment(sequence, file, length))
}
