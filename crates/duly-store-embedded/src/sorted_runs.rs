//! Sorted runs (SST files): files of records that are sorted by time, each written once.
//!
//! 1. The rewriter moves live records from old files into sorted runs, by (hour, namespace, time). So
//!    timers that fire together are close together, and a file ends as a whole.
//! 2. The layout is in [`crate::format::sorted_run`]. A sorted run is written as `runs/<id>.tmp`, finished, and
//!    then renamed to `runs/<id>.run` ([`publish`]). So a file of that name is always complete.
//! 3. Only locations lead to a sorted run, so a run that no checkpoint names is a left-over.
//! 4. The start of the store makes the directory [`SORTED_RUNS`]`.dir` durable before the first writer.
//! 5. Header, trailer and directory are checked before anything of a run is used. The records are not read
//!    then: each has its own checksum, which is checked when the record is read.

use std::{ops::Range, sync::Arc};

use crate::{
    disk::{
        self, Disk, File,
        fresh::{self, Caching, FreshFile, Throttle},
    },
    format::{
        ALIGN,
        frame::Seed,
        sorted_run::{
            CHUNK_BYTES, Directory, GROUP_BYTES, Group, HEADER_BYTES, Header, RUN_BYTES_MAX,
            RunKind, TRAILER_BYTES, Trailer, hour_of,
        },
    },
    manifest::Manifest,
    numbered::{SORTED_RUNS, damaged},
    open::Result,
};

mod walk;

pub(crate) use walk::{RecordFault, walk};

/// An open sorted run.
#[derive(Debug)]
pub(crate) struct SortedRun {
    pub(crate) file: Arc<dyn File>,
    pub(crate) id: u64,
    pub(crate) kind: RunKind,
    /// Bytes of the file.
    pub(crate) length: u64,
    /// Groups by (hour, namespace), and by the chunk of the file in which they begin.
    pub(crate) groups: Vec<Group>,
    pub(crate) records: u64,
    /// End of the records.
    pub(crate) records_end: u64,
    /// Earliest and latest time of a record; 0 if there are none.
    pub(crate) time_min_ms: u64,
    pub(crate) time_max_ms: u64,
    /// Ranges that take no space on the disk: nothing needs them.
    pub(crate) holes: Vec<Range<u64>>,
}

/// Opens the sorted run with this id.
pub(crate) fn open(disk: &dyn Disk, id: u64, manifest: &Manifest) -> Result<SortedRun> {
    let name = SORTED_RUNS.name(id);
    let file = disk.open(&name)?;
    let seed = manifest.frame_seed();
    let length = file.len()?;
    if !(HEADER_BYTES + TRAILER_BYTES..=RUN_BYTES_MAX).contains(&length) {
        let what = format!("no run has {length} bytes");
        return Err(damaged(&name, 0, &what));
    }
    let bytes = read(&*file, 0, HEADER_BYTES)?;
    let header = Header::read(&bytes, seed)
        .map_err(|error| damaged(&name, 0, &format!("the run's header: {error}")))?;
    manifest.check_origin(&name, "file", header.version, header.store)?;
    if header.id != id {
        return Err(damaged(&name, 32, "the run was renamed"));
    }
    let trailer_at = length - TRAILER_BYTES;
    let bytes = read(&*file, trailer_at, TRAILER_BYTES)?;
    let trailer = Trailer::read(&bytes, seed, length)
        .map_err(|error| damaged(&name, trailer_at, &format!("the run's trailer: {error}")))?;
    if trailer.id != id {
        return Err(damaged(&name, trailer_at + 16, "the trailer is of another run"));
    }
    let at = trailer.directory_at;
    let bytes = read(&*file, at, trailer_at - at)?;
    let directory = Directory::decode(&bytes, &trailer, seed).map_err(|wrong| {
        damaged(&name, at + wrong.offset, &format!("the run's directory: {}", wrong.error))
    })?;
    let holes = file.holes()?;
    Ok(SortedRun {
        file,
        id,
        kind: header.kind,
        length,
        groups: directory.groups,
        records: trailer.records,
        records_end: trailer.directory_at,
        time_min_ms: trailer.time_min_ms,
        time_max_ms: trailer.time_max_ms,
        holes,
    })
}

fn read(file: &dyn File, offset: u64, count: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(count).expect("a run has at most 256 MiB")];
    file.read_exact_at(offset, &mut bytes)?;
    Ok(bytes)
}

/// A sorted run that is being written. If it is dropped or fails, it leaves nothing behind.
pub(crate) struct SortedRunWriter {
    file: FreshFile,
    id: u64,
    seed: Seed,
    directory: Directory,
    records: u64,
    time_min_ms: u64,
    time_max_ms: u64,
    bytes_max: u64,
    chunk_bytes: u64,
}

/// Result of pushing a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushResult {
    /// The record begins at this unit of [`ALIGN`] bytes.
    At(u32),
    /// The record does not fit any more: finish this sorted run and begin another with it.
    Full,
}

/// A complete sorted run, durable under its temporary name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FinishedRun {
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

impl SortedRunWriter {
    /// Creates `runs/<id>.tmp`.
    pub(crate) fn create(
        disk: Arc<dyn Disk>,
        header: &Header,
        seed: Seed,
        throttle: Throttle,
    ) -> disk::Result<Self> {
        let name = SORTED_RUNS.temporary_name(header.id);
        let mut file = FreshFile::create(disk, name, throttle, Caching::Kept)?;
        file.append(&header.encode(seed))?;
        Ok(Self {
            file,
            id: header.id,
            seed,
            directory: Directory::default(),
            records: 0,
            time_min_ms: u64::MAX,
            time_max_ms: 0,
            bytes_max: RUN_BYTES_MAX,
            chunk_bytes: CHUNK_BYTES,
        })
    }

    /// Sets the size of the chunks in which space is deallocated.
    pub(crate) fn with_chunk_bytes(mut self, chunk_bytes: u64) -> Self {
        self.chunk_bytes = chunk_bytes;
        self
    }

    /// Appends a record in the form of a frame, with its padding. `time_ms` is the time that this kind
    /// of run is sorted by.
    ///
    /// # Panics
    /// When the records are not sorted by (hour, namespace), or a record is not padded: the run could
    /// not be opened.
    pub(crate) fn push(
        &mut self,
        namespace: u32,
        time_ms: u64,
        record: &[u8],
    ) -> disk::Result<PushResult> {
        assert!(
            !record.is_empty() && (record.len() as u64).is_multiple_of(ALIGN),
            "a record of {} bytes is not padded",
            record.len()
        );
        let key = (hour_of(time_ms), namespace);
        let last = self.directory.groups.last();
        assert!(
            last.is_none_or(|last| last.key() <= key),
            "a record of {key:?} comes behind {last:?}"
        );
        let at = self.file.len();
        // A chunk may be gone when the records behind it are read, so each chunk has an entry of its
        // own.
        let chunk_of = |offset: u64| offset / self.chunk_bytes;
        let is_of = |last: &Group| {
            last.key() == key && chunk_of(u64::from(last.unit) * ALIGN) == chunk_of(at)
        };
        let begins_group = !last.is_some_and(is_of);
        let groups = self.directory.groups.len() as u64 + u64::from(begins_group);
        let bytes = at + record.len() as u64 + groups * GROUP_BYTES + TRAILER_BYTES;
        if bytes > self.bytes_max {
            return Ok(PushResult::Full);
        }
        self.file.append(record)?;
        let unit = u32::try_from(at / ALIGN).expect("a run has at most 256 MiB");
        match self.directory.groups.last_mut() {
            Some(group) if !begins_group => group.count += 1,
            _ => {
                let (hour, namespace) = key;
                self.directory.groups.push(Group { hour, namespace, unit, count: 1 });
            }
        }
        self.records += 1;
        self.time_min_ms = self.time_min_ms.min(time_ms);
        self.time_max_ms = self.time_max_ms.max(time_ms);
        Ok(PushResult::At(unit))
    }

    /// Appends directory and trailer and makes the file durable. It still has its temporary name;
    /// [`publish`] gives it its own.
    pub(crate) fn finish(mut self) -> disk::Result<FinishedRun> {
        let (directory, directory_crc) = self.directory.encode(self.seed);
        let trailer = Trailer {
            directory_crc,
            id: self.id,
            records: self.records,
            directory_at: self.file.len(),
            groups: self.directory.groups.len() as u64,
            time_min_ms: self.time_min_ms.min(self.time_max_ms),
            time_max_ms: self.time_max_ms,
        };
        self.file.append(&directory)?;
        self.file.append(&trailer.encode(self.seed))?;
        Ok(FinishedRun { bytes: self.file.finish()?, records: self.records })
    }
}

/// Gives a finished sorted run its name, durably.
pub(crate) fn publish(disk: &dyn Disk, id: u64) -> disk::Result<()> {
    fresh::publish(disk, &SORTED_RUNS.temporary_name(id), &SORTED_RUNS.name(id))
}

#[cfg(test)]
mod tests;
