//! Segments whose blocks are written already, made ahead so that the syncs of a journal in use need
//! no metadata: files of zeros, or segments that nothing needs any more.
//!
//! The spare is written by a thread of the shell while the journal goes on. A roll that finds none
//! makes its own segment under another name, so neither ever touches the half-written file of the
//! other.

use crate::{
    disk::{self, Disk},
    format::segment,
};

use super::DIR;

/// A segment that waits for its turn.
pub(crate) const SPARE: &str = "journal/spare";
const SPARE_TEMPORARY: &str = "journal/spare.tmp";
const NEXT_TEMPORARY: &str = "journal/next.tmp";
/// Bytes after which a spare is synced while it is written: so much at most stands in the disk's
/// queue before a sync of the journal.
const SMOOTH_BYTES: u64 = 4 << 20;
/// Bytes written at once when a segment is filled with zeros.
const FILL_BYTES: usize = 1 << 20;

/// Writes the spare, unless there is one of this length.
pub(crate) fn write_spare(disk: &dyn Disk, segment_bytes: u64) -> Result<(), disk::Error> {
    if spare_bytes(disk)? == segment_bytes {
        return Ok(());
    }
    write_zeros(disk, SPARE_TEMPORARY, segment_bytes, Some(SMOOTH_BYTES))?;
    disk.rename(SPARE_TEMPORARY, SPARE)?;
    disk.sync_dir(DIR)
}

/// Makes a segment with this header and name out of the spare, or out of a new file when there is
/// no spare of its length. It gets the name last, with its header durable: a roll that fails before
/// leaves no segment behind.
pub(super) fn take(
    disk: &dyn Disk,
    header: &segment::Header,
    name: &str,
) -> Result<(), disk::Error> {
    let source = if spare_bytes(disk)? == header.length {
        SPARE
    } else {
        write_zeros(disk, NEXT_TEMPORARY, header.length, None)?;
        NEXT_TEMPORARY
    };
    let file = disk.open(source)?;
    file.write_at(0, &header.encode())?;
    file.sync_data()?;
    disk.rename(source, name)
}

/// Makes the spare out of a segment that nothing needs, if there is no spare, it has the length that
/// segments have, and no backup shares it; answers whether it did. What the segment held is no frame of the journal any
/// more: its lsns lie behind.
pub(crate) fn recycle(
    disk: &dyn Disk,
    name: &str,
    segment_bytes: u64,
) -> Result<bool, disk::Error> {
    let has_one = spare_bytes(disk)? == segment_bytes;
    if has_one || disk.open(name)?.len()? != segment_bytes || disk.is_shared(name)? {
        return Ok(false);
    }
    disk.rename(name, SPARE)?;
    Ok(true)
}

/// Length of the spare; 0 when there is none.
fn spare_bytes(disk: &dyn Disk) -> Result<u64, disk::Error> {
    match disk.open(SPARE) {
        Ok(spare) => spare.len(),
        Err(error) if error.is_not_found() => Ok(0),
        Err(error) => Err(error),
    }
}

/// Fills a new file with zeros and syncs it, at the end and, with `sync_every`, in between.
fn write_zeros(
    disk: &dyn Disk,
    name: &str,
    segment_bytes: u64,
    sync_every: Option<u64>,
) -> Result<(), disk::Error> {
    match disk.remove(name) {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    let file = disk.create(name)?;
    let zeros = vec![0; FILL_BYTES];
    let mut offset = 0;
    while offset < segment_bytes {
        let count = (segment_bytes - offset).min(FILL_BYTES as u64);
        let part = usize::try_from(count).expect("at most FILL_BYTES");
        let written = file.write_at(offset, &zeros[..part]);
        if let Err(error) = written {
            // Half a segment is of no use; leaving it would keep the disk full.
            drop(disk.remove(name));
            return Err(error);
        }
        offset += count;
        if sync_every.is_some_and(|bytes| offset.is_multiple_of(bytes)) {
            file.sync_data()?;
        }
    }
    file.sync_all()
}
