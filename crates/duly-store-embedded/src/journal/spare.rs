//! Segments whose blocks are written already, made ahead so that the syncs of a journal in use need
//! no metadata: files of zeros, or segments that nothing needs any more.
//!
//! The spare is written by a thread of the shell while the journal goes on. Its room is taken first,
//! its zeros follow in small parts as the segment in use fills (see [`SparePace`]), because every part
//! makes a sync of the journal wait. Where segments fill faster than zeros may be written, these
//! would cost more than they save, and a roll that finds no spare makes a segment whose room is only
//! reserved. It does so under another name, so neither ever touches the half-written file of the
//! other.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use crate::{
    disk::{self, Disk, File},
    format::segment,
};

use super::{DIR, Naming, sync_names};

/// A segment that waits for its turn.
pub(crate) const SPARE: &str = "journal/spare";
const SPARE_TEMPORARY: &str = "journal/spare.tmp";
pub(super) const NEXT_TEMPORARY: &str = "journal/next.tmp";
const RECYCLED_TEMPORARY: &str = "journal/recycled.tmp";
/// Suffix of segments that wait to be a spare.
pub(crate) const RECYCLED_SUFFIX: &str = ".old";
/// How many of them are kept.
const RECYCLED_MAX: usize = 8;
/// Bytes after which a spare is synced while it is written: so much at most stands in the disk's
/// queue before a sync of the journal.
const PART_BYTES: u64 = 512 << 10;
/// How long writing a part takes at least: 64 MB a second.
const PART_TIME: Duration = Duration::from_micros(7_812);

/// Says when the next part of a spare may be written: when the segment in use has been filled so far
/// that the spare would be ready long before it is needed, at most at a rate that leaves the disk to
/// the journal, and never again when nobody will need it.
pub(crate) struct SparePace {
    /// Bytes of the segment in use, each time they have grown by [`PACED_BYTES`]; ends with the engine.
    filled: Receiver<u64>,
    segment_bytes: u64,
    allowed_bytes: u64,
    part_since: Instant,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Go {
    On,
    Stop,
}

impl SparePace {
    pub(crate) fn new(segment_bytes: u64, filled: Receiver<u64>) -> Self {
        Self { filled, segment_bytes, allowed_bytes: 0, part_since: Instant::now() }
    }

    /// Waits until more than these bytes may be written.
    fn pass(&mut self, written_bytes: u64) -> Go {
        let part_until = self.part_since + PART_TIME;
        loop {
            let now = Instant::now();
            let heard = if now < part_until {
                self.filled.recv_timeout(part_until - now)
            } else if written_bytes >= self.allowed_bytes {
                self.filled.recv().map_err(RecvTimeoutError::from)
            } else {
                self.part_since = now;
                return Go::On;
            };
            match heard {
                Ok(filled_bytes) => self.allow(filled_bytes),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Go::Stop,
            }
        }
    }

    /// A spare begins with its segment's first eighth and is whole at five eighths.
    fn allow(&mut self, filled_bytes: u64) {
        let since_begun = filled_bytes.saturating_sub(begins_at(self.segment_bytes));
        self.allowed_bytes = self.allowed_bytes.max(2 * since_begun + PART_BYTES);
    }
}

/// Bytes of a segment at which its spare is begun: a store of a few timers does not take twice the
/// disk.
pub(super) const fn begins_at(segment_bytes: u64) -> u64 {
    segment_bytes / 8
}

/// By how much a segment grows until [`SparePace`] hears of it.
pub(crate) const PACED_BYTES: u64 = PART_BYTES / 2;

/// Writes the spare, unless there is one of this length. Gives up when its pace says that nobody will
/// need it.
pub(crate) fn write_spare(
    disk: &dyn Disk,
    naming: &Naming,
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
        Ok(Go::On) => {}
        Ok(Go::Stop) => return disk.remove(SPARE_TEMPORARY),
        Err(error) => {
            drop(disk.remove(SPARE_TEMPORARY));
            return Err(error);
        }
    }
    disk.rename(SPARE_TEMPORARY, SPARE)?;
    sync_names(disk, naming)
}

/// Prepares a segment with this header under [`NEXT_TEMPORARY`], durable: the spare, a recycled segment,
/// or a new file where neither can be had. It gets its name last, so that a roll that fails before
/// leaves no segment behind.
pub(super) fn prepare(disk: &dyn Disk, header: &segment::Header) -> disk::Result<()> {
    let taken = take_spare(disk, header.length)
        .and_then(|is_taken| Ok(is_taken || take_recycled(disk, header.length, NEXT_TEMPORARY)?));
    let is_taken = taken.unwrap_or_else(|error| {
        tracing::warn!(%error, "a spare journal segment cannot be used; a new file is made");
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
        // After a failed sync the file is not to be trusted; the next try makes another.
        drop(disk.remove(NEXT_TEMPORARY));
    })
}

/// Takes the spare out of everybody's reach, since another thread puts it there; returns whether there
/// is one of this length.
fn take_spare(disk: &dyn Disk, segment_bytes: u64) -> disk::Result<bool> {
    let is_there = spare_bytes(disk)? == segment_bytes;
    if is_there {
        disk.rename(SPARE, NEXT_TEMPORARY)?;
    }
    Ok(is_there)
}

/// Keeps a segment that nothing needs to be a spare one day, if it has the length that segments have,
/// no backup shares it and not too many wait already; answers whether it did. What it held is no
/// frame of the journal any more: its lsns lie behind.
pub(crate) fn recycle(
    disk: &dyn Disk,
    naming: &Naming,
    name: &str,
    segment_bytes: u64,
) -> disk::Result<bool> {
    let is_full = recycled(disk)?.len() >= RECYCLED_MAX;
    if is_full || length_of(disk, name)? != segment_bytes || disk.is_shared(name)? {
        return Ok(false);
    }
    // It can be a spare when its old name is gone for good: a journal that takes it overwrites its
    // header, and a power loss must not bring that back under the old name.
    disk.rename(name, RECYCLED_TEMPORARY)?;
    sync_names(disk, naming)?;
    let waiting = name.strip_suffix(".log").unwrap_or(name);
    disk.rename(RECYCLED_TEMPORARY, &format!("{waiting}{RECYCLED_SUFFIX}"))?;
    Ok(true)
}

/// Names of segments that wait to be a spare.
fn recycled(disk: &dyn Disk) -> disk::Result<Vec<String>> {
    let names = disk.list(DIR)?.into_iter().filter(|name| name.ends_with(RECYCLED_SUFFIX));
    Ok(names.map(|name| format!("{DIR}/{name}")).collect())
}

/// Gives a recycled segment of this length another name, if one waits. Two threads may want the
/// same: who comes second takes the next.
fn take_recycled(disk: &dyn Disk, segment_bytes: u64, to: &str) -> disk::Result<bool> {
    for name in recycled(disk)? {
        let taken = if length_of(disk, &name)? == segment_bytes {
            disk.rename(&name, to).map(|()| true)
        } else {
            // Segments have another length now.
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

/// Length of the spare; 0 when there is none.
fn spare_bytes(disk: &dyn Disk) -> disk::Result<u64> {
    length_of(disk, SPARE)
}

/// Length of a file; 0 when there is none.
fn length_of(disk: &dyn Disk, name: &str) -> disk::Result<u64> {
    match disk.open(name) {
        Ok(file) => file.len(),
        Err(error) if error.is_not_found() => Ok(0),
        Err(error) => Err(error),
    }
}

/// Makes a file whose room is reserved and syncs it.
fn reserve(disk: &dyn Disk, name: &str, segment_bytes: u64) -> disk::Result<()> {
    let file = create(disk, name)?;
    file.reserve(segment_bytes).and_then(|()| file.sync_all()).inspect_err(|_| {
        // Half a segment is of no use; leaving it would keep the disk full.
        drop(disk.remove(name));
    })
}

fn create(disk: &dyn Disk, name: &str) -> disk::Result<Arc<dyn File>> {
    match disk.remove(name) {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    disk.create(name)
}

/// Fills a file with zeros and syncs it, at the end and in between.
fn write_zeros(disk: &dyn Disk, segment_bytes: u64, pace: &mut SparePace) -> disk::Result<Go> {
    let file = disk.open(SPARE_TEMPORARY)?;
    let part = usize::try_from(segment_bytes.min(PART_BYTES)).expect("a part fits memory");
    let zeros = vec![0; part];
    let mut offset = 0;
    while offset < segment_bytes {
        if pace.pass(offset) == Go::Stop {
            return Ok(Go::Stop);
        }
        let count = (segment_bytes - offset).min(PART_BYTES);
        let part = usize::try_from(count).expect("at most a part");
        file.write_at(offset, &zeros[..part])?;
        file.sync_data()?;
        offset += count;
    }
    file.sync_all()?;
    Ok(Go::On)
}

#[cfg(test)]
mod tests;
