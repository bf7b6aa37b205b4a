//! Temporary folder of a run, on the disk that is measured.
//!
//! It is removed when the run ends, with or without an error. When the process gets a signal, the
//! program's signal thread calls [`remove_on_interrupt`].

use std::{
    fs,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use rustix::fs::statvfs;

use crate::error::{Error, Result};

/// Folders that exist now.
static PRESENT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Attempts to remove a folder into which other threads may still write.
const TRIES: u32 = 20;

/// A new folder, removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    /// Creates a folder in `parent`.
    pub(crate) fn make_in(parent: &Path) -> Result<Self> {
        fs::create_dir_all(parent).map_err(Error::io("make", parent))?;
        let folder = tempfile::Builder::new()
            .prefix("engine-")
            .tempdir_in(parent)
            .map_err(Error::io("make a folder in", parent))?;
        PRESENT.lock().push(folder.path().to_owned());
        Ok(Self(folder))
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        PRESENT.lock().retain(|path| path != self.0.path());
    }
}

/// Removes the folders of all runs in progress, for an interrupted process.
pub fn remove_on_interrupt() {
    for path in &*PRESENT.lock() {
        for _ in 0..TRIES {
            // A store that still runs may create a file in a folder during its removal.
            if fs::remove_dir_all(path).is_ok() || !path.exists() {
                break;
            }
        }
    }
}

/// Returns the free bytes of the disk that a folder is on, and its total bytes.
pub(crate) fn free_and_all_bytes(folder: &Path) -> Result<(u64, u64)> {
    let disk = statvfs(folder).map_err(|error| Error::io("look at", folder)(error.into()))?;
    Ok((disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_at_the_end() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::make_in(parent.path()).unwrap();
        fs::write(scratch.path().join("file"), [1; 10]).unwrap();
        let (free, all) = free_and_all_bytes(scratch.path()).unwrap();
        assert!(free <= all && all > 0, "{free} of {all}");
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
        assert!(!PRESENT.lock().contains(&path));
    }
}
