//! What opening a store answers: a report, or one clear reason why not.

use crate::{disk, journal::recovery};

/// The result of a step of opening a data directory.
pub(crate) type Result<T, E = OpenError> = std::result::Result<T, E>;

/// Why a data directory was not opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The disk said no; its message says what to do.
    #[error(transparent)]
    Disk(#[from] disk::Error),
    /// Written by a newer Duly.
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
    /// Written by a Duly that is too old.
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
    /// The middle of something that must be whole is not.
    #[error(
        "{file} is damaged at byte {offset}: {what}; acknowledged timers may be missing, so Duly \
         does not open it. Run `duly store check --data DIR` for the whole picture and restore \
         the directory from a backup"
    )]
    Damaged {
        /// File, within the data directory.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// There is no store to check.
    #[error("{0} holds no Duly store: it has no MANIFEST; name the directory with --data")]
    NoStore(String),
    /// Opening needed to write and could not.
    #[error("{0}")]
    Unwritable(String),
    /// The system refused a thread.
    #[error(
        "no thread could be started: {0}; raise the limit of threads (ulimit -u, TasksMax of the \
         unit), or free memory, and start again"
    )]
    NoThread(String),
    /// A limit of the options is out of its range.
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

/// How far an opening is. One file after the other is read: the newest checkpoint, then the journal
/// from where that ends; a checkpoint that turns out to be damaged is followed by the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenProgress {
    /// What is being read.
    pub what: &'static str,
    /// Bytes read of it.
    pub bytes_done: u64,
    /// Bytes of it in all.
    pub bytes_total: u64,
}

impl OpenProgress {
    /// The timers and namespaces as they were some time ago.
    pub const CHECKPOINT: &'static str = "checkpoint";
    /// What has changed since.
    pub const JOURNAL: &'static str = "journal to replay";
}

impl From<recovery::Progress> for OpenProgress {
    fn from(progress: recovery::Progress) -> Self {
        let recovery::Progress { bytes_done, bytes_total, .. } = progress;
        Self { what: Self::JOURNAL, bytes_done, bytes_total }
    }
}

/// How the journal of a store ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tail {
    /// Its last frame is confirmed: by a closing frame, by a checkpoint, or by a segment that begins
    /// behind it.
    #[default]
    Closed,
    /// Its last frame is whole, and nothing stands behind it, as a process leaves it that was killed.
    /// If another one followed, and nothing is left of it, that cannot be told.
    Open,
    /// Bytes follow that are no whole frame. They are cut off: mostly a frame that a crash left half
    /// written and that was never acknowledged, but it cannot be told from one that was damaged since.
    Unknown,
}

impl Tail {
    /// Returns the tail in a word, for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::Unknown => "unknown",
        }
    }

    /// Returns a sentence about a last frame that nothing confirms.
    pub const fn warning(self) -> Option<&'static str> {
        match self {
            Self::Closed => None,
            Self::Open => Some(
                "the journal ends without a closing frame, as after kill -9: whether another frame \
                 followed is unknown",
            ),
            Self::Unknown => Some(
                "the journal ends in bytes that are no whole frame, and they are cut off: whether \
                 they were acknowledged is unknown. After a crash or a power loss they were not; \
                 else look at the disk, and compare with a backup",
            ),
        }
    }
}

/// What opening found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenReport {
    /// The directory was empty.
    pub is_new: bool,
    /// How the journal ended.
    pub tail: Tail,
    /// Frames read.
    pub frames: u64,
    /// Records read.
    pub records: u64,
    /// Push leases that were ended.
    pub released: u64,
    /// Namespaces that were paused because the directory was restored from a backup.
    pub paused: u64,
    /// How often the store has been opened.
    pub epoch: u64,
}

#[cfg(test)]
mod tests;
