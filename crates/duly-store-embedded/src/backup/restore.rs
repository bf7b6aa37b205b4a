//! From a backup to a data directory that a server can open.

use std::path::Path;

use crate::{
    disk::{Disk, RealDisk},
    manifest::Manifest,
    open::OpenError,
};

use super::{
    BackupError, BackupProgress, BackupReport, DIRS, Target, UNHURRIED, copy::Copying, publish,
};

/// Suffixes of the files that make up a store.
const SUFFIXES: [&str; 3] = [".log", ".run", ".ckp"];

/// Copies a backup into a directory that is empty or missing. The copy begins a new epoch, and its
/// first opening pauses every namespace. The backup stays as it is.
///
/// # Errors
/// One clear reason; nothing is left in the directory.
pub fn restore(
    from: &Path,
    to: &Path,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<BackupReport, BackupError> {
    let source = RealDisk::open_existing(from)?;
    let _lock = source.lock()?;
    let manifest = Manifest::read(&source)?;
    let mut manifest = manifest.ok_or_else(|| OpenError::NoStore(source.describe()))?;
    let target = Target::check(to, &source)?;
    let mut names = Vec::new();
    for dir in DIRS {
        let listed = source.list(dir)?.into_iter();
        let whole = listed.filter(|name| SUFFIXES.iter().any(|suffix| name.ends_with(suffix)));
        names.extend(whole.map(|name| format!("{dir}/{name}")));
    }
    target.fill(|disk| {
        let throttle = UNHURRIED.throttle();
        let mut copying = Copying::new(&source, disk, throttle, &|| false, progress);
        copying.expect(names.iter())?;
        for name in &names {
            copying.copy(name)?;
        }
        let (files, bytes, copied_bytes) = copying.end();
        manifest.begin_epoch();
        publish(disk, &manifest)?;
        Ok(BackupReport { path: to.to_owned(), files, bytes, copied_bytes, lsn: None })
    })
}
