//! Empties the page cache of a store's files, for cold measurements.
//!
//! Dirty pages are synced first; then `posix_fadvise` with `DONTNEED` drops the clean pages of each
//! file. The system may ignore this advice.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rustix::fs::{Advice, fadvise};

/// Syncs every file below a folder and drops it from the page cache.
pub(crate) fn empty(folder: &Path) -> Result<()> {
    for path in files(folder)? {
        // The store may remove a file at any time.
        let Ok(file) = fs::File::open(&path) else { continue };
        let failed = || format!("cannot empty the page cache of {}", path.display());
        file.sync_all().with_context(failed)?;
        fadvise(&file, 0, None, Advice::DontNeed).with_context(failed)?;
    }
    Ok(())
}

/// Returns the files below a folder.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let failed = || format!("cannot list {}", folder.display());
    for entry in fs::read_dir(folder).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if path.is_dir() {
            found.append(&mut files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}
