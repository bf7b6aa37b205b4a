//! Restores a backup into a data directory that a server can open.

use std::{fs, io, path::Path, sync::Arc};

use crate::{
    check::{self, Progress, Report},
    disk::{self, Disk, Operation, RealDisk},
    engine::background_work::Pace,
    manifest::{self, Manifest},
    open::OpenError,
};

use super::{BackupError, BackupProgress, BackupReport, DIRS, Target, copy::Copying, publish};

/// Suffixes of the files that make up a store.
const SUFFIXES: [&str; 3] = [".log", ".run", ".ckp"];

/// Copies a backup into a directory that is empty or missing, and checks the copy. The copy begins a new
/// epoch, and its first start pauses every namespace. The backup stays as it is.
///
/// # Errors
/// Returns the first reason found; nothing is left in the directory.
pub fn restore(
    from: &Path,
    to: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<BackupReport, BackupError> {
    let source = RealDisk::open_existing(from)?;
    check_dirs(from)?;
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
        let throttle = Pace::Unlimited.throttle();
        let mut report_progress = |BackupProgress { bytes_done, bytes_total }| {
            progress(Progress { what: "restoring", bytes_done, bytes_total });
        };
        let mut copying = Copying::new(&source, disk, throttle, &|| false, &mut report_progress);
        copying.expect(names.iter())?;
        for name in &names {
            copying.copy(name)?;
        }
        copying.copy_keys()?;
        let (files, bytes, copied_bytes) = copying.end();
        let copy = Arc::new(RealDisk::open_existing(to)?);
        let restored = manifest::restored_tail(&source)?;
        let report = check::check_copy(copy, manifest, restored, progress)?;
        if let Some(what) = damage(&report) {
            return Err(BackupError::Damaged { path: from.to_owned(), what });
        }
        manifest.begin_epoch();
        // A data directory that a kill has left is no backup, and has no closing frame.
        publish(disk, &manifest, restored.unwrap_or(report.tail))?;
        Ok(BackupReport { path: to.to_owned(), files, bytes, copied_bytes, lsn: None })
    })
}

/// Refuses a backup whose directories are symbolic links, or no directories.
fn check_dirs(from: &Path) -> Result<(), BackupError> {
    for dir in DIRS {
        let path = from.join(dir);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => {
                let (operation, name) = (Operation::List, path.display().to_string());
                return Err(match found {
                    Ok(_) => disk::Error::NotPlain { operation, name }.into(),
                    Err(source) => disk::Error::Io { operation, name, source }.into(),
                });
            }
        }
    }
    Ok(())
}

/// Returns the first fault of a copy, and the number of the others.
fn damage(report: &Report) -> Option<String> {
    let first = report.findings.first()?;
    let others = report.findings.len() as u64 - 1 + report.findings_left_out;
    let more = if others == 0 { String::new() } else { format!(" (and {others} more)") };
    let (file, offset, what) = (&first.file, first.offset, &first.what);
    Some(format!("{file} at byte {offset}: {what}{more}"))
}
