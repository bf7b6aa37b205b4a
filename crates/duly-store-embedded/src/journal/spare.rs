//! Spare segments: segments whose blocks are already written, so that the syncs of an active journal
//! need no metadata.
//!
//! 1. A spare is a file of zeros, or a segment that nothing needs any more.
//! 2. A thread of the shell writes the spare while the journal continues. It allocates the space first.
//!    The zeros follow in small parts as the active segment fills (see [`SparePace`]), because every
//!    part makes a sync of the journal wait.
//! 3. If segments fill faster than zeros may be written, the zeros would cost more than they save. Then
//!    a roll finds no spare and makes a segment whose space is only reserved. It uses another name, so
//!    neither ever touches the half-written file of the other.

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use crate::{
    disk::{self, Disk},
    format::segment,
    numbered::SEGMENTS,
};

use super::{DirSyncLock, sync_names};

/// A segment that is ready to be used.
pub(crate) const SPARE: &str = "journal/spare";
const SPARE_TEMPORARY: &str = "journal/spare.tmp";
pub(super) const NEXT_TEMPORARY: &str = "journal/next.tmp";
const RECYCLED_TEMPORARY: &str = "journal/recycled.tmp";
/// Suffix of segments that wait to become a spare.
pub(crate) const RECYCLED_SUFFIX: &str = ".old";
/// Most segments that wait.
const RECYCLED_MAX: usize = 8;
/// Bytes after which a spare is synced while it is written: at most this much is in the disk's queue
/// before a sync of the journal.
const PART_BYTES: u64 = 512 << 10;
/// Least time for writing a part: 64 MB a second.
const PART_TIME: Duration = Duration::from_micros(7_812);

/// Decides when the next part of a spare may be written.
///
/// 1. A part is allowed when the active segment is filled so far that the spare would be ready long
///    before it is needed.
/// 2. The rate is limited, so that the disk stays available to the journal.
/// 3. Writing stops for good when the spare will not be needed.
pub(crate) struct SparePace {
    /// Bytes of the active segment, sent each time they have grown by [`PACED_BYTES`]. The channel
    /// closes with the engine.
    filled: Receiver<u64>,
    segment_bytes: u64,
    allowed_bytes: u64,
    part_since: Instant,
}

/// The decision to continue or to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PaceDecision {
    Continue,
    Stop,
}

impl SparePace {
    pub(crate) fn new(segment_bytes: u64, filled: Receiver<u64>) -> Self {
        Self { filled, segment_bytes, allowed_bytes: 0, part_since: Instant::now() }
    }

    /// Waits until more than these bytes may be written.
    fn pass(&mut self, written_bytes: u64) -> PaceDecision {
        let part_until = self.part_since + PART_TIME;
        loop {
            let now = Instant::now();
            let received = if now < part_until {
                self.filled.recv_timeout(part_until - now)
            } else if written_bytes >= self.allowed_bytes {
                self.filled.recv().map_err(RecvTimeoutError::from)
            } else {
                self.part_since = now;
                return PaceDecision::Continue;
            };
            match received {
                Ok(filled_bytes) => self.allow(filled_bytes),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return PaceDecision::Stop,
            }
        }
    }

    /// Raises the allowed bytes. A spare begins with its segment's first eighth and is complete at five
    /// eighths.
    fn allow(&mut self, filled_bytes: u64) {
        let since_begun = filled_bytes.saturating_sub(begins_at(self.segment_bytes));
        self.allowed_bytes = self.allowed_bytes.max(2 * since_begun + PART_BYTES);
    }
}

/// Returns the bytes of a segment at which its spare is begun, so that a store of a few timers does not
/// take twice the disk.
pub(super) const fn begins_at(segment_bytes: u64) -> u64 {
    segment_bytes / 8
}

/// Growth of a segment after which [`SparePace`] gets the next message.
pub(crate) const PACED_BYTES: u64 = PART_BYTES / 2;

/// Writes the spare, unless there is one of this length. Stops early if the pace says that it will not
/// be needed.
pub(crate) fn write_spare(
    disk: &dyn Disk,
    naming: &DirSyncLock,
    segment_bytes: u64,
    pace: &mut SparePace,
) -> disk::Result<()> {
    if spare_bytes(disk)? == segment_bytes {
        return Ok(());
    }
    if take_recycled(disk, segment_bytes, SPARE)? {
        return sync_names(disk, naming);
    }
    reserve(disk, SPARE_TEMPORARY, segment_bytes)?;
    match write_zeros(disk, segment_bytes, pace) {
        Ok(PaceDecision::Continue) => {}
        Ok(PaceDecision::Stop) => return disk.remove(SPARE_TEMPORARY),
        Err(error) => {
            drop(disk.remove(SPARE_TEMPORARY));
            return Err(error);
        }
    }
    disk.rename(SPARE_TEMPORARY, SPARE)?;
    sync_names(disk, naming)
}

/// Prepares a durable segment with this header under [`NEXT_TEMPORARY`]: the spare, a recycled segment,
/// or a new file if there is neither. It gets its name last, so that a roll that fails before leaves no
/// segment behind.
pub(super) fn prepare(disk: &dyn Disk, header: &segment::Header) -> disk::Result<()> {
    let taken = take_spare(disk, header.length)
        .and_then(|is_taken| Ok(is_taken || take_recycled(disk, header.length, NEXT_TEMPORARY)?));
    let is_taken = taken.unwrap_or_else(|error| {
        tracing::warn!(%error, "spare journal segment not usable; creating a new file");
        false
    });
    if !is_taken {
        reserve(disk, NEXT_TEMPORARY, header.length)?;
    }
    let prepared = disk.open(NEXT_TEMPORARY).and_then(|file| {
        file.write_at(0, &header.encode())?;
        file.sync_data()
    });
    prepared.inspect_err(|_| {
        // After a failed sync the file cannot be trusted; the next attempt makes another.
        drop(disk.remove(NEXT_TEMPORARY));
    })
}

/// Renames the spare, so that no other thread uses it. Returns `true` if there was one of this length.
fn take_spare(disk: &dyn Disk, segment_bytes: u64) -> disk::Result<bool> {
    let is_there = spare_bytes(disk)? == segment_bytes;
    if is_there {
        disk.rename(SPARE, NEXT_TEMPORARY)?;
    }
    Ok(is_there)
}

/// Keeps a segment that nothing needs, to become a spare later. It must have the current segment length,
/// no backup may share it, and not too many may wait already. Returns `true` if it was kept. Its old
/// frames cannot be taken for frames of the journal: their lsns are too old.
pub(crate) fn recycle(
    disk: &dyn Disk,
    naming: &DirSyncLock,
    name: &str,
    segment_bytes: u64,
) -> disk::Result<bool> {
    let is_full = recycled(disk)?.len() >= RECYCLED_MAX;
    if is_full || length_of(disk, name)? != segment_bytes || disk.is_shared(name)? {
        return Ok(false);
    }
    // It may become a spare only when its old name is durably gone. A journal that uses it overwrites
    // its header, and a power loss must not bring that back under the old name.
    disk.rename(name, RECYCLED_TEMPORARY)?;
    sync_names(disk, naming)?;
    let waiting = name.strip_suffix(".log").unwrap_or(name);
    disk.rename(RECYCLED_TEMPORARY, &format!("{waiting}{RECYCLED_SUFFIX}"))?;
    Ok(true)
}

/// Returns the names of the segments that wait to become a spare.
fn recycled(disk: &dyn Disk) -> disk::Result<Vec<String>> {
    let names = disk.list(SEGMENTS.dir)?.into_iter().filter(|name| name.ends_with(RECYCLED_SUFFIX));
    Ok(names.map(|name| format!("{}/{name}", SEGMENTS.dir)).collect())
}

/// Renames a waiting segment of this length, if there is one. If two threads want the same segment, the
/// second takes the next one.
fn take_recycled(disk: &dyn Disk, segment_bytes: u64, to: &str) -> disk::Result<bool> {
    for name in recycled(disk)? {
        let taken = if length_of(disk, &name)? == segment_bytes {
            disk.rename(&name, to).map(|()| true)
        } else {
            // The segment length has changed since.
            disk.remove(&name).map(|()| false)
        };
        match taken {
            Ok(true) => return Ok(true),
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(false)
}

/// Returns the length of the spare; 0 if there is none.
fn spare_bytes(disk: &dyn Disk) -> disk::Result<u64> {
    length_of(disk, SPARE)
}

/// Returns the length of a file; 0 if there is none.
fn length_of(disk: &dyn Disk, name: &str) -> disk::Result<u64> {
    match disk.open(name) {
        Ok(file) => file.len(),
        Err(error) if error.is_not_found() => Ok(0),
        Err(error) => Err(error),
    }
}

/// Makes a file with reserved space and syncs it.
fn reserve(disk: &dyn Disk, name: &str, segment_bytes: u64) -> disk::Result<()> {
    let file = disk::create_anew(disk, name)?;
    file.reserve(segment_bytes).and_then(|()| file.sync_all()).inspect_err(|_| {
        // Half a segment is of no use, and leaving it would keep the disk full.
        drop(disk.remove(name));
    })
}

/// Fills a file with zeros and syncs it after each part and at the end.
fn write_zeros(
    disk: &dyn Disk,
    segment_bytes: u64,
    pace: &mut SparePace,
) -> disk::Result<PaceDecision> {
    let file = disk.open(SPARE_TEMPORARY)?;
    let part = usize::try_from(segment_bytes.min(PART_BYTES)).expect("a part fits memory");
    let zeros = vec![0; part];
    let mut offset = 0;
    while offset < segment_bytes {
        if pace.pass(offset) == PaceDecision::Stop {
            return Ok(PaceDecision::Stop);
        }
        let count = (segment_bytes - offset).min(PART_BYTES);
        let part = usize::try_from(count).expect("at most a part");
        file.write_at(offset, &zeros[..part])?;
        file.sync_data()?;
        offset += count;
    }
    file.sync_all()?;
    Ok(PaceDecision::Continue)
}

#[cfg(test)]
mod tests;
