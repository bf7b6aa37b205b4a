//! Errors of opening a store, and the conversion of server errors into the port's.

use std::{error::Error as _, io, sync::Arc};

use duly_core::{Millis, error_code::Retry};
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Wait before a store that may become available is opened again.
const OPEN_AGAIN: Millis = Millis::from_secs(1);

/// Reason why a store could not be opened. [`OpenError::retry`] tells which ones pass by themselves.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is not one that this store supports.
    #[error("store URL: {0}")]
    Url(String),
    /// The server did not reply.
    #[error("cannot reach Redis at {address}: {reason}")]
    Unreachable {
        /// Address of the server.
        address: String,
        /// Cause.
        reason: String,
    },
    /// The server replies but cannot be used yet: it is loading its data, runs a script, cannot write, lacks replicas,
    /// or does not serve its slots.
    #[error("Redis at {address} is not ready: {reason}")]
    NotReady {
        /// Address of the server.
        address: String,
        /// Cause.
        reason: String,
    },
    /// The server refused the user, the password, or a command that the user may not run.
    #[error("Redis at {address} denied access: {reason}")]
    Denied {
        /// Address of the server.
        address: String,
        /// Message of the server.
        reason: String,
    },
    /// TLS failed: the two sides do not agree, or the certificate is not trusted.
    #[error("no TLS connection to Redis at {address}: {reason}")]
    Tls {
        /// Address of the server.
        address: String,
        /// Cause.
        reason: String,
    },
    /// The server is too old.
    #[error("{address} runs Redis {version}; {wanted} or newer is needed")]
    Version {
        /// Address of the server.
        address: String,
        /// Version of the server.
        version: String,
        /// Version that the options need.
        wanted: String,
    },
    /// A setting of the server would lose timers.
    #[error("{address}: {reason}; allow it by name with `{name}` if you accept that")]
    Unsafe {
        /// Address of the server.
        address: String,
        /// The setting, and what it would lose.
        reason: String,
        /// Name that allows the setting.
        name: &'static str,
    },
    /// The database belongs to another version of Duly.
    #[error(
        "the database has format {found}, and this version reads {known}; see the upgrade page"
    )]
    Format {
        /// Format of the database.
        found: String,
        /// Format that this version reads.
        known: u8,
    },
    /// The database has features that this version does not know.
    #[error(
        "the database uses features that this version does not know: {unknown}; see the upgrade page"
    )]
    Features {
        /// Their names.
        unknown: String,
    },
    /// The database belongs to another deployment.
    #[error("{address} holds the deployment {found:?}, not {wanted:?}")]
    Deployment {
        /// Address of the server.
        address: String,
        /// Name of the deployment in the database.
        found: String,
        /// Name that the options require.
        wanted: String,
    },
    /// The database holds keys of a deployment whose record is gone.
    #[error(
        "the database at {address} holds timers, and the record of their deployment is gone; restore \
         the server from a backup, or empty the database if you accept the loss"
    )]
    NoRecord {
        /// Address of the server.
        address: String,
    },
    /// The database holds markers of more than one deployment.
    #[error(
        "the database at {address} holds shards of several deployments ({names}); a database may hold \
         one, so empty the servers that were taken from another Cluster"
    )]
    Several {
        /// Address of the server.
        address: String,
        /// Names of the deployments.
        names: String,
    },
    /// The database is empty, and this node may not create a deployment.
    #[error(
        "the database at {address} is empty, and store.create is \"never\": if its data was lost, restore \
         it; to create a new deployment, set store.create to \"when_empty\" for one start"
    )]
    Empty {
        /// Address of the server.
        address: String,
    },
    /// The server refused.
    #[error("Redis at {address} refused: {reason}")]
    Refused {
        /// Address of the server.
        address: String,
        /// Message of the server.
        reason: String,
    },
}

/// Result of a step of opening a store.
pub(crate) type Opened<T> = Result<T, OpenError>;

impl OpenError {
    /// Returns if and when the same call can succeed without a change of settings: `After` where the
    /// servers may come back by themselves, else `Never`.
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Unreachable { .. } | Self::NotReady { .. } => Retry::After(OPEN_AGAIN),
            _ => Retry::Never,
        }
    }

    /// Converts an error of a connection or of a command, by the remedy that it needs.
    pub(crate) fn of(address: &str, error: &RedisError) -> Self {
        let address = address.to_owned();
        let reason = first_of_pipeline(&error.to_string()).to_owned();
        match (error.kind(), error.code()) {
            (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS" | "NOPERM")) => {
                Self::Denied { address, reason }
            }
            (
                ErrorKind::Server(
                    ServerErrorKind::BusyLoading
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::TryAgain,
                ),
                _,
            )
            | (_, Some("BUSY" | "READONLY" | "MISCONF")) => Self::NotReady { address, reason },
            (ErrorKind::Io, _) if is_about_tls(error) => Self::Tls { address, reason },
            (ErrorKind::Io, _) => Self::Unreachable { address, reason },
            _ => Self::Refused { address, reason },
        }
    }

    /// Converts the error of a script that opening the store needs.
    pub(crate) fn of_script(address: &str, error: &duly_store::Error) -> Self {
        let (address, reason) = (address.to_owned(), error.to_string());
        if reason.contains("NOPERM") {
            Self::Denied { address, reason }
        } else if error.retry() == Retry::Never {
            Self::Refused { address, reason }
        } else {
            Self::NotReady { address, reason }
        }
    }
}

/// Returns the text of the first command of a pipeline that failed; the others have the same text.
fn first_of_pipeline(reason: &str) -> &str {
    let first = reason.split_once("(Index 0, error: ").map_or(reason, |(_, first)| first);
    first.split_once("), (Index ").map_or(first, |(first, _)| first)
}

/// Returns `true` if TLS itself failed: its errors arrive as invalid input. A connection that breaks
/// during the handshake is not one of them.
fn is_about_tls(error: &RedisError) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<Shared>());
    let io = source.and_then(|source| source.downcast_ref::<io::Error>());
    io.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
}

/// Type in which the client keeps the cause of an error.
type Shared = Arc<dyn std::error::Error + Send + Sync>;

/// Returns the error of a call that did nothing and may succeed later.
pub(crate) fn unavailable(reason: impl Into<String>) -> duly_store::Error {
    duly_store::Error::Unavailable { reason: reason.into(), retry_after: Millis::from_ms(500) }
}

/// Returns the error of a call that may have been executed.
pub(crate) fn in_doubt(reason: impl Into<String>) -> duly_store::Error {
    duly_store::Error::InDoubt { reason: reason.into() }
}

/// Converts the error of a step before the requested change: the change was not made, even if the step
/// is in doubt.
pub(crate) fn before_change<T>(step: duly_store::Result<T>) -> duly_store::Result<T> {
    step.map_err(|error| match error {
        duly_store::Error::InDoubt { reason } => unavailable(reason),
        error => error,
    })
}

/// Converts the error of a step after the requested change: the change was made, but not in every shard
/// yet, and repeating the call is right.
pub(crate) fn after_change<T>(step: duly_store::Result<T>) -> duly_store::Result<T> {
    step.map_err(|error| match error {
        error @ duly_store::Error::Damaged(_) => error,
        error => in_doubt(format!("the change was made, but is not in every shard yet: {error}")),
    })
}

/// Returns the error for a reply or a record that is not of this format.
pub(crate) fn damaged(what: impl Into<String>) -> duly_store::Error {
    duly_store::Error::Damaged(what.into())
}
