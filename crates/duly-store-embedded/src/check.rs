//! Offline check of a data directory: every checkpoint, the outline of every run, and the journal that
//! a start would read back. Changes nothing. Records that stand in runs and in older segments are
//! checked when they are read.

use std::{fmt, path::Path, sync::Arc};

use crate::{
    checkpoint,
    disk::{Disk, RealDisk},
    format::record::Record,
    journal::recovery::{self, Progress, ReplayPoint},
    manifest::Manifest,
    open::OpenError,
    runs,
};

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The directory.
    pub location: String,
    /// Format of the directory.
    pub format: u32,
    /// How often it has been opened.
    pub epoch: u64,
    /// Journal segments.
    pub segments: usize,
    /// Frames read.
    pub frames: u64,
    /// Records read, by kind.
    pub records: Counts,
    /// Unacknowledged bytes at the end that the next opening cuts off.
    pub torn_tail: bool,
}

/// Records by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Whole timers.
    pub pending: u64,
    /// Dead letters.
    pub dead: u64,
    /// Ends of timers.
    pub ended: u64,
    /// Leases.
    pub leases: u64,
    /// Everything else.
    pub other: u64,
}

impl Report {
    /// Whether nothing is wrong. A torn tail is what a crash leaves; it is not wrong.
    pub const fn is_clean(&self) -> bool {
        true
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "data directory  {}", self.location)?;
        writeln!(f, "format          {}, epoch {}", self.format, self.epoch)?;
        writeln!(f, "journal         {} segments, {} frames", self.segments, self.frames)?;
        let c = &self.records;
        writeln!(
            f,
            "records         {} timers, {} dead letters, {} ends, {} leases, {} other",
            c.pending, c.dead, c.ended, c.leases, c.other
        )?;
        if self.torn_tail {
            writeln!(f, "tail            unacknowledged bytes, cut off at the next start")?;
        }
        write!(f, "verdict         clean: everything that a start reads holds")
    }
}

/// Reads what a start would read, and the outline of the rest. The directory must not be open in a running server.
///
/// # Errors
/// What is wrong, with file and byte; or why it could not be read.
pub fn check(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Report, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_existing(path)?);
    let _lock = disk.lock()?;
    check_disk(disk.as_ref(), progress)
}

/// As [`check`], on any disk; the caller holds its lock.
///
/// # Errors
/// As [`check`].
pub fn check_disk(
    disk: &dyn Disk,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, OpenError> {
    let manifest = Manifest::read(disk)?.ok_or_else(|| OpenError::NoStore(disk.describe()))?;
    let mut counts = Counts::default();
    let mut each = |_, decoded: crate::format::record::Decoded| {
        let count = match decoded.record {
            Record::Pending(..) => &mut counts.pending,
            Record::Dead(..) => &mut counts.dead,
            Record::Ended { .. } => &mut counts.ended,
            Record::Lease(_) => &mut counts.leases,
            _ => &mut counts.other,
        };
        *count += 1;
        Ok(())
    };
    // Where there are checkpoints the journal's oldest segments may have gone: what a start would
    // read is the newest of them and the journal behind it.
    let from = check_checkpoints(disk, &manifest)?;
    for id in runs::FILES.list(disk)? {
        runs::open(disk, id, &manifest)?;
    }
    let found = recovery::recover_records(disk, &manifest, from, &mut each, progress)?;
    Ok(Report {
        location: disk.describe(),
        format: manifest.version,
        epoch: manifest.epoch,
        segments: found.segments.len(),
        frames: found.frames,
        records: counts,
        torn_tail: found.torn,
    })
}

/// Reads every checkpoint whole; answers where the replay of the newest begins.
fn check_checkpoints(
    disk: &dyn Disk,
    manifest: &Manifest,
) -> Result<Option<ReplayPoint>, OpenError> {
    let mut newest = None;
    for number in checkpoint::list(disk)? {
        let mut reader = checkpoint::Reader::open(disk, number, manifest)?;
        while reader.next()?.is_some() {}
        newest = newest.or(Some(reader.replay_point()?));
    }
    Ok(newest)
}

#[cfg(test)]
mod tests;
