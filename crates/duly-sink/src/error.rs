//! Why a sink could not be built. What befalls one delivery is a [`crate::Delivery`] instead.

use std::path::PathBuf;

/// Why a sink could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The TLS client refused its options.
    #[error("the webhook client cannot be built: {0}")]
    Client(String),
    /// A file that the options name cannot be used.
    #[error("the {what} ({key}) {} cannot be used: {reason}", path.display())]
    File {
        /// What it is for.
        what: &'static str,
        /// The key of the configuration that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what it must be.
        reason: String,
    },
}
