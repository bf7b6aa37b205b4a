//! Writes a sorted run: records are written as they come, and the directory is collected and written
//! last.

use std::sync::Arc;

use super::FILES;
use crate::{
    disk::{
        self, Disk,
        fresh::{Caching, FreshFile, Throttle},
    },
    format::{
        ALIGN,
        frame::Seed,
        sorted_run::{
            CHUNK_BYTES, Directory, GROUP_BYTES, Group, Header, RUN_BYTES_MAX, TRAILER_BYTES,
            Trailer, hour_of,
        },
    },
};

/// A sorted run that is being written. If it is dropped or fails, it leaves nothing behind.
pub(crate) struct SortedRunWriter {
    file: FreshFile,
    id: u64,
    seed: Seed,
    directory: Directory,
    records: u64,
    time_min_ms: u64,
    time_max_ms: u64,
    pub(super) bytes_max: u64,
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
        let name = FILES.temporary_name(header.id);
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
    /// [`super::publish`] gives it its own.
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
