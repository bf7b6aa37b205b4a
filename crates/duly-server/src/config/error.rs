//! What can be wrong with a configuration: key, place, value seen, what is allowed; all of it at
//! once, so that a person mends a file in one go.

use std::{fmt, path::PathBuf};

use super::Origin;

/// One thing for which a configuration is refused.
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
    /// A section that does not exist.
    #[error("{origin}: there is no section [{name}]{}", meant(near.as_deref(), known))]
    UnknownSection {
        /// What stands there.
        name: String,
        /// Where it stands.
        origin: Origin,
        /// The section that was meant, by its spelling.
        near: Option<String>,
        /// The sections that exist.
        known: String,
    },
    /// A section that is given as something else.
    #[error("{origin}: {name} is a section and must be a table, [{name}]; got {seen}")]
    NotASection {
        /// Its name.
        name: String,
        /// Where it stands.
        origin: Origin,
        /// What stands there.
        seen: String,
    },
    /// A key that does not exist.
    #[error("{origin}: there is no key {key}{}", meant(near.as_deref(), known))]
    UnknownKey {
        /// The key.
        key: String,
        /// Where it stands.
        origin: Origin,
        /// What was meant, by its spelling.
        near: Option<String>,
        /// The keys that exist there, or how to see them.
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

fn meant(near: Option<&str>, known: &str) -> String {
    near.map_or_else(|| format!("; {known}"), |near| format!(": did you mean {near}?"))
}

/// Everything for which a configuration is refused; at least one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors(pub(super) Vec<Error>);

impl Errors {
    /// One after the other: the file from its first line on, the environment, the flags, then what
    /// does not go together.
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.0.iter()
    }
}

impl std::error::Error for Errors {}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = &self.0[..] {
            return one.fmt(f);
        }
        write!(f, "{} things in the configuration are wrong:", self.0.len())?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}
