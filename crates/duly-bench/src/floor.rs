//! The disk alone: what no engine that syncs each commit can be faster than.
//!
//! Each write appends to a file that was filled before, so that neither the file's length nor its
//! extents change, and is followed by `fdatasync`: what a journal of pre-written segments does.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    error::{Error, Result},
    latency::Latencies,
};

/// Length of the file; writing goes on at its beginning when it is full.
const FILE_BYTES: usize = 64 << 20;
/// Bytes written at once when it is filled.
const FILL_BYTES: usize = 1 << 20;

/// What the disk did.
#[derive(Debug)]
pub(crate) struct Floor {
    /// How long each write with its sync took.
    pub(crate) latencies: Latencies,
    /// How long all of them took.
    pub(crate) elapsed: Duration,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
}

/// Writes and syncs `commits` times `commit_bytes` bytes in `folder`.
pub(crate) fn measure(folder: &Path, commit_bytes: usize, commits: u32) -> Result<Floor> {
    let path = folder.join("floor");
    let measured = write_and_sync(&path, commit_bytes, commits).map_err(Error::io("write", &path));
    fs::remove_file(&path).map_err(Error::io("remove", &path))?;
    measured
}

fn write_and_sync(path: &Path, commit_bytes: usize, commits: u32) -> std::io::Result<Floor> {
    let mut file = File::create(path)?;
    for _ in 0..FILE_BYTES / FILL_BYTES {
        file.write_all(&[0; FILL_BYTES])?;
    }
    file.sync_all()?;
    let commit: Vec<u8> = (0..=u8::MAX).cycle().take(commit_bytes).collect();
    let mut latencies = Latencies::new();
    let (mut offset, mut bytes) = (0, 0);
    let began = Instant::now();
    for _ in 0..commits {
        if offset + commit_bytes > FILE_BYTES {
            offset = 0;
        }
        let one = Instant::now();
        file.write_all_at(&commit, offset as u64)?;
        file.sync_data()?;
        latencies.record(one.elapsed());
        offset += commit_bytes;
        bytes += commit_bytes as u64;
    }
    Ok(Floor { latencies, elapsed: began.elapsed(), bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_commit_is_counted_and_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        let floor = measure(folder.path(), 40 << 20, 3).unwrap();
        assert_eq!((floor.latencies.count(), floor.bytes), (3, 120 << 20));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
