//! Why a whole call failed. What concerns one item alone is a [`crate::Refusal`] instead.

use duly_core::{Code, Invalid, Millis, error_code::Retry, view::TooLarge};

/// Result of a call to a store.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call to a store failed as a whole.
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
        /// Why, and what to do.
        reason: String,
        /// When another try can help.
        retry_after: Millis,
    },
    /// The node was evicted and its leases ended; nothing was done. It rejoins with a new member id.
    #[error("this node was evicted")]
    Evicted,
    /// A queue of the store is full; nothing was done.
    #[error("the store cannot take more now: {reason}")]
    Overloaded {
        /// Which limit was met.
        reason: String,
        /// When another try can help.
        retry_after: Millis,
    },
    /// The answer takes more memory than the call allows; nothing was done. The same call can succeed if
    /// it allows at least so many bytes.
    #[error("the answer takes {bytes} bytes of memory, more than the call allows")]
    TooLarge {
        /// Bytes of memory of the answer, or of its first timer.
        bytes: u64,
    },
    /// Writing failed; whether the change survives is not known. Repeat the same call.
    #[error("the outcome is not known: {reason}")]
    InDoubt {
        /// What failed.
        reason: String,
    },
    /// A record that should be readable is not.
    #[error("damaged data: {0}")]
    Damaged(String),
}

impl Error {
    /// The error of a call that changes nothing, which cannot be in doubt: it is unavailable.
    #[must_use]
    pub fn of_read(self) -> Self {
        match self {
            Self::InDoubt { reason } => {
                Self::Unavailable { reason, retry_after: Millis::from_secs(1) }
            }
            other => other,
        }
    }

    /// The stable code of the contract.
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

    /// Whether the same call can help.
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
