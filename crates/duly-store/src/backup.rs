//! Backups of a store whose data is in a directory of this machine.

use std::path::{Path, PathBuf};

use crate::Error;

/// The calls of a store that copies itself into a directory. See [`Store::backups`](crate::Store::backups).
pub trait Backups: Send + Sync {
    /// Copies the store, as it is at one moment, into a directory that is empty or missing. Blocks its thread
    /// until the copy is durable.
    ///
    /// # Errors
    /// Returns the first reason found; nothing is left in the directory, and the store continues.
    fn back_up(&self, target: &Path) -> Result<BackupReport, BackupError>;
}

/// The result of a backup or a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// The directory.
    pub path: PathBuf,
    /// Files in the directory.
    pub files: u64,
    /// Their bytes, linked files included.
    pub bytes: u64,
    /// Bytes that were copied, not linked.
    pub copied_bytes: u64,
    /// Newest frame of the journal in the copy. `None` for a restored store, which is not opened yet.
    pub lsn: Option<u64>,
}

/// The reason that a backup failed, as a sentence for people. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The target is not an empty or new directory outside of the data directory.
    #[error("{reason}")]
    Target {
        /// The target.
        path: PathBuf,
        /// The sentence.
        reason: String,
    },
    /// No directory can have this path.
    #[error("{reason}")]
    Unnameable {
        /// The target, if the sentence is about the target itself.
        path: Option<PathBuf>,
        /// The sentence.
        reason: String,
    },
    /// Another backup is under way, or the store is closed.
    #[error("{0}")]
    Busy(String),
    /// The disk of the target has too little free space.
    #[error("{0}")]
    NoSpace(String),
    /// The store did not take a checkpoint.
    #[error(transparent)]
    Store(#[from] Error),
    /// Anything else, such as a disk that fails.
    #[error("{0}")]
    Failed(String),
}
