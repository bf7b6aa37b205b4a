//! The errors of a configuration: key, place, value seen, allowed values; and the places that values come
//! from. All errors are reported at
//! once, so that an operator can correct a file in one edit.

use std::{fmt, path::PathBuf};

/// The origin of a value; later ones win over earlier ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// No place sets the key.
    Default,
    /// A line of the file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One error of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {reason}; name another with --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The file is not TOML.
    #[error("{}:{line} is not TOML: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// A section that does not exist.
    #[error("{origin}: there is no section [{name}]{}", meant(similar.as_deref(), known))]
    UnknownSection {
        /// The name of the section.
        name: String,
        /// The place of the section.
        origin: Origin,
        /// The section with the most similar name.
        similar: Option<String>,
        /// The sections that exist.
        known: String,
    },
    /// A section that is given as something else.
    #[error("{origin}: {name} is a section and must be a table, [{name}]; got {seen}")]
    NotASection {
        /// Its name.
        name: String,
        /// The place of the value.
        origin: Origin,
        /// The value that the file has there.
        seen: String,
    },
    /// A key that does not exist.
    #[error("{origin}: there is no key {key}{}", meant(similar.as_deref(), known))]
    UnknownKey {
        /// The key.
        key: String,
        /// The place of the key.
        origin: Origin,
        /// The key with the most similar name.
        similar: Option<String>,
        /// The keys that exist there, or a way to list them.
        known: String,
    },
    /// A value that is not allowed.
    #[error("{key} ({origin}) must be {allowed}; got {seen}")]
    Value {
        /// The key.
        key: &'static str,
        /// The place of the value.
        origin: Origin,
        /// The value.
        seen: String,
        /// The allowed values.
        allowed: String,
    },
}

fn meant(similar: Option<&str>, known: &str) -> String {
    similar.map_or_else(|| format!("; {known}"), |similar| format!(": did you mean {similar}?"))
}

/// All errors of a configuration; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors(pub(super) Vec<Error>);

impl Errors {
    /// Returns the errors in order: the file from its first line on, the environment, the flags, then
    /// conflicts between values.
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
        write!(f, "{} errors in the configuration:", self.0.len())?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}
