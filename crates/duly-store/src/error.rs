//! Errors of whole calls. The error of a single item is a [`crate::Refusal`] instead.

use duly_core::{Code, Invalid, Millis, error_code::Retry, view::TooLarge};
use futures::future::BoxFuture;

/// Result of a call to a store.
pub type Result<T> = std::result::Result<T, Error>;
/// The future of a call to a store.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T>>;

/// The reason for which a call to a store failed as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value of the request is not allowed; nothing was done.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No namespace of this name.
    #[error("there is no namespace {0:?}")]
    UnknownNamespace(String),
    /// The namespace still holds pending timers or dead letters.
    #[error("namespace {name:?} still holds {pending} pending timers and {dead} dead letters")]
    NamespaceNotEmpty {
        /// Its name.
        name: String,
        /// Pending timers.
        pending: u64,
        /// Dead letters.
        dead: u64,
    },
    /// The store cannot work now; nothing was done.
    #[error("the store cannot do this now: {reason}")]
    Unavailable {
        /// The cause and the remedy.
        reason: String,
        /// The wait after which a repetition can succeed.
        retry_after: Millis,
    },
    /// The node was evicted and its leases ended; nothing was done. It rejoins with a new member id.
    #[error("this node was evicted")]
    Evicted,
    /// A queue of the store is full; nothing was done.
    #[error("the store cannot take more now: {reason}")]
    Overloaded {
        /// The limit that was reached.
        reason: String,
        /// The wait after which a repetition can succeed.
        retry_after: Millis,
    },
    /// The result takes more memory than the call allows; nothing was done. The same call can succeed if it
    /// allows at least this many bytes.
    #[error("the result takes {bytes} bytes of memory, more than the call allows")]
    TooLarge {
        /// Memory of the result, or of its first timer, in bytes.
        bytes: u64,
    },
    /// A write failed, and it is not known whether the change survives. Repeat the same call.
    #[error("the outcome is unknown: {reason}")]
    InDoubt {
        /// The cause.
        reason: String,
    },
    /// A record that should be readable is not.
    #[error("damaged data: {0}")]
    Damaged(String),
}

impl Error {
    /// Converts it to the error of a call that changes nothing: such a call is never in doubt, but
    /// unavailable.
    #[must_use]
    pub fn of_read(self) -> Self {
        match self {
            Self::InDoubt { reason } => {
                Self::Unavailable { reason, retry_after: Millis::from_secs(1) }
            }
            other => other,
        }
    }

    /// Returns the stable code of the API.
    pub const fn code(&self) -> Code {
        match self {
            Self::Invalid(_) => Code::InvalidArgument,
            Self::UnknownNamespace(_) => Code::NotFound,
            Self::NamespaceNotEmpty { .. } => Code::NamespaceNotEmpty,
            Self::Unavailable { .. } | Self::Evicted => Code::Unavailable,
            Self::Overloaded { .. } | Self::TooLarge { .. } => Code::ResourceExhausted,
            Self::InDoubt { .. } => Code::Aborted,
            Self::Damaged(_) => Code::Internal,
        }
    }

    /// Returns whether a repetition of the same call can succeed.
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Unavailable { retry_after, .. } | Self::Overloaded { retry_after, .. } => {
                Retry::After(*retry_after)
            }
            Self::InDoubt { .. } | Self::Evicted => Retry::Now,
            _ => Retry::Never,
        }
    }
}

impl From<TooLarge> for Error {
    fn from(TooLarge { bytes }: TooLarge) -> Self {
        Self::TooLarge { bytes }
    }
}
