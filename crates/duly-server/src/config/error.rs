//! What can be wrong with a configuration: key, origin, value seen, what is allowed.

use std::path::PathBuf;

use super::Origin;

/// Why a configuration was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {reason}; name another with --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file is not TOML.
    #[error("{}:{line} is not TOML: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why.
        reason: String,
    },
    /// A key that does not exist.
    #[error("{origin}: there is no key {key}; {known}")]
    UnknownKey {
        /// The key.
        key: String,
        /// Where it stands.
        origin: Origin,
        /// The keys that exist there.
        known: String,
    },
    /// A value that is not allowed.
    #[error("{key} ({origin}) must be {allowed}; got {seen}")]
    Value {
        /// The key.
        key: &'static str,
        /// Where it stands.
        origin: Origin,
        /// The value.
        seen: String,
        /// What is allowed.
        allowed: String,
    },
}
