//! The page cache of a store's files: it is emptied before a cold row, and plain reading is the
//! baseline.
//!
//! Dirty pages are synced first; then `posix_fadvise` with `DONTNEED` drops the clean pages of each
//! file. The system may ignore this advice, and a process that maps or writes the files brings
//! pages back. Therefore rows show how many bytes came from the disk.

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

/// Cost of reading every file.
#[derive(Debug)]
pub(crate) struct PlainRead {
    /// Wall-clock time.
    pub(crate) elapsed: Duration,
    /// Bytes read.
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

/// Reads every file below a folder from front to end: the baseline of work that needs all bytes.
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

/// Returns the files below a folder, in order of their names.
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
    fn files_are_intact_after_a_cache_drop() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/a"), vec![1; 3_000_000]).unwrap();
        fs::write(folder.path().join("b"), [2; 5]).unwrap();
        drop_cached(folder.path()).unwrap();
        assert_eq!(read_plainly(folder.path()).unwrap().bytes, 3_000_005);
    }
}
