//! Why there is no figure.

use std::{io, path::PathBuf, time::Duration};

use duly_store_embedded::OpenError;

/// Result of a measurement.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a measurement gave no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be used.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder is in memory, where a sync costs nothing.
    #[error(
        "{} is on {filesystem}, which is memory: name a folder on a disk with --dir, or pass \
         --allow-memory-disk", path.display()
    )]
    MemoryDisk {
        /// The folder.
        path: PathBuf,
        /// Its file system.
        filesystem: String,
    },
    /// There is too little room for what would be written.
    #[error(
        "the rows asked for need about {} free in {}, which has {}: name another disk with --dir, \
         fewer --timers or --rows, or pass --allow-low-disk",
        gib(*needed), path.display(), gib(*free)
    )]
    LowDisk {
        /// The folder.
        path: PathBuf,
        /// Bytes that must be free.
        needed: u64,
        /// Bytes that are.
        free: u64,
    },
    /// A plot could not be drawn.
    #[error("cannot draw {}: {reason}", path.display())]
    Plot {
        /// The file.
        path: PathBuf,
        /// What the drawing library said.
        reason: String,
    },
    /// The store could not be opened.
    #[error("cannot open the store: {0}")]
    Open(#[from] OpenError),
    /// A call to the store failed as a whole.
    #[error("the store failed: {0}")]
    Store(#[from] duly_store::Error),
    /// The store did something else than the row is about.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What should have come.
        expected: String,
        /// What came.
        found: String,
    },
    /// Some rows were not measured.
    #[error("the run ended early: {0}")]
    EndedEarly(String),
    /// Nothing became claimable any more.
    #[error("{claimed} of {timers} firings were claimed, then none for {patience:?}")]
    Stalled {
        /// Firings claimed so far.
        claimed: u64,
        /// Firings there should be.
        timers: u64,
        /// How long none came.
        patience: Duration,
    },
}

#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

impl Error {
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    /// An error unless both counts are the same.
    pub(crate) fn unless_equal(what: &str, expected: u64, found: u64) -> Result<()> {
        if expected == found {
            return Ok(());
        }
        Err(Self::Unexpected { expected: format!("{expected} {what}"), found: found.to_string() })
    }
}
