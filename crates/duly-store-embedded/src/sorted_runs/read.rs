//! Opens a sorted run: checks header, trailer and directory before anything of it is used.
//!
//! It does not read the records. Each record has its own checksum, which is checked when the record is
//! read.

use std::{ops::Range, sync::Arc};

use super::FILES;
use crate::{
    disk::{Disk, File},
    format::sorted_run::{
        Directory, Group, HEADER_BYTES, Header, RUN_BYTES_MAX, RunKind, TRAILER_BYTES, Trailer,
    },
    manifest::Manifest,
    numbered::{check_origin, damaged},
    open::Result,
};

/// An open sorted run.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "an offline check looks at the rest"))]
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
    pub(crate) created_at_ms: u64,
    /// Ranges that take no space on the disk: nothing needs them.
    pub(crate) holes: Vec<Range<u64>>,
}

/// Opens the sorted run with this id.
pub(crate) fn open(disk: &dyn Disk, id: u64, manifest: &Manifest) -> Result<SortedRun> {
    let name = FILES.name(id);
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
    check_origin(&name, "file", header.version, header.store, manifest)?;
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
        created_at_ms: header.created_at_ms,
        holes,
    })
}

fn read(file: &dyn File, offset: u64, count: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(count).expect("a run has at most 256 MiB")];
    file.read_exact_at(offset, &mut bytes)?;
    Ok(bytes)
}
