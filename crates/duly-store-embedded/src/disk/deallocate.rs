//! Deallocates the space of large files in parts.
//!
//! With the mount option `discard` the device is told of blocks that become free, and syncs wait
//! meanwhile. 480 MB freed at once held syncs up for 25 to 40 ms on the machine of
//! docs/internals/benchmarks.md; the same bytes in parts held them up for 1 to 4 ms.

use std::{sync::Arc, thread, time::Duration};

use super::{Disk, Error, File};

/// Bytes deallocated at once. Tests cross the boundary with small files.
const PART_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 8 << 20 };
/// Wait between two parts, so that syncs pass.
const PAUSE: Duration = Duration::from_millis(if cfg!(test) { 0 } else { 8 });

/// Splits a range of bytes into parts, from the end to the beginning.
pub(crate) fn deallocation_ranges(
    bytes: std::ops::Range<u64>,
) -> impl Iterator<Item = std::ops::Range<u64>> {
    let count = (bytes.end - bytes.start).div_ceil(PART_BYTES);
    (0..count).rev().map(move |part| {
        let begin = bytes.start + part * PART_BYTES;
        begin..bytes.end.min(begin + PART_BYTES)
    })
}

/// Removes a file and returns a handle on it, unless the file also has a name elsewhere. While the
/// handle is held the space is not deallocated. A missing file is not an error.
pub(crate) fn remove_name(disk: &dyn Disk, name: &str) -> Result<Option<Arc<dyn File>>, Error> {
    let removed = disk.is_shared(name).and_then(|is_shared| {
        let file = if is_shared { None } else { Some(disk.open(name)?) };
        disk.remove(name)?;
        Ok(file)
    });
    match removed {
        Err(error) if error.is_not_found() => Ok(None),
        removed => removed,
    }
}

/// Deallocates the space of a file whose name is removed durably. If another owner has the file open,
/// only the handle is dropped.
pub(crate) fn deallocate_file(file: &Arc<dyn File>) {
    if Arc::strong_count(file) > 1 {
        return;
    }
    let Ok(length) = file.len() else { return };
    for part in deallocation_ranges(0..length) {
        // The rest is deallocated with the handle.
        if part.start == 0 || file.set_len(part.start).is_err() {
            return;
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests;
