//! Brings files from a store into a directory: by hard links where the file system can, by copies
//! elsewhere.

use duly_store::query::DiskRoom;

use crate::{
    access_file,
    disk::{self, Disk, RealDisk, fresh::Throttle},
    numbered::SORTED_RUNS,
    options::Reserve,
};

use super::{BackupError, BackupProgress};

/// Bytes copied at once. Tests copy small files, but still in several steps.
const CHUNK_BYTES: usize = if cfg!(test) { 16 << 10 } else { 1 << 20 };

/// Copying under way.
pub(super) struct Copying<'a> {
    source: &'a dyn Disk,
    target: &'a RealDisk,
    throttle: Throttle,
    is_closed: &'a dyn Fn() -> bool,
    progress: &'a mut dyn FnMut(BackupProgress),
    so_far: BackupProgress,
    files: u64,
    copied_bytes: u64,
    /// Space that stays free in the target, and the bytes that are still to be copied.
    kept: Option<Reserve>,
    left_bytes: u64,
}

impl<'a> Copying<'a> {
    pub(super) fn new(
        source: &'a dyn Disk,
        target: &'a RealDisk,
        throttle: Throttle,
        is_closed: &'a dyn Fn() -> bool,
        progress: &'a mut dyn FnMut(BackupProgress),
    ) -> Self {
        let so_far = BackupProgress { bytes_done: 0, bytes_total: 0 };
        Self {
            source,
            target,
            throttle,
            is_closed,
            progress,
            so_far,
            files: 0,
            copied_bytes: 0,
            kept: None,
            left_bytes: 0,
        }
    }

    /// Keeps this reserve free in the target while these files are copied. Checks it at once and before
    /// each chunk.
    pub(super) fn keep<'n>(
        &mut self,
        reserve: Reserve,
        names: impl Iterator<Item = &'n String>,
    ) -> Result<(), BackupError> {
        self.kept = Some(reserve);
        let lengths = names.map(|name| self.source.open(name)?.len());
        self.left_bytes = lengths.sum::<disk::Result<u64>>()?;
        self.check_space()
    }

    fn check_space(&self) -> Result<(), BackupError> {
        let Some(reserve) = self.kept else {
            return Ok(());
        };
        let DiskRoom { free_bytes, reserve_bytes, inodes } = reserve.of(self.target.space()?);
        let has_inodes = inodes.is_none_or(|inodes| inodes.free >= inodes.reserve);
        let needed_bytes = self.left_bytes;
        if has_inodes && free_bytes >= reserve_bytes.saturating_add(needed_bytes) {
            return Ok(());
        }
        let path = self.target.describe().into();
        Err(BackupError::NoSpace { path, needed_bytes, free_bytes, reserve_bytes })
    }

    /// Adds the lengths of these files to the total.
    pub(super) fn expect<'n>(
        &mut self,
        names: impl Iterator<Item = &'n String>,
    ) -> disk::Result<()> {
        let lengths = names.map(|name| self.source.open(name)?.len());
        self.so_far.bytes_total = lengths.sum::<disk::Result<u64>>()?;
        Ok(())
    }

    /// Links a file that is never written again. Returns `false` if it cannot be linked.
    pub(super) fn link(&mut self, name: &str) -> Result<bool, BackupError> {
        if (self.is_closed)() {
            return Err(BackupError::Closed);
        }
        let paths = self.source.real_path(name).zip(self.target.real_path(name));
        let is_linked = paths.is_some_and(|(from, to)| std::fs::hard_link(from, to).is_ok());
        if is_linked {
            self.files += 1;
            let bytes = self.target.open(name)?.len()?;
            self.report_progress(bytes);
        }
        Ok(is_linked)
    }

    /// Copies a whole file.
    pub(super) fn copy(&mut self, name: &str) -> Result<(), BackupError> {
        let length = self.source.open(name)?.len()?;
        self.copy_up_to(name, length, &[])
    }

    /// Copies a file up to byte `end`, then writes `behind`; the rest of its length reads as zeros.
    pub(super) fn copy_up_to(
        &mut self,
        name: &str,
        end: u64,
        behind: &[u8],
    ) -> Result<(), BackupError> {
        let from = self.source.open(name)?;
        let to = self.target.create(name)?;
        let length = from.len()?;
        // A hole stays a hole. A segment needs its space allocated: it may become a spare later.
        let may_have_holes = name.starts_with(SORTED_RUNS.dir);
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut at = 0;
        while at < end {
            if (self.is_closed)() {
                return Err(BackupError::Closed);
            }
            self.check_space()?;
            let count = (end - at).min(CHUNK_BYTES as u64);
            let part = &mut chunk[..usize::try_from(count).expect("at most a chunk")];
            from.read_exact_at(at, part)?;
            if !(may_have_holes && part.iter().all(|byte| *byte == 0)) {
                to.write_at(at, part)?;
            }
            (self.throttle)(count);
            at += count;
            self.copied_bytes += count;
            self.left_bytes = self.left_bytes.saturating_sub(count);
            self.report_progress(count);
        }
        to.write_at(end, behind)?;
        to.set_len(length)?;
        to.sync_all()?;
        self.files += 1;
        self.left_bytes = self.left_bytes.saturating_sub(length - end);
        self.report_progress(length - end);
        Ok(())
    }

    /// Copies the keys, if there are any.
    pub(super) fn copy_keys(&mut self) -> Result<(), BackupError> {
        if let Some(bytes) = access_file::copy(self.source, self.target)? {
            self.files += 2;
            self.copied_bytes += bytes;
            self.so_far.bytes_total += bytes;
            self.report_progress(bytes);
        }
        Ok(())
    }

    fn report_progress(&mut self, bytes: u64) {
        self.so_far.bytes_done += bytes;
        (self.progress)(self.so_far);
    }

    /// Returns the number of files, their bytes, and the bytes that were copied.
    pub(super) fn end(self) -> (u64, u64, u64) {
        (self.files, self.so_far.bytes_done, self.copied_bytes)
    }
}

#[cfg(test)]
mod tests;
