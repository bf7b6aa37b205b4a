//! The result of opening a store: a report, or the reason of the failure.

pub use duly_store::Tail;

use crate::disk;

/// Result of a step of opening a data directory.
pub(crate) type Result<T, E = OpenError> = std::result::Result<T, E>;

/// The reason that a data directory was not opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The disk failed; its message says what to do.
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// A newer Duly wrote the directory.
    #[error(
        "the data directory has format {found} and this build reads up to {known}{}: run the \
         Duly that wrote it, or a newer one",
        features_text(*features)
    )]
    Newer {
        /// Format of the directory.
        found: u32,
        /// Newest format that this build knows.
        known: u32,
        /// Feature bits that this build does not know.
        features: u64,
    },
    /// The directory was written by a Duly that is too old.
    #[error(
        "the data directory has format {found} and this build reads from {oldest}: open it once \
         with a release in between"
    )]
    Older {
        /// Format of the directory.
        found: u32,
        /// Oldest format that this build reads.
        oldest: u32,
    },
    /// Data that must be complete is damaged.
    #[error(
        "{file} is damaged at byte {offset}: {what}; acknowledged timers may be missing, so Duly \
         does not open it. Run `duly store check --data DIR` for the whole picture and restore \
         the directory from a backup"
    )]
    Damaged {
        /// File, relative to the data directory.
        file: String,
        /// Byte in the file.
        offset: u64,
        /// The fault.
        what: String,
    },
    /// Both files of the keys are damaged or missing.
    #[error(
        "both files of the keys are damaged or missing ({0}). Stop the server. Copy KEYS from a backup, remove KEYS.copy, run \
         `duly key confirm --data DIR`, and delete the keys that were revoked since; or remove both, and create an \
         administrator key with `duly key create --admin --data DIR`: all other keys and all tenants are then gone"
    )]
    Keys(String),
    /// The directory has no store.
    #[error("{0} holds no Duly store: it has no MANIFEST; name the directory with --data")]
    NoStore(String),
    /// The start had to write and could not.
    #[error("{0}")]
    Unwritable(String),
    /// The system did not start a thread.
    #[error(
        "no thread could be started: {0}; raise the limit of threads (ulimit -u, TasksMax of the \
         unit), or free memory, and start again"
    )]
    NoThread(String),
    /// An option is out of its range.
    #[error("{0}")]
    Options(duly_core::Invalid),
}

impl OpenError {
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(crate) fn no_thread(error: std::io::Error) -> Self {
        Self::NoThread(error.to_string())
    }
}

fn features_text(features: u64) -> String {
    if features == 0 { String::new() } else { format!(" without features {features:#x}") }
}

/// Progress of a start. It reads one file after the other: the newest checkpoint, then the journal from
/// the checkpoint's end on. If a checkpoint is damaged, it reads the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenProgress {
    /// Name of the part that is being read.
    pub what: &'static str,
    /// Bytes of that part that were read.
    pub bytes_done: u64,
    /// Total bytes of that part.
    pub bytes_total: u64,
}

impl OpenProgress {
    /// The newest state of timers and namespaces that was saved.
    pub const CHECKPOINT: &'static str = "checkpoint";
    /// The changes since the checkpoint.
    pub const JOURNAL: &'static str = "journal to replay";
}

/// The findings and actions of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenReport {
    /// `true`: the directory was empty.
    pub is_new: bool,
    /// The end of the journal.
    pub tail: Tail,
    /// Frames that were read.
    pub frames: u64,
    /// Records that were read.
    pub records: u64,
    /// Leases of webhook attempts that were ended.
    pub released: u64,
    /// Namespaces that were paused because the directory was restored from a backup.
    pub paused: u64,
    /// Number of starts of the store so far.
    pub epoch: u64,
}

#[cfg(test)]
mod tests;
