//! Baseline of the disk: no engine that syncs each commit can be faster.
//!
//! Each write appends to a file that was filled before, so neither the file's length nor its
//! extents change. An `fdatasync` follows each write. A journal of pre-written segments does the
//! same.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::{
    error::{Error, Result},
    latency::Latencies,
};

/// Length of the file. When it is full, writing continues at its beginning.
const FILE_BYTES: usize = 64 << 20;
/// Bytes of one write while the file is filled.
const FILL_BYTES: usize = 1 << 20;

/// Result of the disk baseline.
#[derive(Debug)]
pub(crate) struct Floor {
    /// Duration of each write with its sync.
    pub(crate) latencies: Latencies,
    /// Duration of all writes.
    pub(crate) elapsed: Duration,
    /// Bytes of all writes.
    pub(crate) bytes: u64,
}

/// Writes and syncs `commits` times `commit_bytes` bytes in `folder`.
pub(crate) fn measure(folder: &Path, commit_bytes: usize, commits: u32) -> Result<Floor> {
    let mut ring = Ring::make_in(folder)?;
    let mut latencies = Latencies::new();
    let began = Instant::now();
    for _ in 0..commits {
        let one = Instant::now();
        ring.commit(commit_bytes)?;
        latencies.record(one.elapsed());
    }
    let bytes = u64::from(commits) * commit_bytes as u64;
    Ok(Floor { latencies, elapsed: began.elapsed(), bytes })
}

/// Cost of writing into the page cache, without a sync.
#[derive(Debug)]
pub(crate) struct PageCache {
    pub(crate) bytes: u64,
    /// Time for pages that are new to the file. A virtual machine may have to ask its host for each
    /// of them; then this is many times `known_pages`.
    pub(crate) new_pages: Duration,
    /// Time for pages that the file already has.
    pub(crate) known_pages: Duration,
}

/// Writes a new file in `folder`, then overwrites it.
pub(crate) fn page_cache(folder: &Path) -> Result<PageCache> {
    let path = folder.join("pages");
    let measured = write_twice(&path).map_err(Error::io("write", &path));
    fs::remove_file(&path).ok();
    measured
}

fn write_twice(path: &Path) -> std::io::Result<PageCache> {
    let file = File::create(path)?;
    let pattern = vec![1; FILL_BYTES];
    let write = || {
        let began = Instant::now();
        for offset in (0..FILE_BYTES).step_by(FILL_BYTES) {
            file.write_all_at(&pattern, offset as u64)?;
        }
        Ok::<_, std::io::Error>(began.elapsed())
    };
    Ok(PageCache { bytes: FILE_BYTES as u64, new_pages: write()?, known_pages: write()? })
}

/// A file that was filled before and is overwritten from front to end, in a loop. The drop of the
/// owner removes it.
#[derive(Debug)]
pub(crate) struct Ring {
    file: File,
    path: PathBuf,
    offset: usize,
    /// Bytes to write, cut to length.
    pattern: Vec<u8>,
}

impl Ring {
    /// Makes and fills a file in `folder`.
    pub(crate) fn make_in(folder: &Path) -> Result<Self> {
        let path = folder.join("floor");
        let file = filled(&path).map_err(Error::io("fill", &path))?;
        let pattern = (0..=u8::MAX).cycle().take(FILL_BYTES).collect();
        Ok(Self { file, path, offset: 0, pattern })
    }

    /// Writes `bytes` bytes and syncs them.
    pub(crate) fn commit(&mut self, bytes: usize) -> Result<()> {
        self.write_and_sync(bytes).map_err(Error::io("write", &self.path))
    }

    fn write_and_sync(&mut self, bytes: usize) -> std::io::Result<()> {
        let mut rest = bytes;
        while rest > 0 {
            if self.offset == FILE_BYTES {
                self.offset = 0;
            }
            let piece = rest.min(FILL_BYTES).min(FILE_BYTES - self.offset);
            self.file.write_all_at(&self.pattern[..piece], self.offset as u64)?;
            self.offset += piece;
            rest -= piece;
        }
        self.file.sync_data()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // An error is harmless: the run removes the whole folder at its end.
        fs::remove_file(&self.path).ok();
    }
}

fn filled(path: &Path) -> std::io::Result<File> {
    let mut file = File::create(path)?;
    for _ in 0..FILE_BYTES / FILL_BYTES {
        file.write_all(&[0; FILL_BYTES])?;
    }
    file.sync_all()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_written_twice_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let pages = page_cache(folder.path()).unwrap();
        assert_eq!(pages.bytes, FILE_BYTES as u64);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn every_commit_is_counted_and_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let floor = measure(folder.path(), 40 << 20, 3).unwrap();
        assert_eq!((floor.latencies.count(), floor.bytes), (3, 120 << 20));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
