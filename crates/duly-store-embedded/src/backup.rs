//! Backups: copies a running store consistently into another directory, and restores it.
//!
//! ```text
//!   backup   checkpoint, runs, sealed segments ── hard links (copies across file systems) ─┐
//!            active segment up to what is durable, and a closing frame ── copy ───────────┤
//!            RESTORED, then MANIFEST ─────────────────────────────────────────────────────┴─► target
//!   restore  copies all of it, checks the copy, then MANIFEST; the first start pauses every namespace
//! ```
//!
//! What must stay true:
//!
//! 1. A directory with a manifest is a complete backup: the manifest is written last, when everything
//!    else is durable. A backup that fails removes what it made.
//! 2. The source store never writes to a linked file again: a segment that has another name is not
//!    recycled ([`Disk::is_shared`]).
//! 3. The target is an empty directory, or is created.
//! 4. A backup leaves the reserve of the target's file system (`store.min_free_bytes`) alone.
//! 5. A restore reads regular files only, in directories that are not symbolic links. It publishes
//!    nothing that the check of `duly store check` finds damaged.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    access_file,
    disk::{self, Disk, RealDisk},
    engine::backup::BackupPlan,
    manifest::{self, Manifest},
    numbered::{CHECKPOINTS, DIRS},
    open::{OpenError, Tail},
};

mod copy;
mod restore;

pub use duly_store::BackupReport;
pub use restore::restore;

/// Name of the file that every whole backup has, and no other directory.
pub const MANIFEST: &str = manifest::NAME;
/// Name of its copy, which makes a directory a store too.
pub const MANIFEST_COPY: &str = manifest::COPY;

use copy::Copying;

/// Progress of a backup or a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupProgress {
    /// Bytes in the target so far.
    pub bytes_done: u64,
    /// Total bytes.
    pub bytes_total: u64,
}

/// The reason that a backup or a restore failed. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The target is not empty.
    #[error("{0} is not empty: name a directory that is empty or does not exist")]
    NotEmpty(PathBuf),
    /// The target is in the data directory.
    #[error("{0} is inside the data directory: name a place beside it, or on another disk")]
    Inside(PathBuf),
    /// The target cannot be used.
    #[error("{path} cannot be used: {source}")]
    Target {
        /// The target.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The copy would use up the reserve of the file system that it goes to.
    #[error(
        "{path} has too little space for the backup: {needed_bytes} bytes are to be copied, \
         {free_bytes} are free there, and Duly keeps {reserve_bytes} in reserve \
         (store.min_free_bytes, store.min_free_percent); free space, or name a directory on a larger disk"
    )]
    NoSpace {
        /// The target.
        path: PathBuf,
        /// Bytes still to be copied.
        needed_bytes: u64,
        /// Free bytes of the target's file system.
        free_bytes: u64,
        /// Bytes that stay free.
        reserve_bytes: u64,
    },
    /// The copy of the backup is not a complete store.
    #[error(
        "the backup {path} is damaged and was not restored: {what}. Restore another backup. To save \
         what is left of this one, copy its directory and start a server on the copy: every \
         namespace is paused there"
    )]
    Damaged {
        /// The backup.
        path: PathBuf,
        /// The first finding, and the number of the others.
        what: String,
    },
    /// Another backup is under way.
    #[error("another backup is under way: wait for it")]
    Busy,
    /// The store was closed during the backup.
    #[error("the store was closed before the backup was complete")]
    Closed,
    /// The store did not take a checkpoint.
    #[error(transparent)]
    Store(#[from] duly_store::Error),
    /// An operation of a disk failed.
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// The source is not a store, or cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl BackupError {
    /// Returns `true` if another attempt can succeed: a disk failed or is full at present.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Disk(error) | Self::Open(OpenError::Disk(error)) => error.may_pass(),
            Self::Store(error) => matches!(error, duly_store::Error::Unavailable { .. }),
            _ => false,
        }
    }
}

impl From<BackupError> for duly_store::BackupError {
    fn from(error: BackupError) -> Self {
        let reason = error.to_string();
        match error {
            BackupError::Store(error) => Self::Store(error),
            BackupError::NotEmpty(path) | BackupError::Inside(path) => {
                Self::Target { path, reason }
            }
            BackupError::Target { path, source } if names_nothing(&source) => {
                Self::Unnameable { path: Some(path), reason }
            }
            BackupError::Disk(disk::Error::Io { source, .. }) if names_nothing(&source) => {
                Self::Unnameable { path: None, reason }
            }
            BackupError::Busy | BackupError::Closed => Self::Busy(reason),
            BackupError::NoSpace { .. } => Self::NoSpace(reason),
            BackupError::Disk(error) if error.is_no_space() => Self::NoSpace(reason),
            _ => Self::Failed(reason),
        }
    }
}

/// Returns `true` if no directory can have this path.
fn names_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory};
    matches!(error.kind(), InvalidFilename | InvalidInput | NotADirectory)
}

/// A directory to be filled.
pub(crate) struct Target {
    path: PathBuf,
    is_new: bool,
}

impl Target {
    /// Checks that the directory is missing or empty, and not part of `source`.
    pub(crate) fn check(path: &Path, source: &dyn Disk) -> Result<Self, BackupError> {
        let failed = |source| BackupError::Target { path: path.to_owned(), source };
        let is_new = match fs::read_dir(path) {
            Ok(mut names) => {
                if names.next().is_some() {
                    return Err(BackupError::NotEmpty(path.to_owned()));
                }
                false
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(failed(error)),
        };
        let absolute = std::path::absolute(path).map_err(failed)?;
        let above = absolute.ancestors().find_map(|above| above.canonicalize().ok());
        let root = source.real_path("").and_then(|root| root.canonicalize().ok());
        if let (Some(above), Some(root)) = (above, root)
            && above.starts_with(&root)
        {
            return Err(BackupError::Inside(path.to_owned()));
        }
        Ok(Self { path: path.to_owned(), is_new })
    }

    /// Fills the directory. After an error it is as before.
    pub(crate) fn fill<T>(
        &self,
        fill: impl FnOnce(&RealDisk) -> Result<T, BackupError>,
    ) -> Result<T, BackupError> {
        let make = || {
            let disk = RealDisk::open_or_create(&self.path)?;
            DIRS.iter().try_for_each(|dir| disk.make_dir(dir))?;
            Ok(disk)
        };
        let filled = make().and_then(|disk| fill(&disk));
        if filled.is_err() {
            self.clear();
        }
        filled
    }

    /// Removes what was made. The directory was empty before, so that is all of it.
    fn clear(&self) {
        // Without its manifest the directory is not a store, even if other files stay.
        let names = [manifest::COPY, manifest::NAME];
        let forgotten = names.iter().try_for_each(|name| remove_file(&self.path.join(name)));
        let cleared = forgotten.and_then(|()| {
            if self.is_new {
                return fs::remove_dir_all(&self.path);
            }
            for dir in DIRS {
                fs::remove_dir_all(self.path.join(dir)).or_else(is_gone)?;
            }
            remove_file(&self.path.join(access_file::NAME))?;
            remove_file(&self.path.join(access_file::COPY))?;
            remove_file(&self.path.join(manifest::RESTORED))
        });
        if let Err(error) = cleared.or_else(is_gone) {
            let path = self.path.display();
            tracing::warn!(
                %error,
                %path,
                "partial backup could not be removed; remove its directory"
            );
        }
    }
}

fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path).or_else(is_gone)
}

fn is_gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Copies the files of a plan; the caller holds the plan meanwhile. If `is_closed` returns `true` the
/// copy ends early.
pub(crate) fn copy(
    source: &Arc<dyn Disk>,
    target: &Target,
    plan: &BackupPlan,
    is_closed: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(BackupProgress),
) -> Result<BackupReport, BackupError> {
    let BackupPlan { checkpoint, whole, active, active_end, closing, lsn, pace, reserve } = plan;
    let names = whole.iter().map(|id| id.name());
    let names: Vec<String> = names.chain([CHECKPOINTS.name(*checkpoint)]).collect();
    let active = active.name();
    target.fill(|disk| {
        let throttle = pace.throttle();
        let mut copying = Copying::new(source.as_ref(), disk, throttle, is_closed, progress);
        copying.expect(names.iter().chain([&active]))?;
        let mut unlinked = Vec::new();
        for name in &names {
            if !copying.link(name)? {
                unlinked.push(name);
            }
        }
        copying.keep(*reserve, unlinked.iter().copied().chain([&active]))?;
        for name in unlinked {
            copying.copy(name)?;
        }
        copying.copy_up_to(&active, *active_end, closing)?;
        copying.copy_keys()?;
        // Read after the keys, whose feature bit it has.
        let manifest = Manifest::read(source.as_ref())?;
        let manifest = manifest.ok_or_else(|| OpenError::NoStore(source.describe()))?;
        let (files, bytes, copied_bytes) = copying.end();
        publish(disk, &manifest, Tail::Closed)?;
        let path = target.path.clone();
        Ok(BackupReport { path, files, bytes, copied_bytes, lsn: Some(*lsn) })
    })
}

/// Makes all files durable, and then writes the manifest, which makes them a store. `tail` is the end of the journal.
fn publish(disk: &RealDisk, manifest: &Manifest, tail: Tail) -> Result<(), BackupError> {
    let mark = if tail == Tail::Closed { b"" } else { manifest::OPEN_MARK };
    let file = disk.create(manifest::RESTORED)?;
    file.write_at(0, mark).and_then(|()| file.sync_all())?;
    for dir in DIRS.into_iter().chain([""]) {
        disk.sync_dir(dir)?;
    }
    Ok(manifest.write(disk)?)
}
