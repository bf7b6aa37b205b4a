//! Errors of measurements.

use std::{io, path::PathBuf, time::Duration};

use duly_store_embedded::OpenError;

/// Result of a measurement.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a measurement has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be used.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
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
    /// The disk has less free space than the rows need.
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
        /// Bytes that are free.
        free: u64,
    },
    /// A plot could not be drawn.
    #[error("cannot draw {}: {reason}", path.display())]
    Plot {
        /// The file.
        path: PathBuf,
        /// The error of the drawing library.
        reason: String,
    },
    /// The store could not be opened.
    #[error("cannot open the store: {0}")]
    Open(#[from] OpenError),
    /// A call to the store failed as a whole.
    #[error("the store failed: {0}")]
    Store(#[from] duly_store::Error),
    /// The store returned something else than the row expects.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// The expected result.
        expected: String,
        /// The actual result.
        found: String,
    },
    /// The run ended before all rows were measured.
    #[error("the run ended early: {0}")]
    EndedEarly(String),
    /// No firing became claimable for too long.
    #[error("{claimed} of {timers} firings were claimed, then none for {patience:?}")]
    Stalled {
        /// Firings claimed so far.
        claimed: u64,
        /// Firings that should be claimable.
        timers: u64,
        /// The wait without a claimable firing.
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

    /// Returns an error unless both counts are the same.
    pub(crate) fn unless_equal(what: &str, expected: u64, found: u64) -> Result<()> {
        if expected == found {
            return Ok(());
        }
        Err(Self::Unexpected { expected: format!("{expected} {what}"), found: found.to_string() })
    }
}
