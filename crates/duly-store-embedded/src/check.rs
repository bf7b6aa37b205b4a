//! Offline check of a data directory: reads everything, changes nothing.
//!
//! ```text
//!   manifest ─► checkpoints, whole ─► state (as a start loads it) ─► runs, segments, whole
//!                                       │                                  │ each record
//!                                       └──── is it pointed at? ◄──────────┘
//! ```
//!
//! It reads every byte that has a checksum once, and decodes every record. Then each entry of the state
//! must have met its record. Damage is noted, and the check continues behind it.
//!
//! `duly store check` calls it, on a directory that no server has open, or on a backup.

use std::{path::Path, sync::Arc};

use duly_core::env::Clock;

use crate::{
    access_file, audit_file,
    clock::SystemClock,
    disk::{self, Disk, RealDisk},
    engine::invariants::at_rest::{StateAtRest, Stray},
    format,
    manifest::{self, Manifest},
    open::{OpenError, Tail},
};

mod files;
mod report;

pub use crate::{engine::invariants::at_rest::Holding, open::OpenProgress as Progress};
pub use report::{Counts, FilesOf, Finding, LeftOver, Report};

/// Reads a whole data directory. No running server may have it open.
///
/// # Errors
/// When the directory could not be read: there is no store, a server has it open, a newer Duly wrote it,
/// or too many files are open. Damage is not an error but a finding.
pub fn check(path: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Report, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_existing(path)?);
    let _lock = disk.lock()?;
    check_disk(disk, Arc::new(SystemClock), progress)
}

/// Checks as [`check`] does, on any disk; the caller holds its lock. The clock decides which tombstones
/// have ended.
///
/// # Errors
/// As [`check`].
pub fn check_disk(
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, OpenError> {
    let mut report = Report { location: disk.describe(), ..Report::default() };
    let manifest = match Manifest::read_both(disk.as_ref()) {
        Ok(kept) => {
            let kept = kept.ok_or_else(|| OpenError::NoStore(disk.describe()))?;
            if let Some((file, what)) = kept.fault {
                let means = "the other file of the manifest is whole: nothing is lost, and the \
                             next start writes both; check the disk";
                report.find(Finding { file: file.to_owned(), offset: 0, what, means });
            }
            kept.manifest
        }
        Err(OpenError::Damaged { file, offset, what }) => {
            let means = "without the manifest nothing else can be checked: restore a backup";
            report.find(Finding { file, offset, what, means });
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    let restored = manifest::restored_tail(disk.as_ref())?;
    if manifest::is_mark_damaged(disk.as_ref())? {
        let (file, what) = (manifest::RESTORED.to_owned(), "no release writes this".to_owned());
        let means =
            "the journal must end with a closing frame; nothing else is read from this file";
        report.find(Finding { file, offset: 0, what, means });
    }
    check_files(disk, (manifest, restored), report, clock, progress)
}

/// Checks the files of a copy that has no manifest of its own yet. `restored` is the end of the journal if its source is
/// a backup.
pub(crate) fn check_copy(
    disk: Arc<dyn Disk>,
    manifest: Manifest,
    restored: Option<Tail>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, OpenError> {
    let report = Report { location: disk.describe(), ..Report::default() };
    check_files(disk, (manifest, restored), report, Arc::new(SystemClock), progress)
}

fn check_files(
    disk: Arc<dyn Disk>,
    (manifest, restored): (Manifest, Option<Tail>),
    mut report: Report,
    clock: Arc<dyn Clock>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, OpenError> {
    (report.format, report.epoch) = (manifest.version, manifest.epoch);
    report.is_backup = restored.is_some();
    let mut check =
        Check { disk, manifest, restored, state: None, report, progress, done: 0, total: 0 };
    check.checkpoints()?;
    check.load(clock)?;
    check.data_files()?;
    check.entries();
    check.access()?;
    check.names()?;
    check.end_of_backup();
    Ok(check.report)
}

/// A check under way.
struct Check<'a> {
    disk: Arc<dyn Disk>,
    manifest: Manifest,
    /// The end that the journal must have; `None` if the directory is no backup.
    restored: Option<Tail>,
    /// `None` if the state cannot be loaded.
    state: Option<StateAtRest>,
    report: Report,
    progress: &'a mut dyn FnMut(Progress),
    done: u64,
    total: u64,
}

impl Check<'_> {
    /// Loads the state as a start does.
    fn load(&mut self, clock: Arc<dyn Clock>) -> Result<(), OpenError> {
        let disk = Arc::clone(&self.disk);
        match StateAtRest::load(disk, &self.manifest, clock, self.progress) {
            Ok(state) => {
                self.report.tail = state.found.tail;
                self.report.checkpoint = state.checkpoint();
                self.report.namespaces = state.holdings();
                // The first start of a restored store pauses every namespace.
                for namespace in &mut self.report.namespaces {
                    namespace.paused |= self.report.is_backup;
                }
                self.state = Some(state);
                Ok(())
            }
            Err(error) => self.note(error, "the store does not open: restore a backup"),
        }
    }

    /// Checks that every entry has met its record, and that the counts of each namespace are right.
    fn entries(&mut self) {
        let Some(state) = &self.state else {
            return;
        };
        for Stray { file, offset, what } in state.strays() {
            // This finding says more than one of a damaged record at the same byte, and replaces it.
            self.report.findings.retain(|known| known.file != file || known.offset != offset);
            let means = "it was acknowledged and is lost; restore a backup to get it back";
            self.report.find(Finding { file, offset, what, means });
        }
        for what in state.broken_invariants() {
            let file = manifest::NAME.to_owned();
            let means = "this is an error in Duly: please report it";
            self.report.find(Finding { file, offset: 0, what, means });
        }
    }

    /// Checks the files of keys and of the audit log.
    fn access(&mut self) -> Result<(), OpenError> {
        let (faults, has_whole) = access_file::faults(self.disk.as_ref(), &self.manifest)?;
        let means = if has_whole {
            "the other file of the keys is whole: nothing is lost, and the next start writes both; check the disk"
        } else {
            "no caller is admitted, and timers are delivered: copy KEYS from a backup, remove KEYS.copy and run `duly key \
             confirm --data DIR`; or remove both and run `duly key create --admin --data DIR`, which loses all other keys \
             and all tenants"
        };
        for (file, what) in faults {
            self.report.find(Finding { file: file.to_owned(), offset: 0, what, means });
        }
        let (faults, has_whole) = audit_file::faults(self.disk.as_ref())?;
        let means = if has_whole {
            "the other file of the audit log is whole: nothing is lost, and the next start writes both; check the disk"
        } else {
            "the audit log in the store begins again; no timer needs it"
        };
        for (file, what) in faults {
            self.report.find(Finding { file: file.to_owned(), offset: 0, what, means });
        }
        Ok(())
    }

    /// Checks that a backup ends with a closing frame. A build that writes them ends every backup with one.
    fn end_of_backup(&mut self) {
        let has_frame = self.manifest.features & format::CLOSING_FRAMES != 0;
        let is_cut = has_frame && self.state.is_some() && self.report.tail != Tail::Closed;
        if self.restored == Some(Tail::Closed) && is_cut {
            let what = "its journal lacks the closing frame that a backup ends with".to_owned();
            let means = "the last changes are missing: use another backup";
            self.report.find(Finding { file: "journal".to_owned(), offset: 0, what, means });
        }
    }

    /// Turns damage and unreadable files into a finding, and returns an error that the check cannot
    /// continue after.
    fn note(&mut self, error: OpenError, means: &'static str) -> Result<(), OpenError> {
        let (file, offset, what) = match error {
            OpenError::Disk(ref disk) if disk.is_shortage() => return Err(error),
            OpenError::Damaged { file, offset, what } => (file, offset, what),
            OpenError::Disk(disk::Error::Io { ref name, ref source, .. }) => {
                (name.clone(), 0, format!("it cannot be read: {source}"))
            }
            OpenError::Disk(disk::Error::NotPlain { ref name, .. }) => {
                (name.clone(), 0, "it is a symbolic link, or no regular file".to_owned())
            }
            OpenError::Disk(disk::Error::UnexpectedEnd { ref name, offset, .. }) => {
                (name.clone(), offset, "it ends early".to_owned())
            }
            OpenError::Disk(disk::Error::NotFound { ref name, .. }) => {
                (name.clone(), 0, "it is missing".to_owned())
            }
            error => return Err(error),
        };
        self.report.find(Finding { file, offset, what, means });
        Ok(())
    }

    fn report_progress(&mut self, what: &'static str, bytes: u64) {
        self.done += bytes;
        let (bytes_done, bytes_total) = (self.done, self.total);
        (self.progress)(Progress { what, bytes_done, bytes_total });
    }
}

#[cfg(test)]
mod tests;
