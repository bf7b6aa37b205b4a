//! The page cache of a store's files: emptied before a cold row, and what plain reading costs.
//!
//! A file's clean pages go by advice (`posix_fadvise`, `DONTNEED`); what is dirty is synced first.
//! The system may ignore it, and a process that maps or writes the files brings pages back: rows
//! show how many bytes came from the disk.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{Advice, fadvise};

use crate::error::{Error, Result};

/// Bytes of one plain read.
const READ_BYTES: usize = 1 << 20;

/// What reading every file took.
#[derive(Debug)]
pub(crate) struct PlainRead {
    /// By the clock on the wall.
    pub(crate) elapsed: Duration,
    /// Bytes that were read.
    pub(crate) bytes: u64,
}

/// Syncs every file below a folder and drops it from the page cache.
pub(crate) fn drop_cached(folder: &Path) -> Result<()> {
    for path in files(folder)? {
        // The engine may remove a file between the listing and here.
        let Some(file) = open(&path)? else { continue };
        file.sync_all().map_err(Error::io("sync", &path))?;
        fadvise(&file, 0, None, Advice::DontNeed)
            .map_err(|error| Error::io("drop from the page cache", &path)(error.into()))?;
    }
    Ok(())
}

/// Reads every file below a folder from front to end: the floor of what needs all of it.
pub(crate) fn read_plainly(folder: &Path) -> Result<PlainRead> {
    let mut buffer = vec![0; READ_BYTES];
    let (began, mut bytes) = (Instant::now(), 0);
    for path in files(folder)? {
        let Some(mut file) = open(&path)? else { continue };
        loop {
            let read = file.read(&mut buffer).map_err(Error::io("read", &path))?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
        }
    }
    Ok(PlainRead { elapsed: began.elapsed(), bytes })
}

fn open(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("open", path)(error)),
    }
}

/// Files below a folder, in order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        if path.is_dir() {
            found.append(&mut files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_is_read_again_whole() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/a"), vec![1; 3_000_000]).unwrap();
        fs::write(folder.path().join("b"), [2; 5]).unwrap();
        drop_cached(folder.path()).unwrap();
        assert_eq!(read_plainly(folder.path()).unwrap().bytes, 3_000_005);
    }
}
