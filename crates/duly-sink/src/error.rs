//! The errors of building a sink. Failures of one delivery are a [`crate::Delivery`] instead.

use std::path::PathBuf;

/// An error of building a sink.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The TLS client rejected its options.
    #[error("the webhook client cannot be built: {0}")]
    Client(String),
    /// A file named by the options cannot be used.
    #[error("the {what} ({key}) {} cannot be used: {reason}", path.display())]
    File {
        /// Purpose of the file.
        what: &'static str,
        /// The configuration key that names it.
        key: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Fault of the file, and its required content.
        reason: String,
    },
}
